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

// Single answers to one replica, given by hand: what each of them must carry to be believed.

// single is one replica with a clock.
type single struct {
	*replication.Replica
	now time.Duration
}

func (s *single) step(in replication.Input) *replication.Effects {
	s.now += time.Millisecond
	return s.Step(s.now, in)
}

// proposing is broker 1, which leads alone with 100 records in epoch 1, and has asked for broker 2 to join in partition epoch 3.
func proposing(t *testing.T) *single {
	t.Helper()
	s := &single{Replica: replication.New(replication.Config{Partition: partitionKey, Self: 1, LagMax: 10 * time.Second}, replication.Opened{})}
	s.step(&replication.ConfigChanged{MinISR: 1})
	s.step(&replication.ControllerContact{Until: time.Hour})
	s.step(&replication.PartitionChanged{
		State: &cluster.Partition{
			Leader: 1, LeaderEpoch: 1, PartitionEpoch: 3, Replicas: []cluster.BrokerID{1, 2}, ISR: []cluster.BrokerID{1}, Directories: make([]cluster.DirectoryID, 2),
		},
		Peers: []replication.Peer{{Broker: 1, Epoch: 1, Eligible: true}, {Broker: 2, Epoch: 2, Eligible: true}},
	})
	s.append(100)
	s.step(&replication.SubscribeRequested{Follower: 2, Epoch: 2, Subscribe: session.Subscribe{ID: 1, Partition: partitionKey, LeaderEpoch: 1, LastEpoch: record.NoEpoch}})
	e := s.step(&replication.FollowerAck{ID: 1, LogEnd: 100, Flushed: 100, Follower: 2, Epoch: 2, LeaderEpoch: 1})
	if e.Alter == nil || !slices.Equal(isrOf(e.Alter), []cluster.BrokerID{1, 2}) {
		t.Fatalf("proposed %v", e.Alter)
	}
	return s
}

// append appends and flushes up to an offset.
func (s *single) append(to record.Offset) {
	s.step(&replication.ProduceRequested{LeaderEpoch: 1, Offsets: int64(to - s.LogEnd()), Acks: replication.AcksISR, Deadline: time.Hour})
	s.step(&replication.Appended{End: to})
	s.step(&replication.Flushed{End: to})
}

// The verdict on another proposal ends nothing: while the present one may be accepted, what it would bring counts (case 32).
func TestCase34_AVerdictOnAnotherProposalEndsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		verdict replication.AlterPartitionResult
		ends    bool
	}{
		"of an earlier partition epoch": {verdict: replication.AlterPartitionResult{LeaderEpoch: 1, PartitionEpoch: 2}},
		"of a later partition epoch":    {verdict: replication.AlterPartitionResult{LeaderEpoch: 1, PartitionEpoch: 4}},
		"of an earlier leadership":      {verdict: replication.AlterPartitionResult{LeaderEpoch: 0, PartitionEpoch: 3}},
		"of the present one":            {verdict: replication.AlterPartitionResult{LeaderEpoch: 1, PartitionEpoch: 3}, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := proposing(t)
			stale := s.Counts().Stale
			c.verdict.Code = cluster.CodeIneligibleReplica
			s.step(&c.verdict)
			s.append(101) // broker 2 does not have it
			if end := s.HighWatermark() == 101; end != c.ends {
				t.Errorf("the watermark is %d after the verdict", s.HighWatermark())
			}
			if ignored := s.Counts().Stale == stale+1; ignored == c.ends {
				t.Errorf("counted as stale: %v", ignored)
			}
		})
	}
}

// followerOf is broker 2, which follows broker 1 in epoch 4 with a log of ten records: five of epoch 1, five of epoch 3.
func followerOf() *single {
	s := &single{Replica: replication.New(replication.Config{Partition: partitionKey, Self: 2}, replication.Opened{
		Epochs: []record.EpochStart{{Epoch: 1, Start: 0}, {Epoch: 3, Start: 5}}, LogEnd: 10, Flushed: 10,
	})}
	s.step(&replication.PartitionChanged{State: &cluster.Partition{
		Leader: 1, LeaderEpoch: 4, PartitionEpoch: 3, Replicas: []cluster.BrokerID{1, 2}, ISR: []cluster.BrokerID{1}, Directories: make([]cluster.DirectoryID, 2),
	}})
	return s
}

// A log that is cut forgets the leader epochs of what was cut, or the next comparison is made with records that it does not have (KIP-101).
func TestCase27_ACutForgetsTheEpochsOfWhatWasCut(t *testing.T) {
	s := followerOf()
	e := s.step(&replication.SubscribeRefused{LeaderEpoch: 4, Refused: session.Refused{
		Code: cluster.CodeOffsetOutOfRange, LeaderEpoch: 4, Diverged: true, Divergence: cluster.EpochEnd{Epoch: 1, End: 7},
	}})
	if e.Truncate.To != 5 || e.Truncate.Reset || s.LogEnd() != 5 || s.Flushed() != 5 {
		t.Fatalf("cut %+v, the log ends at %d, flushed %d", e.Truncate, s.LogEnd(), s.Flushed())
	}
	if last := s.Epochs().Last(); last != 1 {
		t.Errorf("the last epoch of what is left is %d", last)
	}
}

// Batches with leader epochs that their leader cannot have are not taken: the histories are compared again.
func TestDeliveredEpochsMustFit(t *testing.T) {
	for name, c := range map[string]struct {
		epochs []record.EpochStart
		taken  bool
	}{
		"the leader's own":                  {epochs: []record.EpochStart{{Epoch: 4, Start: 10}}, taken: true},
		"the last one goes on":              {epochs: nil, taken: true},
		"older than the last one":           {epochs: []record.EpochStart{{Epoch: 2, Start: 10}}},
		"newer than the leader's":           {epochs: []record.EpochStart{{Epoch: 5, Start: 10}}},
		"begins below the batches":          {epochs: []record.EpochStart{{Epoch: 4, Start: 9}}},
		"begins above the batches":          {epochs: []record.EpochStart{{Epoch: 4, Start: 12}}},
		"the second begins below the first": {epochs: []record.EpochStart{{Epoch: 3, Start: 11}, {Epoch: 4, Start: 10}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := followerOf()
			e := s.step(&replication.Delivered{LeaderEpoch: 4, First: 10, End: 12, Epochs: c.epochs})
			if taken := len(e.Append) == 1; taken != c.taken || e.Subscribe == c.taken {
				t.Errorf("appends %+v, subscribes anew: %v", e.Append, e.Subscribe)
			}
		})
	}
}
