package cluster

import "testing"

// A run that was killed between its registration and the answer has left a marker of the stop before it. The next one does not look like an old disk for that.
func TestPreviousEpoch(t *testing.T) {
	txn := EmptyImage().Txn()
	txn.PutBroker(&Broker{ID: 1, Epoch: 40, Incarnation: IncarnationID{9}})
	image := txn.Commit(41)
	for name, c := range map[string]struct {
		id     BrokerID
		marked BrokerEpoch
		starts []IncarnationID
		want   BrokerEpoch
	}{
		"an orderly stop": {1, 40, nil, 40},
		"an old disk":     {1, 20, nil, 20},
		"an old disk whose first start was killed": {1, 20, []IncarnationID{{7}}, 20},
		"a start whose registration was unknown":   {1, 20, []IncarnationID{{7}, {9}, {8}}, 40},
		"an unclean stop":                          {1, NoBrokerEpoch, []IncarnationID{{9}}, NoBrokerEpoch},
		"a broker that is not known":               {2, 20, []IncarnationID{{9}}, 20},
	} {
		if got := image.PreviousEpoch(c.id, c.marked, c.starts); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
