package replication_test

import (
	"slices"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/replication/session"
)

// Case 142: a log that holds records of the very epoch which the metadata gives to this broker was written by an earlier life of it, and nobody knows what that
// life has lost. Nobody leads under such metadata; the next epoch is fine.
func TestCase142_NoEpochIsLedTwice(t *testing.T) {
	r := replication.New(replication.Config{Partition: partitionKey, Self: 1}, replication.Opened{
		Epochs: []record.EpochStart{{Epoch: 4, Start: 0}}, LogEnd: 3, Flushed: 3,
	})
	state := &cluster.Partition{Replicas: []cluster.BrokerID{1}, ISR: []cluster.BrokerID{1}, Leader: 1, LeaderEpoch: 4, PartitionEpoch: 7}
	r.Step(time.Second, &replication.PartitionChanged{State: state})
	if r.Role() != replication.Idle {
		t.Errorf("in an epoch of its former life the replica is %s", r.Role())
	}
	next := state.Clone()
	next.LeaderEpoch, next.PartitionEpoch = 5, 8
	r.Step(time.Second, &replication.PartitionChanged{State: next})
	if r.Role() != replication.Leader {
		t.Errorf("in a new epoch the replica is %s", r.Role())
	}
}

// Case 3: a leader epoch above all that there have been is damage. A replica that is made the leader with it fails, so that another one is elected.
func TestCase3_AnEpochThatHasNotBeenIsNotLed(t *testing.T) {
	r := replication.New(replication.Config{Partition: partitionKey, Self: 1}, replication.Opened{
		Epochs: []record.EpochStart{{Epoch: 1 << 16, Start: 0}}, LogEnd: 3, Flushed: 3,
	})
	state := &cluster.Partition{Replicas: []cluster.BrokerID{1, 2}, ISR: []cluster.BrokerID{1}, ELR: []cluster.BrokerID{2}, Leader: 1, LeaderEpoch: 4, PartitionEpoch: 7}
	if e := r.Step(time.Second, &replication.PartitionChanged{State: state}); r.Role() != replication.Offline || e.Offline == nil {
		t.Errorf("the replica is %s, reported: %v", r.Role(), e.Offline)
	}
}

// Case 65, after an unclean election: what was deleted stays deleted, also where that is above everything that the new leader has. Its log begins there.
func TestCase65_AnUncleanLeaderBeginsWhereRecordsWereDeleted(t *testing.T) {
	r := replication.New(replication.Config{Partition: partitionKey, Self: 1}, replication.Opened{
		Epochs: []record.EpochStart{{Epoch: 1, Start: 0}}, LogEnd: 3, Flushed: 3,
	})
	state := &cluster.Partition{Replicas: []cluster.BrokerID{1}, ISR: []cluster.BrokerID{1}, Leader: 1, LeaderEpoch: 4, PartitionEpoch: 7, LogStart: 196, UncleanLast: true}
	e := r.Step(time.Second, &replication.PartitionChanged{State: state})
	if e.Truncate.To != 196 || !e.Truncate.Reset || e.MoveStart >= 0 || r.LogStart() != 196 || r.LogEnd() != 196 {
		t.Fatalf("truncated to %+v, start moved to %d, log %d to %d", e.Truncate, e.MoveStart, r.LogStart(), r.LogEnd())
	}
	r.Step(time.Second, &replication.Truncated{End: 196})
	e = r.Step(time.Second, &replication.ProduceRequested{Request: 1, LeaderEpoch: 4, Offsets: 2, Acks: replication.AcksISR, Deadline: time.Hour})
	if len(e.Append) != 1 || e.Append[0].Base != 196 || e.Append[0].Epoch != 4 {
		t.Errorf("appends %+v, answers %+v", e.Append, e.Respond)
	}
}

