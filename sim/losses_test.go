package sim

import (
	"strconv"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// TestCase59_WhoGoesOnBehindALoss is a member that goes on where another one has committed, above where a forced election has cut: it has to be told of the loss, unless
// the one that committed had come past it, and what it had read is there.
func TestCase59_WhoGoesOnBehindALoss(t *testing.T) {
	for past, told := range []bool{true, false} {
		w := newWorld(Options{Seed: 1, Trace: true, Without: Names()})
		w.setUp()
		w.runUntil(w.now+time.Second, w.check.failed)
		tp := w.partitions[0]
		w.check.ledgers[tp].losses = []loss{{epoch: 5, cut: 3}}
		number := w.groups.check.nextCommit()
		w.groups.check.sent(group.Commit{}, map[cluster.TopicPartition]int{tp: past})
		from := group.FetchedOffset{Partition: tp, Found: true, Committed: cluster.CommittedOffset{Offset: 7, LeaderEpoch: 0, Metadata: strconv.Itoa(number)}}
		c := &consumer{l: w.load, tp: tp, to: w.load.route(tp), position: 7, lastEpoch: 0, losses: w.groups.check.lossesAt(from)}
		res := fetched{leader: true}
		res.LeaderEpoch = 7
		if c.goesPast(res); w.check.failed() != told {
			t.Errorf("committed after %d losses: %q", past, w.check.violation)
		}
	}
}
