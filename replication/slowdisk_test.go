package replication_test

import (
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/replication"
)

// slowDisk is a broker's disk on which an fsync takes its time. The disks of the others take none.
type slowDisk struct {
	w     *world
	n     *node
	takes time.Duration
	until time.Duration // when the fsync in progress ends; 0: none
	// asked is when each request came that has no answer yet; worst is the longest wait of one that got its answer.
	asked map[replication.RequestID]time.Duration
	worst time.Duration
}

// run lets a producer ask for a record every 100 ms for d.
func (s *slowDisk) run(t *testing.T, d time.Duration) {
	t.Helper()
	const step = 20 * time.Millisecond
	s.worst = 0
	for end := s.w.now + d; s.w.now < end; {
		if s.w.now%(5*step) == 0 {
			r := s.w.node(1).produce(replication.AcksISR, s.w.now+time.Minute)
			s.asked[r] = s.w.now
		}
		s.settle()
		for r, at := range s.asked {
			answer, ok := s.w.answers[r]
			if !ok {
				continue
			}
			if answer.Code != cluster.CodeNone {
				t.Fatalf("request %d: %s", r, answer.Code)
			}
			s.worst = max(s.worst, s.w.now-at)
			delete(s.asked, r)
		}
		s.w.tickAfter(step)
	}
}

// settle delivers everything and flushes on every disk but the slow one, where one fsync at a time takes as long as it takes.
func (s *slowDisk) settle() {
	for again := true; again; {
		for len(s.w.wire) > 0 {
			s.w.deliver(s.w.take(0))
		}
		again = false
		for _, n := range s.w.nodes {
			if n != s.n && n.wantFlush {
				n.flush()
				again = true
			}
		}
		switch {
		case s.until > 0 && s.w.now >= s.until:
			s.until = 0
			s.n.finishFlush()
			again = true
		case s.until == 0 && s.n.wantFlush:
			s.n.beginFlush()
			s.until = s.w.now + s.takes
			again = true
		}
		again = again || len(s.w.wire) > 0
	}
}

// A follower whose fsync takes 200 ms keeps up: it stays, without any change of the ISR, and a produce waits for at most two of its flushes. One whose fsync
// takes longer than replica.lag.time.max leaves, once; the others are then as fast as before; when its disk has recovered it comes back, once.
func TestCase51_SlowFollowerStaysOrLeavesOnce(t *testing.T) {
	w := started(t)
	s := &slowDisk{w: w, n: w.node(3), takes: 200 * time.Millisecond, asked: map[replication.RequestID]time.Duration{}}
	before := w.ctl.partition.PartitionEpoch
	s.run(t, time.Minute)
	if p := w.ctl.partition; len(p.ISR) != 3 || p.PartitionEpoch != before {
		t.Fatalf("while it keeps up: ISR %v, partition epoch %d after %d", p.ISR, p.PartitionEpoch, before)
	}
	if s.worst < s.takes || s.worst > 2*s.takes+20*time.Millisecond {
		t.Errorf("a produce waited %v for a follower that flushes in %v", s.worst, s.takes)
	}
	s.takes = 30 * time.Second
	s.run(t, 40*time.Second)
	if p := w.ctl.partition; len(p.ISR) != 2 || p.PartitionEpoch != before+1 {
		t.Fatalf("while it hangs: ISR %v, partition epoch %d after %d", p.ISR, p.PartitionEpoch, before)
	}
	if limit := w.config.LagMax; s.worst > limit+2*time.Second {
		t.Errorf("a produce waited %v, the follower may be %v behind", s.worst, limit)
	}
	s.run(t, 20*time.Second)
	if s.worst > 20*time.Millisecond {
		t.Errorf("a produce waits %v after it has left", s.worst)
	}
	s.takes = 10 * time.Millisecond
	s.run(t, time.Minute)
	if p := w.ctl.partition; len(p.ISR) != 3 || p.PartitionEpoch != before+2 {
		t.Errorf("after it has recovered: ISR %v, partition epoch %d after %d", p.ISR, p.PartitionEpoch, before)
	}
}
