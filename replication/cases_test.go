package replication_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/replication/session"
)

// started is a healthy cluster of three with broker 1 as leader.
func started(t *testing.T) *world {
	t.Helper()
	w := newWorld(3, 2)
	for _, n := range w.nodes {
		w.ctl.unfence(n.id)
	}
	w.settle(nil)
	if r := w.node(1).replica; r.Role() != replication.Leader {
		t.Fatalf("broker 1 is %s", r.Role())
	}
	return w
}

// cut blocks every message to and from the brokers, the controller's too.
func cut(brokers ...cluster.BrokerID) func(message) bool {
	return func(m message) bool { return slices.Contains(brokers, m.from) || slices.Contains(brokers, m.to) }
}

// check compares the answer of a request.
func (w *world) check(t *testing.T, request replication.RequestID, code cluster.Code, base record.Offset) {
	t.Helper()
	got, ok := w.answers[request]
	if !ok {
		t.Fatalf("request %d has no answer, want %s at %d", request, code, base)
	}
	if got.Code != code || got.Base != base {
		t.Errorf("request %d: %s at %d, want %s at %d", request, got.Code, got.Base, code, base)
	}
}

func (w *world) unanswered(t *testing.T, request replication.RequestID) {
	t.Helper()
	if got, ok := w.answers[request]; ok {
		t.Errorf("request %d is answered: %s at %d", request, got.Code, got.Base)
	}
}

func (w *world) tickAfter(d time.Duration) {
	w.now += d
	for _, n := range w.nodes {
		if n.up {
			n.step(&replication.Tick{})
		}
	}
}

// same checks that all logs are byte-identical and hold these values.
func (w *world) same(t *testing.T, values ...int) {
	t.Helper()
	for _, n := range w.nodes {
		var got []int
		for _, e := range n.log.entries {
			got = append(got, e.value)
		}
		if !slices.Equal(got, values) || !slices.Equal(n.log.entries, w.nodes[0].log.entries) {
			t.Errorf("broker %d has %s, want values %v", n.id, &n.log, values)
		}
	}
}

func TestCase26_LeadersOwnSlowFlushKeepsTheISR(t *testing.T) {
	w := started(t)
	leader := w.node(1)
	request := leader.produce(replication.AcksISR, w.now+30*time.Second)
	leader.beginFlush() // and it hangs
	for range 12 {
		w.settle(nil)
		w.tickAfter(time.Second)
	}
	if isr := w.ctl.partition.ISR; len(isr) != 3 {
		t.Errorf("ISR is %v", isr)
	}
	w.unanswered(t, request)
	w.tickAfter(20 * time.Second)
	w.check(t, request, cluster.CodeTimedOut, 0)
	leader.finishFlush()
	w.settle(nil)
	if hw := leader.replica.HighWatermark(); hw != 1 {
		t.Errorf("watermark %d after the flush", hw)
	}
}

func TestCase31_NewLeaderWithLowerWatermarkIsNotSettled(t *testing.T) {
	w := started(t)
	request := w.node(1).produce(replication.AcksISR, time.Hour)
	w.deliver(w.take(0)) // data to 2
	w.deliver(w.take(0)) // data to 3
	for _, n := range w.nodes {
		n.flush()
	}
	for len(w.wire) > 0 { // acks reach the leader; what it then tells is lost
		if m := w.take(0); m.ack != nil {
			w.deliver(m)
		}
	}
	w.check(t, request, cluster.CodeNone, 0)
	w.node(1).crash()
	w.ctl.fence(1)
	w.deliver(w.take(slices.IndexFunc(w.wire, func(m message) bool { return m.to == 2 && m.image != nil })))
	r := w.node(2).replica
	if r.Role() != replication.Leader || r.Settled() || r.HighWatermark() != 0 || r.LogEnd() != 1 {
		t.Fatalf("broker 2 is %s, settled %v, watermark %d of %d", r.Role(), r.Settled(), r.HighWatermark(), r.LogEnd())
	}
	w.settle(nil)
	if !r.Settled() || r.HighWatermark() != 1 {
		t.Errorf("after the followers came: settled %v, watermark %d", r.Settled(), r.HighWatermark())
	}
}

