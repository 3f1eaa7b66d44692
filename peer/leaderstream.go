package peer

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/moldau-log/moldau/internal/sendfile"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/replication/session"
)

const (
	gatherMax   = 64 << 10  // larger ranges go from the file to the socket without a copy
	gatherBuf   = 256 << 10 // small ranges and frames gather up to this, then go out in one write
	upReadBuf   = 16 << 10
	downReadBuf = 8 << 10 // small: what of a batch lands here is copied once more
)

// leaderStream is the leader's end of a replication stream. Recv belongs to one goroutine, the sending methods to another.
type leaderStream struct {
	*link
	in    *bufio.Reader
	out   []byte // whole frames that are not written yet; at most gatherBuf plus one frame of gatherMax
	stats *counters
	max   int
}

var _ fetcher.LeaderStream = (*leaderStream)(nil)

// replicationPingFrame is the encoded ping.
func replicationPingFrame() []byte { return []byte{0, 0, 0, 1, byte(replicationPing)} }

func (p *Peer) newLeaderStream(conn net.Conn) *leaderStream {
	return &leaderStream{
		link:  newLink(conn, replicationPingFrame(), p.cfg.timing),
		in:    bufio.NewReaderSize(&impatient{conn: conn, patience: p.cfg.timing.dead}, upReadBuf),
		stats: p.stats,
		max:   p.cfg.MaxData,
	}
}

// serveReplication gives an accepted stream to the handler and ends it when the handler returns.
func (p *Peer) serveReplication(conn net.Conn, h hello) {
	serve := p.handlers.Load().Replication
	if serve == nil {
		return
	}
	s := p.newLeaderStream(conn)
	defer s.Close()
	serve(h.From.Broker, h.Epoch, s)
}

// Recv returns the follower's next frame.
func (s *leaderStream) Recv() (session.Up, error) {
	var body [maxSmallFrame]byte
	for {
		t, n, err := readHead(s.in)
		if err != nil {
			return nil, err
		}
		if n > maxSmallFrame {
			return nil, fmt.Errorf("%w: %d bytes from a follower", errFrameTooLarge, n)
		}
		if _, err := io.ReadFull(s.in, body[:n]); err != nil {
			return nil, fmt.Errorf("peer: read replication frame: %w", err)
		}
		if t != replicationPing {
			return decodeUp(t, body[:n])
		}
	}
}

// readHead reads the length and type of a frame; n is what follows them.
func readHead(in *bufio.Reader) (t replicationFrame, n int, err error) {
	var head [replicationHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, 0, fmt.Errorf("peer: read replication frame: %w", err)
	}
	length := binary.BigEndian.Uint32(head[:])
	if length < 1 {
		return 0, 0, errFrameMangled
	}
	return replicationFrame(head[4]), int(length - 1), nil
}

// SendData writes a data frame with the bytes of r. Small ones stay in the buffer until Flush or until it is full.
func (s *leaderStream) SendData(d session.Data, r fetcher.Range) error {
	n := 0
	if r != nil {
		n = r.Len()
	}
	if dataHead+n > s.max {
		return fmt.Errorf("%w: %d bytes of batches", errFrameTooLarge, n)
	}
	s.grow(dataHead + n)
	s.out = appendDataHead(s.out, d, n)
	s.stats.bytesOut.Add(int64(n))
	if n > gatherMax {
		return s.flushWith(r)
	}
	if n > 0 {
		before := len(s.out)
		var err error
		if s.out, err = r.AppendTo(s.out); err == nil && len(s.out)-before != n {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			// The head promises n bytes that do not exist: the stream is of no more use.
			s.close()
			return fmt.Errorf("peer: read range: %w", err)
		}
	}
	if len(s.out) >= gatherBuf-gatherMax {
		return s.Flush()
	}
	return nil
}

// grow makes room for a frame, twice as much each time, so that an idle stream has no large buffer and a busy one allocates no more.
func (s *leaderStream) grow(n int) {
	n = min(n, dataHead+gatherMax)
	if cap(s.out)-len(s.out) >= n {
		return
	}
	grown := make([]byte, len(s.out), max(2*cap(s.out), len(s.out)+n))
	copy(grown, s.out)
	s.out = grown
}

// flushWith writes the buffer and then a large range.
func (s *leaderStream) flushWith(r fetcher.Range) error {
	<-s.token
	s.conn.SetWriteDeadline(time.Now().Add(s.times.write))
	_, err := s.conn.Write(s.out)
	s.out = s.out[:0]
	if err == nil {
		err = sendfile.SendRange(s.conn, r, nil)
	}
	s.release()
	if err != nil {
		s.close()
		return fmt.Errorf("peer: send range: %w", err)
	}
	return nil
}

// SendRefused writes a refusal into the buffer.
func (s *leaderStream) SendRefused(r session.Refused) error {
	s.out = appendRefused(s.out, r)
	if len(s.out) >= gatherBuf-gatherMax {
		return s.Flush()
	}
	return nil
}

// Flush writes what is buffered.
func (s *leaderStream) Flush() error {
	if len(s.out) == 0 {
		return nil
	}
	err := s.write(net.Buffers{s.out})
	s.out = s.out[:0]
	return err
}

// Close ends the stream; a Recv in progress returns an error.
func (s *leaderStream) Close() error {
	s.close()
	return nil
}