// A watermark that a new leader has not learnt yet may lie far below what was acknowledged. Having that much is not enough for the ISR: a follower needs everything
// that was in the leader's log when its epoch began.
func TestFollowerJoinsOnlyWithWhatWasThereAtTheElection(t *testing.T) {
	w := started(t)
	w.node(1).produce(replication.AcksISR, time.Hour)
	w.settle(cut(3)) // broker 2 has it, broker 3 and the watermark do not
	w.ctl.fence(3)
	w.node(1).crash()
	w.ctl.fence(1)
	w.settle(cut(3))
	if r := w.node(2).replica; r.Role() != replication.Leader || r.HighWatermark() != 0 || r.LogEnd() != 1 {
		t.Fatalf("broker 2 is %s, watermark %d of %d", r.Role(), r.HighWatermark(), r.LogEnd())
	}
	w.ctl.unfence(3)
	w.settle(func(m message) bool { return m.data != nil || m.to == controllerID })
	proposed := func() bool {
		return slices.ContainsFunc(w.wire, func(m message) bool { return m.alter != nil && slices.Contains(isrOf(m.alter), 3) })
	}
	if proposed() {
		t.Error("broker 3 is to join with an empty log")
	}
	w.settle(func(m message) bool { return m.to == controllerID })
	if !proposed() {
		t.Error("broker 3 is not to join with everything")
	}
}

// KIP-320: who speaks under another leader epoch is refused, and what it has told does not count.
func TestSubscriptionsAndAcksAreFencedByLeaderEpoch(t *testing.T) {
	w := started(t)
	w.node(1).produce(replication.AcksISR, time.Hour)
	w.node(1).flush()
	epoch := w.ctl.partition.LeaderEpoch
	r := w.node(1).replica
	for _, c := range []struct {
		epoch record.LeaderEpoch
		want  cluster.Code
	}{{epoch - 1, cluster.CodeFencedLeaderEpoch}, {epoch + 1, cluster.CodeUnknownLeaderEpoch}, {epoch, cluster.CodeNone}} {
		e := r.Step(w.now, &replication.SubscribeRequested{Follower: 2, Epoch: w.node(2).epoch, Subscribe: session.Subscribe{ID: 90, LeaderEpoch: c.epoch, LastEpoch: record.NoEpoch}})
		if len(e.Admit) != 1 || e.Admit[0].Refused.Code != c.want || e.Admit[0].Accepted != (c.want == cluster.CodeNone) {
			t.Errorf("under epoch %d: %+v, want %s", c.epoch, e.Admit, c.want)
		}
	}
	for _, ack := range []record.LeaderEpoch{epoch - 1, epoch + 1, epoch} {
		r.Step(w.now, &replication.FollowerAck{Follower: 2, Epoch: w.node(2).epoch, ID: 90, LeaderEpoch: ack, LogEnd: 1, Flushed: 1})
		if got := w.node(1).replicaFollower(2).Flushed == 1; got != (ack == epoch) {
			t.Errorf("an acknowledgement under epoch %d counts: %t", ack, got)
		}
	}
}

// Case 40: what a follower told in an earlier life of its broker does not count in the present one, which may have lost it with its disk.
func TestCase40_EarlierLifeOfAFollowerDoesNotCount(t *testing.T) {
	w := started(t)
	w.node(1).produce(replication.AcksISR, time.Hour)
	w.settle(cut(3))
	r, old := w.node(1).replica, w.node(3).epoch
	id := w.node(3).current
	w.node(3).crash()
	w.node(3).log = modelLog{}
	w.node(3).start()
	w.settle(cut(3))
	r.Step(w.now, &replication.FollowerAck{Follower: 3, Epoch: old, ID: id, LeaderEpoch: r.LeaderEpoch(), LogEnd: 1, Flushed: 1})
	if r.HighWatermark() != 0 {
		t.Errorf("watermark %d by the word of a life that has ended", r.HighWatermark())
	}
	e := r.Step(w.now, &replication.SubscribeRequested{Follower: 3, Epoch: old, Subscribe: session.Subscribe{ID: 91, LeaderEpoch: r.LeaderEpoch(), LastEpoch: record.NoEpoch}})
	if len(e.Admit) != 1 || e.Admit[0].Refused.Code != cluster.CodeStaleBrokerEpoch {
		t.Errorf("a subscription of the earlier life: %+v", e.Admit)
	}
}

