package kafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/internal/admission"
	"github.com/moldau-log/moldau/internal/budget"
	"github.com/moldau-log/moldau/internal/conns"
)

// readAhead is how many whole requests wait behind the one that is handled.
const readAhead = 4

// Sizes of a connection's own buffers in bytes. An answer larger than keepAnswer does not leave its buffer behind.
const (
	readBuffer  = 16 << 10
	writeBuffer = 16 << 10
	keepAnswer  = 256 << 10
)

// unreadAnswers is how many bytes of answers a connection may have waiting before they count against what all connections share.
const unreadAnswers = 64 << 10

// slowestReader is the rate in bytes per second below which a client that takes an answer is given up: what it holds is missing to others.
const slowestReader = 256 << 10

// smallAnswer is how many bytes of copied records an answer may have without room in what all connections share.
const smallAnswer = 16 << 10

// frame is a request as it came, without its length.
type frame struct {
	bytes []byte
	start time.Time
}

// conn is one client connection.
type conn struct {
	s        *Server
	net      net.Conn
	reading  *readSide
	listener Listener        // through which the client has come
	ctx      context.Context // ended when the client has gone or the door closes
	cancel   context.CancelFunc
	frames   chan frame
	asked    *budget.Budget // bytes of requests held
	waiting  *budget.Budget // bytes of encoded answers that are not written
	slots    chan *slot
	checker  *admission.Checker // of the handler
	// appending counts batches that are with the broker and not appended yet. Only the handler adds and waits.
	appending sync.WaitGroup
	muted     time.Duration // of the handler: how long the next request waits
	dead      chan struct{} // closed when a handler has panicked: its answer will not come
	client    string        // software name and version, as the client says it
}

func newConn(s *Server, as Listener, nc net.Conn) *conn {
	c := &conn{s: s, net: nc, reading: &readSide{net: nc}, listener: as, frames: make(chan frame, readAhead), slots: make(chan *slot, s.cfg.MaxPipelined), dead: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.checker = s.admission()
	c.asked, c.waiting = budget.New(s.cfg.MaxConnectionBytes), budget.New(s.cfg.MaxConnectionBytes)
	return c
}

// run serves the connection until either side ends it.
func (c *conn) run() {
	defer c.net.Close()
	defer c.cancel()
	conns.BoundUnsent(c.net)
	var wg sync.WaitGroup
	wg.Go(c.read)
	wg.Go(c.write)
	c.handleAll()
	close(c.slots)
	wg.Wait()
}

// stopReading makes the reader end; what it has read is still answered.
func (c *conn) stopReading() { c.reading.end() }

// read is the reader. When it ends, the client gets no more than the answers to what was read.
func (c *conn) read() {
	defer close(c.frames)
	defer c.cancel()
	r := frameReader{net: c.reading, in: bufio.NewReaderSize(c.net, readBuffer), max: c.s.cfg.MaxRequestBytes, idle: c.s.cfg.IdleTimeout, step: c.s.cfg.FrameTimeout, buffers: c.s.buffers, ctx: c.ctx, held: c.s.held, alone: c.alone}
	for {
		n, err := r.size()
		var garbage errGarbage
		if errors.As(err, &garbage) {
			c.log(slog.LevelWarn, "kafka: connection closed: this is not the Kafka protocol", slog.String("received", garbage.what))
			return
		}
		if err != nil {
			return
		}
		if err := c.admit(&r, n); err != nil {
			var much errTooMuch
			if errors.As(err, &much) {
				c.log(slog.LevelWarn, "kafka: connection closed", slog.Any("reason", err))
			}
			return
		}
		body, err := r.body(n)
		var slow errGaveWay
		if errors.As(err, &slow) {
			c.log(slog.LevelWarn, "kafka: connection closed", slog.Any("reason", slow))
		}
		if err != nil {
			c.asked.Give(n)
			return
		}
		select {
		case c.frames <- frame{body, time.Now()}:
		case <-c.s.ctx.Done():
			c.release(body)
			return
		}
	}
}

// admit waits until the connection may read a request of n bytes. A large one that is structure throughout waits until the client has taken its earlier answers: who does
// not read keeps no more of what all share.
func (c *conn) admit(r *frameReader, n int) error {
	key, err := r.key()
	if err != nil {
		return err
	}
	if err := sized(key, n); err != nil {
		return err
	}
	if n > largeRequest && !payload(key) {
		if err := c.asked.Empty(c.ctx); err != nil {
			return err
		}
		if err := c.waiting.Empty(c.ctx); err != nil {
			return err
		}
	}
	return c.asked.Take(c.ctx, n)
}

// alone reports whether the connection holds no request but one of n bytes, which it has admitted.
func (c *conn) alone(n int) bool { return c.asked.Held() == int64(n) }

// unhold gives back what the connection and the door count for a request of n bytes.
func (c *conn) unhold(n int) {
	c.s.held.Give(n)
	c.asked.Give(n)
}

// release gives a request's bytes back.
func (c *conn) release(frame []byte) {
	n := len(frame)
	c.s.buffers.put(frame)
	c.unhold(n)
}

// ready encodes an answer in the handler, so that its size is known: a client that asks and does not read holds up its own requests, not the memory. Fetch has
// encoded its own; with records in it the next request waits until it is written, so that it is the only one.
func (c *conn) ready(s *slot) error {
	if s.free != nil {
		s.worked()
		return nil
	}
	encoded := s.encoded
	if encoded == nil {
		var err error
		if encoded, err = c.encode(c.s.buffers.get(smallestBuffer), s); err != nil {
			return err
		}
	}
	s.response = nil
	n := cap(encoded)
	if err := c.waiting.Take(c.ctx, n); err != nil {
		c.s.buffers.put(encoded)
		return err
	}
	if c.waiting.Held() > unreadAnswers {
		if err := c.s.answers.Take(c.ctx, n); err != nil {
			c.s.buffers.put(encoded)
			c.waiting.Give(n)
			return err
		}
		s.shares, s.share = c.s.answers, n
	}
	s.worked()
	s.encoded = encoded
	s.sent = func() {
		c.s.buffers.put(encoded)
		c.waiting.Give(n)
	}
	return nil
}

// handleAll works on requests one after another. After a request that cannot be answered the connection ends.
func (c *conn) handleAll() {
	var err error
	for f := range c.frames {
		if err == nil {
			err = c.safely(f)
			if err != nil {
				if !errors.Is(err, context.Canceled) && !errors.Is(err, errPanicked) { // canceled: the client has gone, or the door closes; the panic is logged
					c.log(slog.LevelWarn, "kafka: connection closed", slog.Any("reason", err))
				}
				c.cancel()
				c.stopReading()
			}
			c.pause()
			continue
		}
		c.release(f.bytes)
	}
}

// safely handles a request and makes a panic an error: one bad request must not end the broker.
func (c *conn) safely(f frame) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log(slog.LevelError, "kafka: connection closed: a request has panicked", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			err = errPanicked
			close(c.dead)
		}
	}()
	return c.handle(f)
}