func TestCase34_LateAlterPartitionIsIgnored(t *testing.T) {
	w := started(t)
	late := &replication.AlterPartitionResult{
		LeaderEpoch: w.ctl.partition.LeaderEpoch, PartitionEpoch: w.ctl.partition.PartitionEpoch, State: w.ctl.partition.Clone(),
	}
	late.State.ISR, late.State.PartitionEpoch = []cluster.BrokerID{1}, late.State.PartitionEpoch+1
	w.ctl.fence(1)
	w.settle(nil)
	w.ctl.unfence(1)
	w.settle(nil)
	w.ctl.fence(2)
	w.ctl.fence(3)
	w.settle(nil)
	r := w.node(1).replica
	if r.Role() != replication.Leader {
		t.Fatalf("broker 1 is %s", r.Role())
	}
	before := r.Counts().Stale
	w.node(1).step(late)
	if !slices.Equal(r.ISR(), w.ctl.partition.ISR) || r.State().PartitionEpoch != w.ctl.partition.PartitionEpoch || r.Counts().Stale != before+1 {
		t.Errorf("ISR %v in %d, controller %v in %d", r.ISR(), r.State().PartitionEpoch, w.ctl.partition.ISR, w.ctl.partition.PartitionEpoch)
	}
}

func TestCase35_IsolatedLeaderAcknowledgesNothing(t *testing.T) {
	w := started(t)
	old := w.node(1)
	w.ctl.fence(1)
	lost := old.produce(replication.AcksISR, w.now+5*time.Second)
	unproposed := old.produce(replication.AcksLeader, w.now+5*time.Second)
	w.settle(cut(1))
	w.check(t, unproposed, cluster.CodeNotLeader, -1)
	w.unanswered(t, lost)
	kept := w.node(2).produce(replication.AcksISR, time.Hour)
	w.settle(cut(1))
	w.check(t, kept, cluster.CodeNone, 0)
	w.tickAfter(5 * time.Second)
	w.check(t, lost, cluster.CodeTimedOut, 0)
	w.settle(nil)
	w.same(t, int(kept))
}

func TestCase38_RelaxedLastReplicaLosesItsTail(t *testing.T) {
	w := started(t)
	w.relaxed = true
	for _, n := range w.nodes {
		n.step(&replication.ConfigChanged{MinISR: 2, Relaxed: true})
	}
	first := w.node(1).produce(replication.AcksISR, time.Hour)
	w.settle(nil)
	w.check(t, first, cluster.CodeNone, 0) // written everywhere, flushed nowhere
	w.node(2).flush()
	w.ctl.fence(3)
	w.ctl.fence(2)
	w.settle(nil)
	alone := w.node(1).produce(replication.AcksISR, time.Hour)
	w.check(t, alone, cluster.CodeNotEnoughReplicas, -1)
	// The last one loses power and its tail. It was relaxed, so its registration takes it out of ISR and ELR; 2 is in the ELR and complete.
	w.node(1).crash()
	w.ctl.wiped(1)
	w.node(1).start()
	w.ctl.unfence(1)
	w.settle(nil)
	if leader := w.ctl.partition.Leader; leader == 1 {
		t.Fatalf("broker 1 leads with %s", &w.node(1).log)
	}
	w.ctl.unfence(2)
	w.ctl.unfence(3)
	w.settle(nil)
	if w.ctl.partition.Leader != 2 {
		t.Errorf("leader is %d", w.ctl.partition.Leader)
	}
	w.same(t, int(first))
}

