package broker

import (
	"slices"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
)

// A broker whose session ended registers again in the same life. What it reported at its start counts only where it is so still: a replica that was copied anew
// meanwhile may be the last complete one, and would be forgotten.
func TestRegisteringAgainReportsWhatIsOfflineNow(t *testing.T) {
	at := func(n int32) cluster.TopicPartition { return cluster.TopicPartition{Partition: n} }
	codes := map[int32]cluster.Code{0: cluster.CodeNone, 1: cluster.CodeNotLeader, 2: cluster.CodeStorage, 3: cluster.CodeUnknownTopic}
	lead := func(tp cluster.TopicPartition) (*partition.Runner, cluster.Code) { return nil, codes[tp.Partition] }
	if got := stillOffline(slices.Values([]cluster.TopicPartition{at(0), at(1), at(2), at(3)}), lead); !slices.Equal(got, []cluster.TopicPartition{at(2)}) {
		t.Errorf("reported %v", got)
	}
}
