package consumergroup

import (
	"time"

	"github.com/moldau-log/moldau/consumergroup/coordinator"
	"github.com/moldau-log/moldau/consumergroup/group"
	"github.com/moldau-log/moldau/internal/meter"
)

// metrics is what the coordinator counts. Lag and members are not here: they are asked for by Lags.
type metrics struct {
	appends, records, committed, refused, unknown, loads *meter.Counter
	removed                                              map[string]*meter.Counter // by reason
	expired                                              *meter.Counter
	seconds                                              *meter.Histogram
	// last are the totals that were added already.
	last coordinator.Counts
}

func newMetrics(set *meter.Set) *metrics {
	batches := set.Counter("moldau_group_batches_total", "Batches of group records by result.", "result")
	removed := set.Counter("moldau_group_members_removed_total", "Members that were removed without asking for it, by reason.", "reason")
	m := &metrics{
		appends:   set.Counter("moldau_group_appends_total", "Appends of group records to the metadata log.").With(),
		records:   set.Counter("moldau_group_records_total", "Group records appended to the metadata log.").With(),
		committed: batches.With("committed"),
		refused:   batches.With("refused"),
		unknown:   set.Counter("moldau_group_appends_unknown_total", "Appends of group records whose outcome is unknown.").With(),
		loads:     set.Counter("moldau_group_shard_loads_total", "Coordinator shards loaded.").With(),
		expired:   set.Counter("moldau_group_offsets_expired_total", "Committed offsets removed by retention.").With(),
		seconds: set.Histogram("moldau_group_append_duration_seconds", "Time from sending an append of group records to its result.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}).With(),
		removed: map[string]*meter.Counter{},
	}
	for reason, label := range map[string]string{
		group.ReasonSession: "session", group.ReasonRelease: "release", group.ReasonReplaced: "replaced",
		group.ReasonRejoin: "rejoin", group.ReasonSync: "sync",
	} {
		m.removed[reason] = removed.With(label)
	}
	return m
}

// add counts what the core did since the last call. It is called by the loop only.
func (m *metrics) add(now coordinator.Counts, fx coordinator.Effects) {
	m.appends.Add(now.Appends - m.last.Appends)
	m.records.Add(now.Records - m.last.Records)
	m.committed.Add(now.Committed - m.last.Committed)
	m.refused.Add(now.Refused - m.last.Refused)
	m.unknown.Add(now.Unknown - m.last.Unknown)
	m.loads.Add(now.Loads - m.last.Loads)
	m.last = now
	for _, r := range fx.Removed {
		m.removed[r.Reason].Inc()
	}
	for _, x := range fx.Expired {
		m.expired.Add(int64(x.Offsets))
	}
}

// appended observes how long an append took.
func (m *metrics) appended(took time.Duration) { m.seconds.Observe(took.Seconds()) }
