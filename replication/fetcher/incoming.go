package fetcher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/replication/session"
)

// incoming is what the Fetcher has for one leader broker: a session, and a stream while something is wanted from it.
type incoming struct {
	f      *Fetcher
	leader cluster.BrokerID
	wake   chan struct{} // one token: run has something to look at

	mu   sync.Mutex // guards core
	core *session.Follower
}

func newIncoming(f *Fetcher, leader cluster.BrokerID) *incoming {
	return &incoming{f: f, leader: leader, wake: make(chan struct{}, 1), core: session.NewFollower(f.cfg.Resubscribe)}
}

func (l *incoming) follow(w session.Wanted) {
	l.mu.Lock()
	l.core.Follow(l.f.now(), w)
	l.mu.Unlock()
	l.signal()
}

func (l *incoming) unfollow(w session.Wanted) {
	l.mu.Lock()
	l.core.Unfollow(w)
	l.mu.Unlock()
	l.signal()
}

func (l *incoming) ack(w session.Wanted, a session.Ack) {
	l.mu.Lock()
	due := l.core.Acknowledge(w, a)
	l.mu.Unlock()
	if due {
		l.signal()
	}
}

func (l *incoming) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run keeps a stream to the leader while something is wanted from it and we are registered.
func (l *incoming) run() {
	failures := 0
	for l.f.ctx.Err() == nil {
		epoch, ok := l.wanted()
		if !ok {
			select {
			case <-l.wake:
			case <-l.f.ctx.Done():
			}
			continue
		}
		opened := l.f.now()
		err := l.dialAndServe(epoch)
		if err == nil || l.f.now()-opened >= l.f.cfg.Redial.Max {
			failures = 0 // it was of use; the next attempt is at once
			continue
		}
		if failures == 0 && l.f.ctx.Err() == nil {
			l.f.cfg.Log.Warn("no replication stream to a leader", "leader", l.leader, "err", err)
		}
		l.pause(failures, epoch)
		failures++
	}
}

// wanted reports whether a stream is needed, and the broker epoch it opens with.
func (l *incoming) wanted() (cluster.BrokerEpoch, bool) {
	epoch := cluster.BrokerEpoch(l.f.epoch.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	return epoch, epoch != cluster.NoBrokerEpoch && l.core.Len() > 0
}

// pause waits before the next attempt. A new broker epoch, or nothing wanted any more, ends it.
func (l *incoming) pause(failures int, epoch cluster.BrokerEpoch) {
	b := l.f.cfg.Redial
	wait := b.Max
	if failures < 16 {
		wait = min(b.Min<<failures, b.Max)
	}
	wait -= time.Duration(l.f.cfg.Random() * float64(wait) / 2)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-l.f.ctx.Done():
			return
		case <-l.wake:
			if now, ok := l.wanted(); !ok || now != epoch {
				return
			}
		}
	}
}

// dialAndServe opens one stream and uses it until it breaks, or until it is not wanted any more (nil).
func (l *incoming) dialAndServe(epoch cluster.BrokerEpoch) error {
	ctx, cancel := context.WithTimeout(l.f.ctx, dialTimeout)
	stream, err := l.f.cfg.Transport.DialReplication(ctx, l.leader, epoch)
	cancel()
	if err != nil {
		l.f.stats.failed.Inc()
		return err
	}
	l.f.stats.opened.Inc()
	l.mu.Lock()
	l.core.Connected(l.f.now())
	l.mu.Unlock()
	l.f.cfg.Log.Info("replication stream opened", "leader", l.leader, "broker_epoch", epoch)

	s := &receiving{incoming: l, stream: stream}
	broken := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(broken)
		s.err = s.receive()
	})
	err = s.send(epoch, broken)
	stream.Close()
	reader.Wait()
	if err != nil && s.err != nil {
		err = s.err
	}

	if err != nil {
		l.f.stats.broken.Inc()
	}
	l.mu.Lock()
	lost := l.core.Disconnected()
	l.mu.Unlock()
	l.f.cfg.Log.Info("replication stream closed", "leader", l.leader, "partitions", len(lost), "err", err)
	for _, w := range lost {
		l.f.cfg.Target.Lost(w.Partition, w.LeaderEpoch)
	}
	return err
}

