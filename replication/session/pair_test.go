package session

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/moldau-log/moldau/record"
)

// replicaModel is a follower's log as far as acknowledgements go: what it holds and what of that is on disk. A truncation takes both back.
type replicaModel struct {
	end, flushed record.Offset
	// under is the id of the subscription that is known to be active, 0 for none.
	under SubscriptionID
}

// Whatever the order of appends, acknowledgements, refusals, overruns and truncations, no acknowledgement that goes out claims more than the log then holds,
// and the last one of a quiet replica always reaches the leader.
func TestAcknowledgementsNeverOutliveATruncation(t *testing.T) {
	w := Wanted{Partition: tp(1), LeaderEpoch: 3}
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		f := NewFollower(DefaultBackoff())
		f.Follow(0, w)
		f.Connected(0)
		var m replicaModel
		now := time.Duration(0)
		told := record.Offset(-1) // what the leader knows under the present subscription
		drain := func() {
			for _, up := range f.Frames(nil) {
				switch u := up.(type) {
				case Subscribe:
					m.under, told = u.ID, u.Flushed
				case Unsubscribe:
					if u.ID == m.under {
						m.under = 0
					}
				case Ack:
					if u.ID != m.under || u.LogEnd > m.end || u.Flushed > m.flushed {
						t.Fatalf("seed %d: ack %+v goes out, the log ends at %d under %d", seed, u, m.end, m.under)
					}
					told = u.Flushed
				}
			}
		}
		acknowledge := func() { f.Acknowledge(w, Ack{LogEnd: m.end, Flushed: m.flushed}) }
		flush := func() {
			m.flushed = m.end
			acknowledge()
		}
		truncate := func() {
			m.end -= min(m.end, record.Offset(rnd.IntN(4)))
			m.flushed = min(m.flushed, m.end)
			f.Follow(now, w) // the replica says that its position has changed
		}
		subscribe := func() {
			for {
				due, ok := f.Due(now)
				if !ok {
					return
				}
				at := m
				if rnd.IntN(4) == 0 {
					flush()
				}
				if rnd.IntN(6) == 0 {
					truncate()
				}
				f.Begin(now, Subscribe{Partition: due.Partition, LeaderEpoch: due.LeaderEpoch, LogEnd: at.end, Flushed: at.flushed})
			}
		}
		for range 400 {
			now += time.Duration(rnd.IntN(30)) * time.Millisecond
			switch rnd.IntN(7) {
			case 0, 1:
				if _, ok := f.Received(m.under); ok {
					m.end++
					acknowledge()
				}
			case 2:
				flush()
			case 3:
				drain()
			case 4:
				f.Overrun(now, m.under)
			case 5:
				if _, ok := f.Refused(now, Refused{ID: m.under, Diverged: true}); ok {
					truncate()
				}
			case 6:
				subscribe()
			}
			if rnd.IntN(50) == 0 {
				f.Disconnected()
				m.under = 0
				f.Connected(now)
			}
		}
		now += time.Hour
		subscribe()
		drain()
		if m.under == 0 || told != m.flushed {
			t.Fatalf("seed %d: the leader knows %d under %d, the log is on disk to %d", seed, told, m.under, m.flushed)
		}
	}
}
