package broker

import (
	"slices"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// TestCase59_AnUncleanElectionTakesTheFullestCopy: broker 0 was the last in sync and is back, with the directory of its replica gone.
func TestCase59_AnUncleanElectionTakesTheFullestCopy(t *testing.T) {
	has := func(epoch record.LeaderEpoch, end record.Offset) *PartitionStatus {
		return &PartitionStatus{LastEpoch: epoch, LogEnd: end}
	}
	missing := &PartitionStatus{LastEpoch: record.NoEpoch, Offline: "the directory is missing"}
	notYet := &PartitionStatus{LastEpoch: record.NoEpoch, LogEnd: -1}
	for name, c := range map[string]struct {
		status [3]*PartitionStatus // nil: it does not answer
		isr    []cluster.BrokerID
		want   cluster.BrokerID
		lossy  bool
	}{
		"the longest":                               {[3]*PartitionStatus{missing, has(3, 10), has(3, 12)}, nil, 2, true},
		"the newest":                                {[3]*PartitionStatus{missing, has(4, 10), has(3, 12)}, nil, 1, true},
		"an empty one that works":                   {[3]*PartitionStatus{missing, has(record.NoEpoch, 0), missing}, nil, 1, true},
		"an empty one, not a silent one":            {[3]*PartitionStatus{missing, has(record.NoEpoch, 0), nil}, nil, 2, true},
		"an empty one at the end, not a silent one": {[3]*PartitionStatus{missing, nil, has(record.NoEpoch, 20)}, nil, 1, true},
		"one with a record, and a silent one":       {[3]*PartitionStatus{nil, missing, has(1, 1)}, nil, 2, true},
		"a complete one that is empty":              {[3]*PartitionStatus{nil, has(record.NoEpoch, 0), nil}, []cluster.BrokerID{1}, 1, false},
		"not made yet":                              {[3]*PartitionStatus{notYet, has(1, 5), nil}, nil, 1, true},
		"one that does not answer":                  {[3]*PartitionStatus{missing, nil, missing}, nil, 1, true},
		"the first of equals":                       {[3]*PartitionStatus{has(3, 10), has(3, 10), has(3, 10)}, nil, 0, true},
		"nobody has anything":                       {[3]*PartitionStatus{missing, missing, missing}, nil, 0, true},
		"nobody answers":                            {[3]*PartitionStatus{}, nil, 0, true},
		"a complete one":                            {[3]*PartitionStatus{has(3, 20), has(3, 20), has(3, 10)}, []cluster.BrokerID{2}, 2, false},
		"a complete one, silent":                    {[3]*PartitionStatus{has(3, 20), has(3, 20), nil}, []cluster.BrokerID{2}, 2, false},
		"a complete one, not intact":                {[3]*PartitionStatus{missing, has(3, 10), has(3, 9)}, []cluster.BrokerID{0}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMetadata(t, 3)
			topic := cluster.TopicID{9}
			tp := cluster.TopicPartition{Topic: topic}
			m.apply(cluster.CreateTopic{ID: topic, Name: "t", Assignment: [][]cluster.BrokerID{{0, 1, 2}}})
			p, _ := m.state.Image().Partition(tp)
			p = p.Clone()
			p.Leader, p.ISR = cluster.NoBroker, slices.Clone(c.isr)
			txn := m.state.Image().Txn()
			txn.PutPartition(tp, p)
			copies := map[replica]PartitionStatus{}
			for id, s := range c.status {
				if s != nil {
					copies[replica{tp, cluster.BrokerID(id)}] = *s
				}
			}
			change, code := electable(txn.Commit(m.index+1), tp, true, copies)
			if code != cluster.CodeNone || change.Leader != c.want || change.Unclean != c.lossy {
				t.Errorf("leader %d, unclean %v, code %s; want %d, %v", change.Leader, change.Unclean, code, c.want, c.lossy)
			}
		})
	}
}
