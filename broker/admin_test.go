package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
	"github.com/moldau-log/moldau/controller/state"
	"github.com/moldau-log/moldau/record"
)

// metadata builds an image by applying commands, as brokers do.
type metadata struct {
	t     *testing.T
	state *state.State
	index uint64
}

func newMetadata(t *testing.T, brokers int) *metadata {
	m := &metadata{t: t, state: state.New()}
	m.apply(cluster.InitCluster{Cluster: cluster.ClusterID{1}, FeatureLevel: 1})
	for id := range cluster.BrokerID(brokers) {
		r := m.apply(cluster.RegisterBroker{Broker: cluster.Broker{
			ID: id, Directory: cluster.DirectoryID{byte(id + 1)}, Incarnation: cluster.IncarnationID{byte(id + 1)}, MinLevel: 1, MaxLevel: 1,
		}, PreviousEpoch: cluster.NoBrokerEpoch})
		m.apply(cluster.UnfenceBroker{Broker: id, Epoch: r.BrokerEpoch})
	}
	return m
}

func (m *metadata) apply(cmd cluster.Command) cluster.Result {
	m.t.Helper()
	m.index++
	r := m.state.Apply(m.index, cmd)
	if r.Code != cluster.CodeNone {
		m.t.Fatalf("%T: %s %s", cmd, r.Code, r.Message)
	}
	return r
}

func (m *metadata) fence(id cluster.BrokerID) {
	m.t.Helper()
	b, ok := m.state.Image().Broker(id)
	if !ok {
		m.t.Fatalf("no broker %d", id)
	}
	m.apply(cluster.FenceBroker{Broker: id, Epoch: b.Epoch})
}

// TestElectable: what an operator's election asks the controller for, or why it is refused at once.
func TestElectable(t *testing.T) {
	topic := cluster.TopicID{9}
	tp := cluster.TopicPartition{Topic: topic}
	for _, c := range []struct {
		name    string
		fence   []cluster.BrokerID
		unclean bool
		code    cluster.Code
		leader  cluster.BrokerID
		lossy   bool
	}{
		{name: "the preferred replica leads already", code: cluster.CodeElectionNotNeeded},
		{name: "the preferred replica is down", fence: []cluster.BrokerID{0}, code: cluster.CodeNoEligibleLeader},
		{name: "an unclean election is not needed while somebody leads", fence: []cluster.BrokerID{0}, unclean: true, code: cluster.CodeElectionNotNeeded},
		{name: "everybody is down", fence: []cluster.BrokerID{0, 1, 2}, unclean: true, code: cluster.CodeNoEligibleLeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMetadata(t, 3)
			m.apply(cluster.CreateTopic{ID: topic, Name: "t", Assignment: [][]cluster.BrokerID{{0, 1, 2}}})
			for _, id := range c.fence {
				m.fence(id)
			}
			change, code := electable(m.state.Image(), tp, c.unclean, nil)
			if code != c.code {
				t.Fatalf("code %s, want %s", code, c.code)
			}
			if code == cluster.CodeNone && (change.Leader != c.leader || change.Unclean != c.lossy) {
				t.Errorf("leader %d unclean %v, want %d %v", change.Leader, change.Unclean, c.leader, c.lossy)
			}
		})
	}
	if _, code := electable(cluster.EmptyImage(), tp, false, nil); code != cluster.CodeUnknownTopic {
		t.Errorf("a partition that is not there: %s", code)
	}
}

// TestElectablePreferred: a preferred replica that is back in the ISR may lead again.
func TestElectablePreferred(t *testing.T) {
	m := newMetadata(t, 3)
	topic := cluster.TopicID{9}
	tp := cluster.TopicPartition{Topic: topic}
	m.apply(cluster.CreateTopic{ID: topic, Name: "t", Assignment: [][]cluster.BrokerID{{0, 1, 2}}})
	p, _ := m.state.Image().Partition(tp)
	m.apply(cluster.ElectLeaders{Changes: []cluster.PartitionChange{{Partition: tp, PartitionEpoch: p.PartitionEpoch, Leader: 2}}})
	change, code := electable(m.state.Image(), tp, false, nil)
	if code != cluster.CodeNone || change.Leader != 0 || change.Unclean {
		t.Errorf("%+v %s, want leader 0, clean", change, code)
	}
}

