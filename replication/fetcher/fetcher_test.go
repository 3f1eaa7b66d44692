package fetcher

import (
	"errors"
	"log/slog"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
)

// rig is a Fetcher over pipes.
type rig struct {
	*Fetcher
	transport *transport
	target    *target
}

// inBubble runs a test with a Fetcher under a fake clock.
func inBubble(t *testing.T, f func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{transport: &transport{dialled: make(chan *pipe)}, target: newTarget()}
		r.Fetcher = New(Config{Transport: r.transport, Target: r.target, Random: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler)})
		defer r.Close()
		f(t, r)
	})
}

func expect[T any](t *testing.T, ch <-chan T, want any) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-ch:
		if !reflect.DeepEqual(any(got), want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	default:
		t.Errorf("nothing came, want %+v", want)
	}
}

func quiet[T any](t *testing.T, ch <-chan T) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-ch:
		t.Errorf("got %+v, want nothing", got)
	default:
	}
}

func TestFetcherSubscribesWhenRegistered(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.target.ends[tp(1)] = 40
		r.Follow(tp(1), 2, 7)
		quiet(t, r.transport.dialled) // not registered yet
		r.SetEpoch(99)
		p := <-r.transport.dialled
		if p.epoch != 99 {
			t.Errorf("dialled with broker epoch %d", p.epoch)
		}
		expect(t, p.up, session.Subscribe{ID: 1, Partition: tp(1), LeaderEpoch: 7, LogEnd: 40, Flushed: 40, LastEpoch: record.NoEpoch})

		// A second partition of the same leader shares the stream; one of another leader does not.
		r.Follow(tp(3), 2, 1)
		expect(t, p.up, session.Subscribe{ID: 2, Partition: tp(3), LeaderEpoch: 1, LastEpoch: record.NoEpoch})
		r.Follow(tp(4), 5, 1)
		other := <-r.transport.dialled
		expect(t, other.up, session.Subscribe{ID: 1, Partition: tp(4), LeaderEpoch: 1, LastEpoch: record.NoEpoch})

		// The last one wanted from a broker takes the stream with it.
		r.Unfollow(tp(4), 1)
		expect(t, other.end, struct{}{})
		quiet(t, r.target.events) // what is given up is not lost

		// A new registration opens every stream again.
		r.SetEpoch(100)
		again := <-r.transport.dialled
		expect(t, p.end, struct{}{})
		if again.epoch != 100 {
			t.Errorf("dialled with broker epoch %d", again.epoch)
		}
	})
}

// A partition whose leader changes moves to the new leader's stream, and late calls of the old epoch change nothing.
func TestFetcherMovesToTheNewLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.SetEpoch(1)
		r.Follow(tp(1), 2, 7)
		r.Follow(tp(9), 2, 1) // keeps the old stream open
		old := <-r.transport.dialled
		synctest.Wait()
		<-old.up
		<-old.up
		r.Follow(tp(1), 3, 8)
		next := <-r.transport.dialled
		expect(t, old.up, session.Unsubscribe{ID: 1})
		expect(t, next.up, session.Subscribe{ID: 1, Partition: tp(1), LeaderEpoch: 8, LastEpoch: record.NoEpoch})
		r.Follow(tp(1), 2, 7)
		r.Unfollow(tp(1), 7)
		r.Ack(tp(1), 7, session.Ack{})
		quiet(t, old.up)
		quiet(t, next.up)
		r.Ack(tp(1), 8, session.Ack{Flushed: 0, LogEnd: 0, LogStart: 0})
		expect(t, next.up, session.Ack{ID: 1})
	})
}

func TestFetcherRedialsWithBackoff(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.transport.set(errors.New("no route"))
		r.SetEpoch(1)
		r.Follow(tp(1), 2, 7)
		synctest.Wait()
		for i, wait := range []int{50, 100, 200, 400, 800, 1000, 1000} {
			if got := r.transport.count(); got != i+1 {
				t.Errorf("%d dials before pause %d", got, i)
			}
			time.Sleep(time.Duration(wait)*time.Millisecond - 1)
			synctest.Wait()
			if got := r.transport.count(); got != i+1 {
				t.Errorf("pause %d is shorter than %d ms", i, wait)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
		}
		// A stream that breaks at once does not spin either, and one that lived is redialled at once.
		r.transport.set(nil)
		p := <-r.transport.dialled
		synctest.Wait()
		time.Sleep(time.Hour)
		p.Close()
		p = <-r.transport.dialled
		expect(t, r.target.events, "lost")
		before := r.transport.count()
		synctest.Wait()
		p.Close()
		synctest.Wait()
		if got := r.transport.count(); got != before {
			t.Error("a stream that broke at once is redialled without a pause")
		}
		<-r.transport.dialled
	})
}