// A follower's disk has not kept what was flushed: after a restart its log is a prefix of its leader's like that of any follower that is behind, but this leader has heard that more was on disk. That is
// told once, and it has to come back with everything.
func TestCase60_AFollowerThatHasLostItsEndIsNoticed(t *testing.T) {
	w := started(t)
	for range 3 {
		w.node(1).produce(replication.AcksISR, time.Hour)
	}
	w.settle(nil)
	r, n := w.node(1).replica, w.node(3)
	before := n.log
	for _, c := range []struct{ end, lost int }{{3, 0}, {1, 1}, {2, 1}, {3, 0}} {
		n.crash()
		n.log = before
		n.log.cut(replication.Truncate{To: record.Offset(c.end)})
		n.start()
		had := r.Counts().Lost
		w.settle(nil)
		if got := int(r.Counts().Lost - had); got != c.lost {
			t.Errorf("it came back with %d of 3: noticed %d times", c.end, got)
		}
	}
}

// Case 53: a move that brings broker 2 is given up and begun again, and the leader hears of both at once, by the new leader epoch that goes with the loss of a
// replica. Broker 2 has dropped what it had meanwhile: what it told before does not count, and it joins when it has everything again.
func TestCase53_AReplicaThatWentAndCameBackStartsFromNothing(t *testing.T) {
	r := replication.New(replication.Config{Partition: partitionKey, Self: 1, LagMax: 10 * time.Second}, replication.Opened{})
	now := time.Second
	step := func(in replication.Input) *replication.Effects { now += time.Millisecond; return r.Step(now, in) }
	brings := func(partitionEpoch cluster.PartitionEpoch, leaderEpoch record.LeaderEpoch) *replication.PartitionChanged {
		return &replication.PartitionChanged{
			State: &cluster.Partition{
				Leader: 1, LeaderEpoch: leaderEpoch, PartitionEpoch: partitionEpoch, Replicas: []cluster.BrokerID{1, 2}, ISR: []cluster.BrokerID{1},
				Adding: []cluster.BrokerID{2}, Directories: make([]cluster.DirectoryID, 2),
			},
			Peers: []replication.Peer{{Broker: 1, Epoch: 1, Eligible: true}, {Broker: 2, Epoch: 2, Eligible: false}},
		}
	}
	subscribe := func(id uint64, epoch record.LeaderEpoch, end record.Offset) *replication.Effects {
		return step(&replication.SubscribeRequested{Follower: 2, Epoch: 2, Subscribe: session.Subscribe{
			ID: session.SubscriptionID(id), Partition: partitionKey, LeaderEpoch: epoch, LastEpoch: record.NoEpoch, LogEnd: end, Flushed: end,
		}})
	}
	step(&replication.ConfigChanged{MinISR: 1})
	step(&replication.ControllerContact{Until: time.Hour})
	step(brings(1, 1))
	step(&replication.ProduceRequested{LeaderEpoch: 1, Offsets: 100, Acks: replication.AcksISR, Deadline: time.Hour})
	step(&replication.Appended{End: 100})
	step(&replication.Flushed{End: 100})
	subscribe(1, 1, 0)
	step(&replication.FollowerAck{ID: 1, LogEnd: 100, Flushed: 100, Follower: 2, Epoch: 2, LeaderEpoch: 1})

	again := brings(3, 2) // 2 was without the replica
	again.Peers[1].Eligible = true
	if e := step(again); e.Alter != nil {
		t.Errorf("proposed %v for what the dropped log had", isrOf(e.Alter))
	}
	if e := subscribe(2, 2, 0); e.Alter != nil {
		t.Errorf("proposed %v for an empty log", isrOf(e.Alter))
	}
	if e := step(&replication.FollowerAck{ID: 2, LogEnd: 100, Flushed: 100, Follower: 2, Epoch: 2, LeaderEpoch: 2}); e.Alter == nil {
		t.Error("a log that has everything again is not to join")
	}
}
