package fetcher

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/replication/session"
)

// SenderConfig says what a Sender reads from.
type SenderConfig struct {
	Source Source
	// Limits bounds each stream; session.DefaultLimits if zero.
	Limits session.Limits
	Log    *slog.Logger
}

// Sender serves the replication streams that followers open. Its only state is configuration: every stream stands alone.
type Sender struct{ cfg SenderConfig }

// NewSender returns a Sender.
func NewSender(cfg SenderConfig) *Sender {
	if cfg.Limits == (session.Limits{}) {
		cfg.Limits = session.DefaultLimits()
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Sender{cfg: cfg}
}

// Serve runs one stream until it breaks, and closes it. It blocks; package peer gives it a goroutine.
func (s *Sender) Serve(follower cluster.BrokerID, epoch cluster.BrokerEpoch, stream LeaderStream) {
	o := &outgoing{
		source:   s.cfg.Source,
		follower: follower,
		epoch:    epoch,
		stream:   stream,
		wake:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		core:     session.NewLeader(s.cfg.Limits),
		readers:  make(map[session.SubscriptionID]Reader),
	}
	s.cfg.Log.Info("follower connected", "follower", follower, "broker_epoch", epoch)
	var writer sync.WaitGroup
	writer.Go(o.write)
	err := o.read()
	stream.Close()
	close(o.done)
	writer.Wait()
	for _, sub := range o.end() {
		s.cfg.Source.Unsubscribe(follower, epoch, sub.Partition, sub.ID)
	}
	s.cfg.Log.Info("follower disconnected", "follower", follower, "broker_epoch", epoch, "err", err)
}

// outgoing is one stream to a follower.
type outgoing struct {
	source   Source
	follower cluster.BrokerID
	epoch    cluster.BrokerEpoch
	stream   LeaderStream
	wake     chan struct{} // one token: the writer has something to look at
	done     chan struct{} // the stream has ended

	mu      sync.Mutex // guards the rest
	core    *session.Leader
	readers map[session.SubscriptionID]Reader
	refused []session.Refused // to be written; at most one per subscription
}

var _ Sink = (*outgoing)(nil)

// Accepted lets the sending of a subscription begin.
func (o *outgoing) Accepted(id session.SubscriptionID, r Reader) {
	o.mu.Lock()
	ok := o.core.Accepted(id)
	if ok {
		o.readers[id] = r
	}
	o.mu.Unlock()
	if ok {
		o.signal()
	}
}

// Wake says that a subscription has more to send.
func (o *outgoing) Wake(id session.SubscriptionID) {
	o.mu.Lock()
	news := o.core.Wake(id)
	o.mu.Unlock()
	if news {
		o.signal()
	}
}

// Refused ends a subscription and tells the follower.
func (o *outgoing) Refused(r session.Refused) {
	o.mu.Lock()
	_, ok := o.core.End(r.ID)
	if ok {
		delete(o.readers, r.ID)
		o.refused = append(o.refused, r)
	}
	o.mu.Unlock()
	if ok {
		o.signal()
	}
}

// signal wakes the writer. One token is enough: the writer looks at everything.
func (o *outgoing) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// read takes the follower's frames until the stream breaks or the follower breaks the protocol.
func (o *outgoing) read() error {
	for {
		up, err := o.stream.Recv()
		if err != nil {
			return err
		}
		switch f := up.(type) {
		case session.Subscribe:
			err = o.subscribe(f)
		case session.Unsubscribe:
			o.unsubscribe(f.ID)
		case session.Ack:
			o.acked(f)
		}
		if err != nil {
			return fmt.Errorf("fetcher: broker %d: %w", o.follower, err)
		}
	}
}

func (o *outgoing) subscribe(s session.Subscribe) error {
	o.mu.Lock()
	old, superseded, err := o.core.Subscribe(s)
	delete(o.readers, old)
	o.mu.Unlock()
	if superseded {
		o.source.Unsubscribe(o.follower, o.epoch, s.Partition, old)
	}
	if err != nil {
		return err
	}
	o.source.Subscribe(o.follower, o.epoch, s, o)
	return nil
}

func (o *outgoing) unsubscribe(id session.SubscriptionID) {
	o.mu.Lock()
	tp, ok := o.core.End(id)
	delete(o.readers, id)
	ready := o.core.Ready() // its credit is free again
	o.mu.Unlock()
	if ok {
		o.source.Unsubscribe(o.follower, o.epoch, tp, id)
	}
	if ready {
		o.signal()
	}
}

func (o *outgoing) acked(a session.Ack) {
	o.mu.Lock()
	of, ok := o.core.Acked(a)
	ready := o.core.Ready()
	o.mu.Unlock()
	if ready {
		o.signal()
	}
	if ok {
		o.source.Ack(o.follower, o.epoch, of.Partition, of.LeaderEpoch, a)
	}
}

// write sends until the stream ends. A failed write closes the stream, which ends the reader too.
func (o *outgoing) write() {
	for {
		select {
		case <-o.wake:
		case <-o.done:
			return
		}
		if err := o.drain(); err != nil {
			o.stream.Close()
			return
		}
	}
}

// drain sends everything that may be sent now, then pushes it out.
func (o *outgoing) drain() error {
	for {
		o.mu.Lock()
		refused := o.refused
		o.refused = nil
		send, ok := o.core.Next()
		reader := o.readers[send.ID]
		o.mu.Unlock()
		for _, r := range refused {
			if err := o.stream.SendRefused(r); err != nil {
				return err
			}
		}
		if !ok {
			return o.stream.Flush()
		}
		if err := o.turn(send, reader); err != nil {
			return err
		}
	}
}

// turn reads one stretch of one partition and sends it.
func (o *outgoing) turn(send session.Send, reader Reader) error {
	r, end, watermark, start, err := reader.ReadReplica(send.From, send.Max)
	if err != nil {
		o.unreadable(send, err)
		return nil
	}
	found := session.Found{HighWatermark: watermark, LogStart: start}
	if r != nil {
		defer r.Release()
		found.Bytes, found.End = r.Len(), end
	}
	o.mu.Lock()
	due := o.core.Sent(send.ID, found)
	o.mu.Unlock()
	if !due {
		return nil
	}
	if found.Bytes == 0 {
		r = nil
	}
	return o.stream.SendData(session.Data{ID: send.ID, HighWatermark: watermark, LogStart: start, First: send.From}, r)
}

// unreadable ends a subscription whose position cannot be read: the log was truncated, cut at the front, or closed since. The follower asks again, and the
// leader's core, if it still leads, says what is to be done.
func (o *outgoing) unreadable(send session.Send, err error) {
	code := cluster.CodeStorage
	var refusal *cluster.Error
	if errors.As(err, &refusal) {
		code = refusal.Code
	}
	o.mu.Lock()
	tp, ok := o.core.End(send.ID)
	delete(o.readers, send.ID)
	if ok {
		o.refused = append(o.refused, session.Refused{ID: send.ID, Code: code, LeaderEpoch: -1, LogStart: -1})
	}
	o.mu.Unlock()
	if ok {
		o.source.Unsubscribe(o.follower, o.epoch, tp, send.ID)
	}
}

// end takes every subscription out, so that late calls of the Source change nothing, and returns them.
func (o *outgoing) end() []session.Subscribe {
	o.mu.Lock()
	defer o.mu.Unlock()
	subs := o.core.Subscriptions()
	for _, s := range subs {
		o.core.End(s.ID)
	}
	o.readers, o.refused = nil, nil
	return subs
}