func TestCase40_WipedFollowerJoinsOnlyWithEverything(t *testing.T) {
	w := started(t)
	first := w.node(1).produce(replication.AcksISR, time.Hour)
	w.settle(nil)
	// A proposal that names broker 3's old life is on its way while it is wiped.
	w.ctl.fence(3)
	w.settle(nil)
	w.ctl.unfence(3)
	w.settle(func(m message) bool { return m.to == controllerID })
	old := w.take(slices.IndexFunc(w.wire, func(m message) bool { return m.alter != nil }))
	w.node(3).crash()
	w.node(3).log = modelLog{}
	w.ctl.wiped(3)
	w.node(3).start()
	w.ctl.unfence(3)
	w.deliver(old)
	if isr := w.ctl.partition.ISR; slices.Contains(isr, 3) {
		t.Fatalf("ISR is %v", isr)
	}
	for range 3 { // a proposal for the old life may be under way; it is refused
		w.settle(nil)
		w.tickAfter(time.Second)
	}
	if isr := w.ctl.partition.ISR; !slices.Equal(isr, []cluster.BrokerID{1, 2, 3}) {
		t.Errorf("ISR is %v", isr)
	}
	w.same(t, int(first))
}

func TestCase46_StoppedLeaderComesBack(t *testing.T) {
	w := started(t)
	old := w.node(1)
	old.step(&replication.ControllerContact{Until: w.now + time.Second})
	w.ctl.fence(1)
	w.settle(cut(1)) // broker 1 stands still: it neither hears nor does anything
	kept := w.node(2).produce(replication.AcksISR, time.Hour)
	w.settle(cut(1))
	w.now += 30 * time.Second
	// It goes on with what lay in its buffers, before it hears of the election.
	buffered := old.produce(replication.AcksISR, w.now+time.Second)
	weak := old.produce(replication.AcksLeader, w.now+time.Second)
	old.flush()
	w.check(t, weak, cluster.CodeNotLeader, -1)
	w.unanswered(t, buffered)
	w.settle(nil)
	w.check(t, buffered, cluster.CodeNotLeader, 0)
	w.same(t, int(kept))
}

func TestCase48_OneWayLossGivesOneVerdict(t *testing.T) {
	w := started(t)
	epoch := w.ctl.partition.LeaderEpoch
	oneWay := func(m message) bool { return m.from == 1 && m.to == 2 }
	request := w.node(1).produce(replication.AcksISR, w.now+time.Minute)
	for range 15 {
		w.settle(oneWay)
		w.tickAfter(time.Second)
		w.node(2).subscribe() // its fetcher tries again and again, and is heard
	}
	w.settle(oneWay)
	w.check(t, request, cluster.CodeNone, 0)
	if p := w.ctl.partition; p.LeaderEpoch != epoch || !slices.Equal(p.ISR, []cluster.BrokerID{1, 3}) {
		t.Errorf("leader epoch %d after %d, ISR %v", p.LeaderEpoch, epoch, p.ISR)
	}
}

func TestCase63_CorruptBatchIsAskedForAgain(t *testing.T) {
	w := started(t)
	n := w.node(2)
	n.step(&replication.SubscribeRefused{LeaderEpoch: n.replica.LeaderEpoch(), Refused: session.Refused{Code: cluster.CodeCorrupt}})
	if len(w.wire) != 0 || n.deadline != w.now+replication.SubscribeRetry {
		t.Fatalf("asks at once: %v, deadline %v", w.wire, n.deadline)
	}
	w.tickAfter(replication.SubscribeRetry)
	if i := slices.IndexFunc(w.wire, func(m message) bool { return m.from == 2 && m.subscribe != nil }); i < 0 {
		t.Errorf("broker 2 does not ask again: %v", w.wire)
	}
}