// receiving is one stream in use.
type receiving struct {
	*incoming
	stream FollowerStream
	frames []session.Up // reused
	err    error        // of the reader, once it has ended
}

// send subscribes and acknowledges until the stream breaks (an error), or is to be given up (nil).
func (s *receiving) send(epoch cluster.BrokerEpoch, broken <-chan struct{}) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.subscribe()
		s.mu.Lock()
		s.frames = s.core.Frames(s.frames[:0])
		next, waits := s.core.NextDue()
		s.mu.Unlock()
		if len(s.frames) > 0 {
			if err := s.stream.Send(s.frames); err != nil {
				return err
			}
		}
		if now, ok := s.wanted(); !ok || now != epoch {
			return nil
		}
		timer.Stop()
		if waits {
			timer.Reset(max(next-s.f.now(), 0))
		}
		select {
		case <-s.wake:
		case <-timer.C:
		case <-broken:
			return errBroken
		case <-s.f.ctx.Done():
			return nil
		}
	}
}

// subscribe asks the Target where each due partition is, and begins its subscription there.
func (s *receiving) subscribe() {
	for {
		s.mu.Lock()
		w, ok := s.core.Due(s.f.now())
		s.mu.Unlock()
		if !ok {
			return
		}
		at, follows := s.f.cfg.Target.Position(w.Partition, w.LeaderEpoch)
		s.mu.Lock()
		if follows {
			s.core.Begin(s.f.now(), session.Subscribe{
				Partition: w.Partition, LeaderEpoch: w.LeaderEpoch,
				LogEnd: at.LogEnd, LastEpoch: at.LastEpoch, Flushed: at.Flushed, LogStart: at.LogStart,
			})
		} else {
			s.core.Absent(s.f.now(), w)
		}
		s.mu.Unlock()
	}
}

// receive hands what comes to the Target until the stream breaks.
func (s *receiving) receive() error {
	for {
		down, err := s.stream.Recv()
		if err != nil {
			return err
		}
		switch f := down.(type) {
		case session.Data:
			s.data(f)
		case session.Refused:
			s.mu.Lock()
			w, ok := s.core.Refused(s.f.now(), f)
			s.mu.Unlock()
			if ok {
				s.f.stats.refused.With(f.Code.String()).Inc()
				s.f.cfg.Target.Refused(w.Partition, w.LeaderEpoch, f)
				s.signal() // the time of the next attempt is known now
			}
		}
	}
}

// data hands one frame to its replica. One that does not take it begins again from its log end.
func (s *receiving) data(d session.Data) {
	s.mu.Lock()
	w, ok := s.core.Received(d.ID)
	s.mu.Unlock()
	s.f.stats.frames.Inc()
	recycle := nothing
	if len(d.Bytes) > 0 {
		recycle = (&loan{stream: s.stream, buf: d.Bytes}).giveBack
	}
	if !ok {
		recycle()
		return
	}
	if s.f.cfg.Target.Data(w.Partition, w.LeaderEpoch, d, recycle) {
		return
	}
	recycle()
	s.f.stats.overruns.Inc()
	s.mu.Lock()
	s.core.Overrun(s.f.now(), d.ID)
	s.mu.Unlock()
	s.signal()
}

func nothing() {}

// loan is a buffer that the Target has. It goes back once, however often it is given back: twice would hand it to two frames.
type loan struct {
	stream FollowerStream
	buf    []byte
	back   atomic.Bool
}

func (l *loan) giveBack() {
	if !l.back.Swap(true) {
		l.stream.Recycle(l.buf)
	}
}