// Refused partitions are reported and asked for again; Follow cuts the pause short.
func TestFetcherResubscribes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.SetEpoch(1)
		r.Follow(tp(1), 2, 7)
		p := <-r.transport.dialled
		synctest.Wait()
		<-p.up
		p.down <- session.Refused{ID: 1, Code: cluster.CodeNotLeader}
		expect(t, r.target.events, "refused NOT_LEADER")
		quiet(t, p.up)
		time.Sleep(80 * time.Millisecond)
		expect(t, p.up, session.Subscribe{ID: 2, Partition: tp(1), LeaderEpoch: 7, LastEpoch: record.NoEpoch})
		p.down <- session.Refused{ID: 2, Code: cluster.CodeOffsetOutOfRange}
		expect(t, r.target.events, "refused OFFSET_OUT_OF_RANGE")
		r.Follow(tp(1), 2, 7)
		expect(t, p.up, session.Subscribe{ID: 3, Partition: tp(1), LeaderEpoch: 7, LastEpoch: record.NoEpoch})
		p.down <- session.Refused{ID: 2, Code: cluster.CodeNotLeader}
		quiet(t, r.target.events)
	})
}

// A full inbox ends the subscription; it begins again from the log end, and no buffer is lost.
func TestFetcherBackpressure(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.SetEpoch(1)
		r.Follow(tp(1), 2, 7)
		p := <-r.transport.dialled
		synctest.Wait()
		<-p.up
		r.target.mu.Lock()
		r.target.refuse = 1
		r.target.mu.Unlock()
		p.down <- session.Data{ID: 1, Bytes: batch(0)}
		p.down <- session.Data{ID: 1, First: 1, Bytes: batch(1)} // was under way
		expect(t, p.up, session.Unsubscribe{ID: 1})
		time.Sleep(20 * time.Millisecond)
		expect(t, p.up, session.Subscribe{ID: 2, Partition: tp(1), LeaderEpoch: 7, LastEpoch: record.NoEpoch})
		p.down <- session.Data{ID: 2, Bytes: append(batch(0), batch(1)...)}
		synctest.Wait()
		if got := r.target.end(tp(1)); got != 2 {
			t.Errorf("log end is %d, want 2", got)
		}
		if n := r.stats.overruns.Value(); n != 1 {
			t.Errorf("%d overruns are counted", n)
		}
		if p.recycled != 3 {
			t.Errorf("%d buffers came back of 3", p.recycled)
		}
	})
}

// A partition that does not follow when its position is asked for is asked again, at once when it is followed again.
func TestFetcherWaitsForTheReplica(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		absent := func(is bool) {
			r.target.mu.Lock()
			defer r.target.mu.Unlock()
			r.target.absent = is
		}
		want := session.Subscribe{ID: 1, Partition: tp(1), LeaderEpoch: 7, LastEpoch: record.NoEpoch}
		absent(true)
		r.SetEpoch(1)
		r.Follow(tp(1), 2, 7)
		p := <-r.transport.dialled
		quiet(t, p.up)
		absent(false)
		r.Follow(tp(1), 2, 7)
		expect(t, p.up, want)

		absent(true)
		r.Follow(tp(1), 2, 7)
		expect(t, p.up, session.Unsubscribe{ID: 1})
		absent(false)
		time.Sleep(160 * time.Millisecond) // the second time in a row
		want.ID = 2
		expect(t, p.up, want)
	})
}

// Acknowledgements made while the stream is busy go out as one.
func TestFetcherCoalescesAcks(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.SetEpoch(1)
		for i := range int32(5) { // one more subscription than the pipe holds: the writer is stuck
			r.Follow(tp(i), 2, 7)
		}
		p := <-r.transport.dialled
		synctest.Wait()
		for i := range record.Offset(100) {
			r.Ack(tp(0), 7, session.Ack{LogEnd: 0, Flushed: i})
		}
		for range 5 {
			synctest.Wait()
			<-p.up
		}
		expect(t, p.up, session.Ack{ID: 1, Flushed: 99})
		quiet(t, p.up)
	})
}
