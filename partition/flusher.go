package partition

import (
	"log/slog"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/segment"
)

// flusher decides when a log is flushed. At most one flush is under way; what is appended meanwhile gathers for the next one: group commit.
type flusher struct {
	wanted   bool // by the machine: something waits for it
	inFlight bool
	// dirtySince is when the oldest unflushed record was appended, 0 for none.
	dirtySince time.Duration
}

// appended notes that the log has grown.
func (f *flusher) appended(now time.Duration) {
	if f.dirtySince == 0 {
		f.dirtySince = max(1, now)
	}
}

// due says whether to flush now, or when to look again (0: never).
func (f *flusher) due(now time.Duration, config *cluster.TopicConfig, unflushed int64) (bool, time.Duration) {
	if f.inFlight || unflushed <= 0 {
		return false, 0
	}
	if f.wanted || config.FlushPolicy == cluster.FlushAlways || unflushed >= config.FlushMessages {
		return true, 0
	}
	age := config.FlushAge // flush.ms and flush.messages may make flushing stricter, never looser
	if config.FlushPolicy == cluster.FlushInterval {
		age = min(age, config.FlushInterval)
	}
	at := f.dirtySince + age
	if age < 0 || at < f.dirtySince {
		return false, 0 // beyond what a Duration holds
	}
	return now >= at, at
}

// FlushJob is one flush to be run.
type FlushJob struct {
	flush      segment.Flush
	generation uint64 // the machine's
	producers  []byte // producer state as of flush.Target, when a snapshot is due
	began      time.Duration
	err        error // of Sync, for the way back
}

// Sync does the waiting. It may be called on any goroutine, once.
func (j *FlushJob) Sync() error { return j.flush.Sync() }

// nextFlush begins a flush when one is due, or says when to look again.
func (p *Partition) nextFlush() (*FlushJob, time.Duration) {
	if p.log.Err() != nil {
		return nil, 0
	}
	flush, at := p.flusher.due(p.now, &p.config, int64(p.log.End()-p.log.Flushed()))
	if !flush {
		return nil, at
	}
	p.flusher.inFlight, p.flusher.wanted = true, false
	p.flusher.dirtySince = 0
	j := &FlushJob{flush: p.log.BeginFlush(), generation: p.replica.Generation(), began: p.now}
	if p.appendedSince >= p.env.snapshotBytes {
		j.producers = p.producers.encode()
		p.appendedSince = 0
	}
	return j, 0
}

// FlushDone takes the end of a flush. A failed fsync is never retried: the log is offline (case 9).
func (p *Partition) FlushDone(j *FlushJob, err error) {
	p.endGather()
	p.flusher.inFlight = false
	if p.log == nil {
		return
	}
	p.env.meters.flushes.Observe((p.now - j.began).Seconds())
	err = p.log.EndFlush(j.flush, err)
	if p.broken != nil {
		return
	}
	if err != nil {
		p.step(&replication.FlushFailed{Reason: err})
		return
	}
	if j.producers != nil && planted.On(planted.SnapshotAhead) {
		j.producers = p.producers.encode()
	}
	if j.producers != nil && (j.generation == p.replica.Generation() || planted.On(planted.SnapshotOutlivesTruncation)) {
		p.writeSnapshot(j.flush.Target, j.producers)
	}
	p.in.flushed = replication.Flushed{Generation: j.generation, End: j.flush.Target}
	p.step(&p.in.flushed)
	if p.config.FlushPolicy == cluster.FlushAlways && p.log.Relaxed() && p.log.Flushed() == p.log.End() {
		if err := p.log.SetRelaxed(false); err != nil {
			p.logError(err, "relaxed mark not cleared")
		}
	}
}

// writeSnapshot stores producer state as of an offset that is on disk, or below which everything is committed and to be deleted. One of other unflushed records would
// outlive them in a power cut, and describe others later. A replica that has failed writes none: it may have failed while it rebuilt that state.
func (p *Partition) writeSnapshot(at record.Offset, state []byte) {
	if p.replica.Failure() != nil {
		return
	}
	if err := p.log.WriteProducerSnapshot(at, state); err != nil {
		p.env.retried.Warn("producer snapshot not written", p.attrs(slog.Any("error", err))...)
		return
	}
	p.snapshotAt = at
}