func TestCase144_FlushFromBeforeATruncationMarksNothing(t *testing.T) {
	w := started(t)
	old := w.node(1)
	for range 3 {
		old.produce(replication.AcksISR, time.Hour)
	}
	old.beginFlush() // covers offsets 0 to 3 of epoch 1
	w.ctl.fence(1)
	w.settle(cut(1))
	var kept []int
	for range 3 {
		kept = append(kept, int(w.node(2).produce(replication.AcksISR, time.Hour)))
	}
	w.settle(cut(1))
	w.wire = slices.DeleteFunc(w.wire, func(m message) bool { return m.from == 1 })
	for len(w.wire) > 0 { // broker 1 truncates and re-appends, and its old flush ends only now
		w.deliver(w.take(0))
	}
	if old.log.end() != 3 || old.replica.Flushed() != 0 {
		t.Fatalf("before: end %d, flushed %d", old.log.end(), old.replica.Flushed())
	}
	old.finishFlush()
	if old.replica.Flushed() != 0 {
		t.Errorf("an old flush marks %d as flushed", old.replica.Flushed())
	}
	w.ctl.unfence(1)
	w.settle(nil)
	w.same(t, kept...)
}

func TestFailedLogGoesOfflineForGood(t *testing.T) {
	w := started(t)
	n := w.node(1)
	waits := n.produce(replication.AcksISR, time.Hour)
	n.step(&replication.FlushFailed{Reason: errors.New("EIO")})
	w.check(t, waits, cluster.CodeStorage, 0)
	after := n.produce(replication.AcksISR, time.Hour)
	w.check(t, after, cluster.CodeStorage, -1)
	n.step(&replication.Flushed{Generation: n.replica.Generation(), End: 1})
	if n.offline == nil || n.replica.Role() != replication.Offline || n.replica.Flushed() != 0 {
		t.Errorf("offline %v, role %s, flushed %d", n.offline, n.replica.Role(), n.replica.Flushed())
	}
}

func TestDuplicateWaitsForItsOriginal(t *testing.T) {
	w := started(t)
	n := w.node(1)
	original := n.produce(replication.AcksISR, time.Hour)
	n.step(&replication.ProduceRequested{Request: 99, LeaderEpoch: record.NoEpoch, Offsets: 1, Acks: replication.AcksISR, Deadline: time.Hour,
		DuplicateBase: 0, DuplicateEnd: 1})
	w.unanswered(t, 99)
	w.settle(nil)
	w.check(t, original, cluster.CodeNone, 0)
	w.check(t, 99, cluster.CodeNone, 0)
	w.same(t, int(original))
}

// TestCase143_SettingsCountWithTheirState: the metadata that lowers min.insync.replicas may be the first that a leader hears of another one, and that which
// raises it the first from which it hears that its ISR has shrunk. Neither may let it commit, and acknowledge, what the others do not have.
func TestCase143_SettingsCountWithTheirState(t *testing.T) {
	state := func(leader cluster.BrokerID, epoch record.LeaderEpoch, partitionEpoch cluster.PartitionEpoch, isr ...cluster.BrokerID) *cluster.Partition {
		return &cluster.Partition{Replicas: []cluster.BrokerID{1, 2}, ISR: isr, Leader: leader, LeaderEpoch: epoch, PartitionEpoch: partitionEpoch}
	}
	for name, c := range map[string]struct {
		before, after int // min.insync.replicas
		next          *cluster.Partition
		code          cluster.Code // of the answer, CodeNone for none
	}{
		"lowered where another leads":   {before: 2, after: 1, next: state(2, 2, 9, 2), code: cluster.CodeNotLeader},
		"raised where the ISR is small": {before: 1, after: 2, next: state(1, 1, 9, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			r := replication.New(replication.Config{Partition: partitionKey, Self: 1}, replication.Opened{})
			r.Step(0, &replication.PartitionChanged{State: state(1, 1, 1, 1, 2), Config: &replication.ConfigChanged{MinISR: c.before},
				Peers: []replication.Peer{{Broker: 1, Epoch: 1, Eligible: true}, {Broker: 2, Epoch: 1, Eligible: true}}})
			r.Step(0, &replication.ProduceRequested{Request: 7, LeaderEpoch: 1, Offsets: 1, Deadline: time.Hour})
			r.Step(0, &replication.Appended{End: 1})
			r.Step(0, &replication.Flushed{End: 1})
			if r.HighWatermark() != 0 {
				t.Fatal("committed without the follower")
			}
			if c.code != cluster.CodeNone { // what it last heard while it led
				r.Step(0, &replication.PartitionChanged{State: state(1, 1, 2, 1)})
			}
			e := r.Step(0, &replication.PartitionChanged{State: c.next, Config: &replication.ConfigChanged{MinISR: c.after}})
			if r.HighWatermark() != 0 {
				t.Errorf("the watermark is %d", r.HighWatermark())
			}
			switch {
			case c.code == cluster.CodeNone && len(e.Respond) > 0, c.code != cluster.CodeNone && (len(e.Respond) != 1 || e.Respond[0].Code != c.code):
				t.Errorf("answered %+v, want %s", e.Respond, c.code)
			}
		})
	}
}