// TestCase60_NobodyIsPreferredWhileOthersAreWaitedFor: after everything was down the preferred replica is back, and who is still away may have more. An administrator who
// asks for preferred leaders, of all partitions perhaps, does not end the wait.
func TestCase60_NobodyIsPreferredWhileOthersAreWaitedFor(t *testing.T) {
	topic := cluster.TopicID{9}
	tp := cluster.TopicPartition{Topic: topic}
	for _, away := range []bool{true, false} {
		m := newMetadata(t, 3)
		m.apply(cluster.CreateTopic{ID: topic, Name: "t", Assignment: [][]cluster.BrokerID{{0, 1, 2}}})
		p, _ := m.state.Image().Partition(tp)
		p = p.Clone()
		p.Leader, p.ISR, p.ELR = cluster.NoBroker, []cluster.BrokerID{0}, []cluster.BrokerID{1}
		p.Returned = []cluster.Returned{{Broker: 0, Log: cluster.LogPosition{LogEnd: 20}}}
		if !away {
			p.Returned = append(p.Returned, cluster.Returned{Broker: 1, Log: cluster.LogPosition{LogEnd: 10}})
		}
		txn := m.state.Image().Txn()
		txn.PutPartition(tp, p)
		change, code := electable(txn.Commit(m.index+1), tp, false, nil)
		if away && code != cluster.CodeNoEligibleLeader || !away && (code != cluster.CodeNone || change.Leader != 0) {
			t.Errorf("away %v: leader %d, code %s", away, change.Leader, code)
		}
	}
}

// TestAsRefusal: every error that leaves the package has a code that doors map.
func TestAsRefusal(t *testing.T) {
	own := cluster.Refuse(cluster.CodeTopicExists, "there is one")
	for _, c := range []struct {
		err  error
		want cluster.Code
	}{
		{own, cluster.CodeTopicExists},
		{fmt.Errorf("wrapped: %w", own), cluster.CodeTopicExists},
		{context.DeadlineExceeded, cluster.CodeTimedOut},
		{fmt.Errorf("wrapped: %w", context.Canceled), cluster.CodeTimedOut},
		{controller.ErrClosed, cluster.CodeShuttingDown},
		{errors.New("anything else"), cluster.CodeUnknown},
	} {
		if got := AsRefusal(c.err); got.Code != c.want || got.Error() == "" {
			t.Errorf("%v: %s %q, want %s", c.err, got.Code, got.Error(), c.want)
		}
	}
}

// TestNotEnforced: compaction is accepted, and said plainly to do nothing yet; what is enforced or at its default is not mentioned.
func TestNotEnforced(t *testing.T) {
	configs, err := cluster.ParseConfigs(cluster.ConfigTopic, []cluster.ConfigEntry{{Key: "cleanup.policy", Value: "compact"}, {Key: "retention.ms", Value: "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	notes := notEnforced(configs)
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "cleanup.policy=compact: compaction is stored and reported but not enforced yet") {
		t.Errorf("%q", notes)
	}
}

func TestNotReached(t *testing.T) {
	for _, c := range []struct {
		value string
		notes int
	}{{"", 0}, {"1", 0}, {"3", 0}, {"4", 1}} {
		var configs cluster.Configs
		if c.value != "" {
			configs = cluster.Configs{{Key: "min.insync.replicas", Value: c.value}}
		}
		notes := notReached(configs, 3)
		if len(notes) != c.notes || (c.notes > 0 && !strings.Contains(notes[0], "above the replication factor 3")) {
			t.Errorf("min.insync.replicas=%s with 3 replicas: %q", c.value, notes)
		}
	}
}

// TestProducerIDsNeverTwice: blocks that arrive late or twice never give an id again.
func TestProducerIDsNeverTwice(t *testing.T) {
	var p producerIDs
	if id, ok := p.take(); ok {
		t.Fatalf("id %d without a block", id)
	}
	seen := map[record.ProducerID]bool{}
	for _, first := range []record.ProducerID{1000, 5000, 9000} {
		p.refill(first)
		p.refill(first + 1_000_000) // somebody else asked at the same time: the block in use stays
		for range producerIDBlock {
			id, ok := p.take()
			if !ok || seen[id] || id < first || id >= first+producerIDBlock {
				t.Fatalf("block of %d: id %d %v, seen before: %v", first, id, ok, seen[id])
			}
			seen[id] = true
		}
		if id, ok := p.take(); ok {
			t.Fatalf("block of %d is used up and gives %d", first, id)
		}
	}
}
