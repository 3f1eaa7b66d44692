package partition

import (
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
)

// subscribeAs subscribes broker 2 as one of its lives, from an empty log, and returns its sink.
func (k *kit) subscribeAs(epoch cluster.BrokerEpoch, id session.SubscriptionID) *fakeSink {
	sink := newSink()
	k.manager.Subscribe(2, epoch, session.Subscribe{ID: id, Partition: testTP, LeaderEpoch: 1, LastEpoch: record.NoEpoch}, sink)
	return sink
}

// checkServed appends and finds that the subscription of sink hears of it, and that its acknowledgements count.
func checkServed(t *testing.T, k *kit, sink *fakeSink, epoch cluster.BrokerEpoch, id session.SubscriptionID) {
	t.Helper()
	before := k.runner().Status() // what came before has been handled
	select {
	case <-sink.wakes:
	default:
	}
	answer := call(k.runner(), sent{values: []string{"v"}}.bytes(t), AcksISR, k.clock.Now()+time.Minute)
	receive(t, sink.wakes)
	end := before.LogEnd + 1
	k.manager.Ack(2, epoch, testTP, 1, session.Ack{ID: id, LogEnd: end, Flushed: end})
	k.checkProduced(k.answer(answer), cluster.CodeNone, before.LogEnd)
}

// TestLateEndOfAStream covers what the simulator found with seeds 2546 and 3222: a follower had opened a new stream before the leader noticed the end of
// the old one. That end took the new subscription for its own, and the follower was sent nothing more.
func TestLateEndOfAStream(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(2, 1)
	follower, _ := k.image.Broker(2)
	old := k.subscribeAs(follower.Epoch, 1)
	receive(t, old.accepted)
	next := k.subscribeAs(follower.Epoch, 2)
	receive(t, next.accepted)
	k.manager.Unsubscribe(2, follower.Epoch, testTP, 1)
	checkServed(t, k, next, follower.Epoch, 2)
}

// TestEndOfAnEarlierLife is the same over a restart of the follower, whose ids begin anew.
func TestEndOfAnEarlierLife(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(2, 1)
	before, _ := k.image.Broker(2)
	receive(t, k.subscribeAs(before.Epoch, 1).accepted)
	k.register(2)
	k.reconcile()
	now, _ := k.image.Broker(2)
	next := k.subscribeAs(now.Epoch, 1)
	receive(t, next.accepted)
	k.manager.Unsubscribe(2, before.Epoch, testTP, 1)
	checkServed(t, k, next, now.Epoch, 1)
}

// TestLateSubscription finds that a request that was under way on a stream with a successor does not take the successor's place.
func TestLateSubscription(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(2, 1)
	follower, _ := k.image.Broker(2)
	next := k.subscribeAs(follower.Epoch, 5)
	receive(t, next.accepted)
	for _, late := range []*fakeSink{k.subscribeAs(follower.Epoch, 4), k.subscribeAs(follower.Epoch-1, 9)} {
		if r := receive(t, late.refused); r.Code != cluster.CodeStaleBrokerEpoch {
			t.Errorf("refused with %s", r.Code)
		}
	}
	checkServed(t, k, next, follower.Epoch, 5)
}