// TestLatestWaitsForARemovedLeader: a reassignment takes the leader away in the step that names the next one. It is not in the new ISR, so nothing waits for it,
// and it may go on answering "latest" from its lease.
func TestLatestWaitsForARemovedLeader(t *testing.T) {
	for name, c := range map[string]struct {
		replicas []cluster.BrokerID // of the new state
		waits    bool
	}{
		"removed":    {replicas: []cluster.BrokerID{1}, waits: true},
		"in the ISR": {replicas: []cluster.BrokerID{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			r := replication.New(replication.Config{Partition: partitionKey, Self: 1}, replication.Opened{})
			r.Step(0, &replication.PartitionChanged{Config: &replication.ConfigChanged{MinISR: 1},
				State: &cluster.Partition{Replicas: []cluster.BrokerID{2, 1}, ISR: []cluster.BrokerID{1, 2}, Leader: 2, LeaderEpoch: 1, PartitionEpoch: 1}})
			now := time.Minute
			e := r.Step(now, &replication.PartitionChanged{State: &cluster.Partition{Replicas: c.replicas, ISR: c.replicas, Leader: 1, LeaderEpoch: 2, PartitionEpoch: 2}})
			if !c.waits {
				if !r.Settled() {
					t.Error("not settled, though nothing is below the start of its epoch")
				}
				return
			}
			if r.Settled() || e.Deadline != now+replication.PredecessorLease {
				t.Errorf("settled %v, next look at %s", r.Settled(), e.Deadline)
			}
			r.Step(now+replication.PredecessorLease-1, &replication.Tick{})
			if r.Settled() {
				t.Error("settled while the lease may last")
			}
			r.Step(now+replication.PredecessorLease, &replication.Tick{})
			if !r.Settled() {
				t.Error("not settled when the lease is over")
			}
		})
	}
}

