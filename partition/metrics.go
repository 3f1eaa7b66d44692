package partition

import "github.com/moldau-log/moldau/internal/meter"

// meters are the counters of a broker's partitions.
type meters struct {
	flushes        *meter.Histogram
	shrinks        *meter.Counter
	expands        *meter.Counter
	stale          *meter.Counter
	truncations    *meter.Counter
	lost           *meter.Counter
	duplicates     *meter.Counter
	refusedAppends *meter.Counter
	corrupt        *meter.Counter
	violations     *meter.Counter
}

func newMeters(s *meter.Set) *meters {
	changes := s.Counter("moldau_isr_changes_total", "Changes of in-sync sets that this broker's leaders saw committed.", "direction")
	return &meters{
		flushes:        s.Histogram("moldau_log_flush_duration_seconds", "Time of one flush of a partition's log.", meter.DurationBuckets()).With(),
		shrinks:        changes.With("shrink"),
		expands:        changes.With("expand"),
		stale:          s.Counter("moldau_replication_stale_inputs_total", "Inputs of an older epoch, generation or subscription, ignored.").With(),
		truncations:    s.Counter("moldau_log_truncations_total", "Truncations of local logs to what their leader has.").With(),
		lost:           s.Counter("moldau_replication_lost_ends_total", "Followers that came back from a restart with less than they had flushed.").With(),
		duplicates:     s.Counter("moldau_produce_duplicates_total", "Batches that were in the log already and were answered without an append.").With(),
		refusedAppends: s.Counter("moldau_log_appends_refused_total", "Appends that left the log as it was, such as on a full disk.").With(),
		corrupt:        s.Counter("moldau_replication_corrupt_batches_total", "Deliveries from leaders that held a bad batch, not appended.").With(),
		violations:     s.Counter("moldau_invariant_violations_total", "Partitions taken offline because an invariant broke.").With(),
	}
}
