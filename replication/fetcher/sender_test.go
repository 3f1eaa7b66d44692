package fetcher

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
)

// serving runs a Sender over a pipe; end waits for it.
func serving(t *testing.T, s *source, limits session.Limits) (p *pipe, end func()) {
	p = newPipe(5)
	done := make(chan struct{})
	sender := NewSender(SenderConfig{Source: s, Limits: limits, Log: slog.New(slog.DiscardHandler)})
	go func() {
		defer close(done)
		sender.Serve(1, 5, leaderEnd{p})
	}()
	return p, func() {
		p.Close()
		<-done
	}
}

func TestSenderSendsFromThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		s.append(tp(1), 3)
		s.hw[tp(1)] = 2
		p, end := serving(t, s, session.Limits{})
		p.up <- session.Subscribe{ID: 1, Partition: tp(1), LogEnd: 1}
		expect(t, p.down, session.Data{ID: 1, HighWatermark: 2, First: 1, Bytes: append(batch(1), batch(2)...)})
		quiet(t, p.down)

		// Only the watermark moves.
		s.mu.Lock()
		s.hw[tp(1)] = 3
		s.mu.Unlock()
		s.append(tp(1), 0)
		expect(t, p.down, session.Data{ID: 1, HighWatermark: 3, First: 3})
		s.append(tp(1), 0)
		quiet(t, p.down)

		p.up <- session.Ack{ID: 1, LogEnd: 3, Flushed: 3}
		synctest.Wait()
		if len(s.acks) != 1 || s.acks[0].Flushed != 3 {
			t.Errorf("acks are %v", s.acks)
		}
		p.up <- session.Unsubscribe{ID: 1}
		synctest.Wait()
		if s.subscribed() != 0 {
			t.Error("unsubscribe does not reach the source")
		}
		p.up <- session.Ack{ID: 1, LogEnd: 3}
		synctest.Wait()
		if len(s.acks) != 1 {
			t.Error("an ack of an ended subscription reaches the source")
		}
		end()
		if s.ranges != s.released {
			t.Errorf("%d ranges were read and %d released", s.ranges, s.released)
		}
	})
}

func TestSenderRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		want := session.Refused{ID: 1, Code: cluster.CodeFencedLeaderEpoch, LeaderEpoch: 9, Diverged: true, Divergence: cluster.EpochEnd{Epoch: 3, End: 8}}
		s.refuse[tp(1)] = want
		p, end := serving(t, s, session.Limits{})
		defer end()
		p.up <- session.Subscribe{ID: 1, Partition: tp(1)}
		expect(t, p.down, want)

		// A log that cannot be read at the position ends that subscription alone.
		s.append(tp(3), 1)
		p.up <- session.Subscribe{ID: 2, Partition: tp(2)}
		p.up <- session.Subscribe{ID: 3, Partition: tp(3)}
		synctest.Wait()
		<-p.down
		<-p.down
		s.mu.Lock()
		s.unreadable = errors.New("closed")
		s.mu.Unlock()
		s.append(tp(2), 1)
		expect(t, p.down, session.Refused{ID: 2, Code: cluster.CodeStorage, LeaderEpoch: -1, LogStart: -1})
		if s.subscribed() != 1 {
			t.Errorf("%d subscriptions are left", s.subscribed())
		}
	})
}

func TestSenderEndsOnProtocolErrorAndFreesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		p, end := serving(t, s, session.Limits{})
		p.up <- session.Subscribe{ID: 2, Partition: tp(1)}
		p.up <- session.Subscribe{ID: 3, Partition: tp(2)}
		synctest.Wait()
		if s.subscribed() != 2 {
			t.Fatalf("%d are subscribed", s.subscribed())
		}
		sink := s.sinks[tp(1)]
		p.up <- session.Subscribe{ID: 2, Partition: tp(3)}
		expect(t, p.end, struct{}{})
		end()
		if s.subscribed() != 0 {
			t.Errorf("%d are still subscribed", s.subscribed())
		}
		sink.sink.Wake(sink.id) // late, and harmless
		sink.sink.Refused(session.Refused{ID: sink.id})
	})
}

// The credit holds when a follower takes nothing, and a stalled partition does not hold up another.
func TestSenderKeepsToItsCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		s.append(tp(1), 1000)
		s.append(tp(2), 2)
		p, end := serving(t, s, session.Limits{StreamCredit: 40 * batchSize, PartitionCredit: 20 * batchSize, MaxSend: 10 * batchSize, MaxSubscriptions: 10})
		defer end()
		p.up <- session.Subscribe{ID: 1, Partition: tp(1)}
		got := map[session.SubscriptionID]int{}
		take := func() {
			for {
				synctest.Wait()
				select {
				case d := <-p.down:
					got[d.(session.Data).ID] += len(d.(session.Data).Bytes) / batchSize
				default:
					return
				}
			}
		}
		take()
		if got[1] != 20 {
			t.Errorf("%d batches are under way of a credit of 20", got[1])
		}
		p.up <- session.Subscribe{ID: 2, Partition: tp(2)}
		take()
		if got[2] != 2 {
			t.Errorf("the other partition got %d batches of 2", got[2])
		}
		for range 100 {
			p.up <- session.Ack{ID: 1, LogEnd: record.Offset(got[1])}
			take()
		}
		if got[1] != 1000 {
			t.Errorf("%d batches arrived of 1000", got[1])
		}
	})
}