// TestLatestWaitsForALeaderThatIsRemovedLater: an election moves the leadership, and a reassignment takes the former leader away in a later step. Until then the
// watermark waits for it; after that its lease may still last.
func TestLatestWaitsForALeaderThatIsRemovedLater(t *testing.T) {
	for name, c := range map[string]struct {
		leaders []cluster.BrokerID // of the epochs from 1 on
		removed cluster.BrokerID
		pause   time.Duration // between the last of these elections and the removal
		epoch   record.LeaderEpoch
		waits   bool
	}{
		"in the same epoch":             {leaders: []cluster.BrokerID{2, 1}, removed: 2, pause: time.Millisecond, epoch: 2, waits: true},
		"with another epoch":            {leaders: []cluster.BrokerID{2, 1}, removed: 2, pause: time.Millisecond, epoch: 3, waits: true},
		"two elections later":           {leaders: []cluster.BrokerID{2, 3, 1}, removed: 2, pause: time.Millisecond, epoch: 4, waits: true},
		"when the lease is over":        {leaders: []cluster.BrokerID{2, 1}, removed: 2, pause: replication.PredecessorLease, epoch: 3},
		"somebody who has not led":      {leaders: []cluster.BrokerID{2, 1}, removed: 3, pause: time.Millisecond, epoch: 3},
		"nobody, after other elections": {leaders: []cluster.BrokerID{2, 3, 1}, removed: 9, pause: time.Millisecond, epoch: 4},
	} {
		t.Run(name, func(t *testing.T) {
			r := replication.New(replication.Config{Partition: partitionKey, Self: 1}, replication.Opened{})
			now, replicas := time.Minute, []cluster.BrokerID{1, 2, 3}
			for i, leader := range c.leaders {
				epoch := record.LeaderEpoch(i + 1)
				r.Step(now, &replication.PartitionChanged{Config: &replication.ConfigChanged{MinISR: 1},
					State: &cluster.Partition{Replicas: replicas, ISR: replicas, Leader: leader, LeaderEpoch: epoch, PartitionEpoch: cluster.PartitionEpoch(epoch)}})
			}
			left := slices.DeleteFunc(slices.Clone(replicas), func(id cluster.BrokerID) bool { return id == c.removed })
			e := r.Step(now+c.pause, &replication.PartitionChanged{State: &cluster.Partition{Replicas: left, ISR: left, Leader: 1, LeaderEpoch: c.epoch, PartitionEpoch: 9}})
			until := now + replication.PredecessorLease
			if r.Settled() == c.waits || c.waits && e.Deadline != until {
				t.Fatalf("settled %v, next look at %s", r.Settled(), e.Deadline)
			}
			if r.Step(max(until, now+c.pause), &replication.Tick{}); !r.Settled() {
				t.Error("not settled when the lease is over")
			}
		})
	}
}

func TestFullDiskRefusesAndGoesOn(t *testing.T) {
	r := replication.New(replication.Config{Partition: partitionKey, Self: 1}, replication.Opened{})
	r.Step(0, &replication.ConfigChanged{MinISR: 1})
	r.Step(0, &replication.PartitionChanged{
		State: &cluster.Partition{Replicas: []cluster.BrokerID{1}, ISR: []cluster.BrokerID{1}, Leader: 1, LeaderEpoch: 1, PartitionEpoch: 1},
		Peers: []replication.Peer{{Broker: 1, Epoch: 1, Eligible: true}},
	})
	for i := range 3 {
		e := r.Step(0, &replication.ProduceRequested{Request: replication.RequestID(i), LeaderEpoch: 1, Offsets: 2, Deadline: time.Hour})
		if len(e.Append) != 1 || e.Append[0].Base != record.Offset(2*i) {
			t.Fatalf("append %v", e.Append)
		}
	}
	e := r.Step(0, &replication.AppendRefused{})
	if len(e.Respond) != 3 || e.Respond[0].Code != cluster.CodeStorage || e.Respond[0].Base != -1 {
		t.Fatalf("responses %v", e.Respond)
	}
	e = r.Step(0, &replication.ProduceRequested{Request: 7, LeaderEpoch: 1, Offsets: 1, Deadline: time.Hour})
	if len(e.Append) != 1 || e.Append[0].Base != 0 {
		t.Errorf("the next append is %v", e.Append)
	}
}

