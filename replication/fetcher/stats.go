package fetcher

import "github.com/moldau-log/moldau/internal/meter"

// counters are what a Fetcher counts. The names are in docs/metrics.md.
type counters struct {
	opened, failed, broken *meter.Counter // streams
	frames, overruns       *meter.Counter // data frames
	refused                *meter.CounterVec
}

func newCounters(set *meter.Set) counters {
	streams := set.Counter("moldau_replication_streams_total", "Replication streams to leaders by what became of them.", "event")
	return counters{
		opened: streams.With("opened"), failed: streams.With("failed"), broken: streams.With("broken"),
		frames:   set.Counter("moldau_replication_frames_total", "Data frames received from leaders.").With(),
		overruns: set.Counter("moldau_replication_overruns_total", "Data frames that a local replica did not take, so that its subscription began anew.").With(),
		refused:  set.Counter("moldau_replication_refused_total", "Subscriptions that a leader refused or ended, by reason.", "code"),
	}
}