func (c *conn) handle(f frame) error {
	h, rest, err := parseHeader(f.bytes)
	if err != nil {
		c.release(f.bytes)
		return err
	}
	a, known := c.s.apis[h.key]
	s := &slot{key: h.key, version: h.version, correlation: h.correlation, clientID: h.clientID, start: f.start, outcome: outcomeNone, done: make(chan struct{}), written: make(chan struct{})}
	if !known || h.version < a.least() || h.version > a.max {
		c.release(f.bytes)
		if h.key == keyApiVersions {
			s.version, s.response = 0, c.unsupportedApiVersions()
			close(s.done)
			return c.queue(s)
		}
		return fmt.Errorf("kafka: %s (key %d) version %d is not offered; client id %q", kmsg.NameForKey(h.key), h.key, h.version, h.clientID)
	}
	defer s.worked()
	req, err := c.decode(s, h, rest)
	if err != nil {
		c.release(f.bytes)
		return err
	}
	if produce, ok := req.(*kmsg.ProduceRequest); ok {
		return c.produce(s, produce, f.bytes)
	}
	s.held, s.frame = c.s.held, len(f.bytes)
	defer c.asked.Give(len(f.bytes)) // the bytes themselves may live on in what the request has started
	defer s.unframe(0)
	c.appending.Wait()
	return c.answer(a, req, s)
}

// decode reads the rest of a request behind the client id, when there is room for what it decodes to.
func (c *conn) decode(s *slot, h header, rest []byte) (kmsg.Request, error) {
	req := kmsg.RequestForKey(h.key)
	req.SetVersion(h.version)
	malformed := func(err error) error {
		return fmt.Errorf("kafka: malformed %s version %d of client id %q: %w", kmsg.NameForKey(h.key), h.version, h.clientID, err)
	}
	if req.IsFlexible() {
		var err error
		if rest, err = skipTags(rest); err != nil {
			return nil, malformed(err)
		}
	}
	of, n, err := c.s.weigh(h, req.IsFlexible(), rest)
	if errors.Is(err, errShortBody) {
		return nil, malformed(err)
	}
	if err != nil {
		return nil, err
	}
	if err := s.work(c.ctx, of, n); err != nil {
		return nil, err
	}
	if err := req.ReadFrom(rest); err != nil {
		return nil, malformed(err)
	}
	return req, nil
}