func TestAlterOfUnknownFateKeepsItsMembersCounted(t *testing.T) {
	w := started(t)
	w.ctl.fence(3)
	w.settle(nil)
	w.ctl.unfence(3)
	w.settle(func(m message) bool { return m.to == controllerID })
	r := w.node(1).replica
	proposed := w.take(slices.IndexFunc(w.wire, func(m message) bool { return m.alter != nil })).alter
	answer := func(code cluster.Code) {
		w.node(1).step(&replication.AlterPartitionResult{LeaderEpoch: proposed.LeaderEpoch, PartitionEpoch: proposed.PartitionEpoch, Code: code})
	}
	answer(cluster.CodeTimedOut)
	w.tickAfter(replication.AlterRetry)
	answer(cluster.CodeIneligibleReplica) // of the second attempt; the first may still be on its way
	if got := r.MaximalISR(); !slices.Equal(got, []cluster.BrokerID{1, 2, 3}) {
		t.Errorf("maximal ISR is %v", got)
	}
	w.ctl.brokers[3].Eligible = false
	w.ctl.publish()
	w.settle(nil)
	if got := r.MaximalISR(); !slices.Equal(got, []cluster.BrokerID{1, 2, 3}) {
		t.Errorf("maximal ISR is %v although nothing was decided", got)
	}
	w.tickAfter(replication.DoubtFor)
	if got := r.MaximalISR(); !slices.Equal(got, []cluster.BrokerID{1, 2}) {
		t.Errorf("maximal ISR is %v after the doubt has ended", got)
	}
}

func TestEpochHistoryEnd(t *testing.T) {
	history := replication.EpochHistory{{Epoch: 2, Start: 10}, {Epoch: 5, Start: 20}, {Epoch: 6, Start: 30}}
	for _, c := range []struct {
		asked record.LeaderEpoch
		epoch record.LeaderEpoch
		end   record.Offset
		ok    bool
	}{
		{record.NoEpoch, record.NoEpoch, -1, false},
		{1, 1, 10, true}, // older than the history: ends where it begins
		{2, 2, 20, true},
		{3, 2, 20, true}, // unknown here: the largest below it (KIP-279)
		{5, 5, 30, true},
		{6, 6, 42, true},
		{7, record.NoEpoch, -1, false},
	} {
		got, ok := history.End(c.asked, 42)
		if ok != c.ok || got != (cluster.EpochEnd{Epoch: c.epoch, End: c.end}) {
			t.Errorf("End(%d) = %+v, %v", c.asked, got, ok)
		}
	}
}

func BenchmarkStepProduceToCommit(b *testing.B) {
	r := replication.New(replication.Config{Partition: partitionKey, Self: 1}, replication.Opened{})
	r.Step(0, &replication.ConfigChanged{MinISR: 2})
	r.Step(0, &replication.PartitionChanged{
		State: &cluster.Partition{Replicas: []cluster.BrokerID{1, 2, 3}, ISR: []cluster.BrokerID{1, 2, 3}, Leader: 1, LeaderEpoch: 1, PartitionEpoch: 1},
		Peers: []replication.Peer{{Broker: 1, Epoch: 1, Eligible: true}, {Broker: 2, Epoch: 2, Eligible: true}, {Broker: 3, Epoch: 3, Eligible: true}},
	})
	for f := cluster.BrokerID(2); f <= 3; f++ {
		r.Step(0, &replication.SubscribeRequested{Follower: f, Epoch: cluster.BrokerEpoch(f), Subscribe: session.Subscribe{ID: 1, LeaderEpoch: 1, LastEpoch: record.NoEpoch}})
	}
	produce := &replication.ProduceRequested{LeaderEpoch: 1, Offsets: 1, Deadline: time.Hour}
	appended, flushed := &replication.Appended{}, &replication.Flushed{}
	ack := &replication.FollowerAck{LeaderEpoch: 1, ID: 1}
	b.ReportAllocs()
	answered := 0
	for b.Loop() {
		produce.Request++
		r.Step(0, produce)
		appended.End++
		r.Step(0, appended)
		flushed.End++
		r.Step(0, flushed)
		for f := cluster.BrokerID(2); f <= 3; f++ {
			ack.Follower, ack.Epoch, ack.LogEnd, ack.Flushed = f, cluster.BrokerEpoch(f), appended.End, flushed.End
			answered += len(r.Step(0, ack).Respond)
		}
	}
	if answered == 0 {
		b.Fatal("nothing was committed")
	}
}