// answer has a request handled, and gives its answer to the writer.
func (c *conn) answer(a api, req kmsg.Request, s *slot) (err error) {
	queued := false
	defer func() {
		if queued { // the writer does it
			return
		}
		s.unshare() // also after a panic
		if s.free != nil {
			s.free()
		}
	}()
	s.response, err = a.handle(c, broker.Request(c.ctx), req, s)
	if err != nil {
		return err
	}
	if err := c.ready(s); err != nil {
		return err
	}
	close(s.done)
	queued = true
	if err := c.queue(s); err != nil {
		return err
	}
	if s.free == nil {
		return nil
	}
	<-s.written // an answer that holds much is not joined by a second one
	return nil
}

// queue gives the slot its place; it waits while too many answers are outstanding.
func (c *conn) queue(s *slot) error {
	c.slots <- s // the writer takes every slot until the channel is closed, also after a failure
	return nil
}

// write is the writer.
func (c *conn) write() {
	out := bufio.NewWriterSize(c.net, writeBuffer)
	var buf []byte
	var err error
	for {
		var s *slot
		var ok bool
		select {
		case s, ok = <-c.slots:
		default: // nothing more is queued: send what is gathered
			if err == nil {
				err = c.failed(out.Flush())
			}
			s, ok = <-c.slots
		}
		if !ok {
			break
		}
		select {
		case <-s.done:
		default:
			if err == nil {
				err = c.failed(out.Flush())
			}
			select {
			case <-s.done:
			case <-c.dead: // this answer, or one before it, never comes
				err = c.failed(errPanicked)
			}
		}
		if err == nil {
			buf, err = c.send(out, buf, s)
			err = c.failed(err)
		}
		c.finish(s)
		if cap(buf) > keepAnswer {
			buf = nil
		}
	}
	if err == nil {
		_ = c.failed(out.Flush())
	}
}

// send writes one answer; buf is kept from one to the next.
func (c *conn) send(out *bufio.Writer, buf []byte, s *slot) ([]byte, error) {
	if s.encoded == nil {
		var err error
		if buf, err = c.encode(buf[:0], s); err != nil {
			return buf, err
		}
		c.patience(len(buf))
		_, err = out.Write(buf)
		return buf, err
	}
	c.patience(len(s.encoded))
	var slow *budget.Holder
	if s.shares != nil { // others may find no room while this client does not read
		slow = s.shares.Holder(func() { c.net.Close() })
		slow.Waits(s.share, s.size())
		defer slow.Goes()
	}
	return buf, c.sendFetch(out, s, slow)
}

// patience bounds the time in which the client takes n bytes.
func (c *conn) patience(n int) {
	_ = c.net.SetWriteDeadline(time.Now().Add(c.s.cfg.FrameTimeout + time.Duration(n/slowestReader)*time.Second))
}

var errPanicked = errors.New("kafka: a request on this connection has panicked")

// failed ends the connection after a write error.
func (c *conn) failed(err error) error {
	if err != nil {
		c.cancel()
		c.net.Close()
	}
	return err
}

func (c *conn) finish(s *slot) {
	if s.free != nil {
		s.free()
	}
	if s.sent != nil {
		s.sent()
	}
	s.unshare()
	close(s.written)
	if d := c.s.meters.durations[s.key]; d != nil {
		d.Observe(time.Since(s.start).Seconds())
		c.s.meters.requests.With(apiLabel(s.key), s.outcome).Inc()
	}
}

// encode appends the answer with its length and header.
func (c *conn) encode(dst []byte, s *slot) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log(slog.LevelError, "kafka: an answer cannot be encoded", slog.Int("key", int(s.key)), slog.Any("panic", p))
			err = errors.New("kafka: an answer cannot be encoded")
		}
	}()
	s.response.SetVersion(s.version)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.correlation))
	if s.response.IsFlexible() && s.key != keyApiVersions { // its header is never flexible: a client reads it before it knows the version (KIP-511)
		dst = append(dst, 0)
	}
	dst = s.response.AppendTo(dst)
	binary.BigEndian.PutUint32(dst, uint32(len(dst)-4))
	return dst, nil
}

func (c *conn) log(level slog.Level, message string, attrs ...any) {
	attrs = append(attrs, slog.String("client", c.net.RemoteAddr().String()))
	if c.client != "" {
		attrs = append(attrs, slog.String("software", c.client))
	}
	c.s.log.Log(context.Background(), level, message, attrs...)
}

// outcomeNone is the outcome of a request in which nothing was refused.
const outcomeNone = "none"

// errorLabel is the label of a Kafka error.
func errorLabel(code int16) string { return "error_" + strconv.Itoa(int(code)) }
