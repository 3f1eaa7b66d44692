package partition

import (
	"fmt"
	"log/slog"

	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/segment"
)

// replayBytes is how much log is read at once to rebuild producer state.
const replayBytes = 1 << 20

// loadProducers rebuilds the producer state from the newest snapshot and the batches behind it.
func (p *Partition) loadProducers() error {
	var read int64
	var err error
	p.producers, p.snapshotAt, read, err = p.restoreProducers()
	p.appendedSince += read // so that a snapshot is due when much was read
	return err
}

// restoreProducers reads the newest snapshot, tells where it is, and applies the batches behind it, so many bytes.
func (p *Partition) restoreProducers() (state *Producers, at record.Offset, read int64, err error) {
	at, encoded, ok := p.log.ProducerSnapshots()
	state = newProducers()
	if ok {
		decoded, err := decodeProducers(encoded)
		if err != nil {
			p.env.log.Warn("producer snapshot not readable; the log is read instead", p.attrs(slog.Any("error", err))...)
			ok = false
		} else {
			state = decoded
		}
	}
	if !ok {
		at = p.log.Start()
	}
	read, err = state.replay(p.log.View(), max(at, p.log.Start()), p.wallMs)
	return state, at, read, err
}

// replay applies the batches of a log from an offset on, and returns how many bytes it has read. Their time of append is not known; their timestamps are the
// clients', who may say anything. So the present stands for it: a producer is remembered longer for a restart, and never forgotten too early.
func (t *Producers) replay(v *segment.View, from record.Offset, nowMs int64) (read int64, err error) {
	var buf []byte
	for from < v.End() {
		slice, err := v.Read(from, replayBytes, v.End())
		if err != nil {
			return read, fmt.Errorf("partition: rebuild producer state at %d: %w", from, err)
		}
		if slice.Len() == 0 {
			return read, nil
		}
		buf, err = slice.AppendTo(buf[:0])
		slice.Release()
		read += int64(len(buf))
		if err == nil {
			err = record.Split(buf, func(b record.Batch) error {
				if b.BaseOffset() < from && planted.On(planted.TrimmedBatchNotReplayed) {
					from = b.NextOffset()
					return nil
				}
				if b.NextOffset() > from { // also of one that the log start lies in
					t.apply(b.Head, nowMs)
				}
				from = max(from, b.NextOffset())
				return nil
			})
		}
		if err != nil {
			return read, fmt.Errorf("partition: rebuild producer state at %d: %w", from, err)
		}
	}
	return read, nil
}

// rememberBelow stores what is known of the producers of records that are about to be deleted, unless a snapshot from there on has it: the log will not tell it any more. Only
// of committed ones: what a deposed leader has below a log start that its successor's records have led to is forgotten with it.
func (p *Partition) rememberBelow(start record.Offset) {
	if start <= p.snapshotAt || start > p.replica.HighWatermark() {
		return
	}
	if below := p.producers.below(start); below.len() > 0 {
		p.writeSnapshot(start, below.encode())
	}
}

// ProducerSnapshot is up to where the records reach of which the newest producer snapshot tells, the log start when there is none.
func (p *Partition) ProducerSnapshot() record.Offset { return p.snapshotAt }

// CheckProducers reads the whole log and compares what its batches tell of their producers with what is remembered, and with what a start would remember, from the
// newest snapshot. It is for who looks for bugs, between turns and before any producer has expired. An error says what differs, or that the log cannot be read.
func (p *Partition) CheckProducers() error {
	told := newProducers()
	if _, err := told.replay(p.log.View(), p.log.Start(), p.wallMs); err != nil {
		return err
	}
	if err := p.producers.compare(told, p.log.Start()); err != nil {
		return err
	}
	restored, at, _, err := p.restoreProducers()
	if err != nil {
		return err
	}
	if err := restored.compare(told, p.log.Start()); err != nil {
		return fmt.Errorf("by the snapshot at %d: %w", at, err)
	}
	return nil
}

// Maintain does what is due now and then: retention, which only a leader decides, producer expiry, and a checkpoint that keeps recovery short.
func (p *Partition) Maintain() {
	p.endGather()
	if p.broken != nil || p.replica.Role() == replication.Offline {
		return
	}
	p.producers.expire(p.wallMs - p.expiry.Milliseconds())
	if p.startDue > p.log.Start() && p.startDue <= p.log.End() && p.log.Err() == nil {
		p.moveStart(p.startDue)
	}
	if p.replica.Role() == replication.Leader {
		p.retain()
	}
	if p.log.End() != p.checkpointed && p.log.Err() == nil {
		if err := p.log.Checkpoint(); err != nil {
			p.logError(err, "checkpoint not written")
		}
		p.checkpointed = p.log.End()
	}
}

// retain deletes what the topic no longer keeps, below the watermark.
func (p *Partition) retain() {
	deleted, start, err := p.log.Retain(p.wallMs, p.replica.HighWatermark())
	if err != nil {
		p.logError(err, "retention pass failed")
		return
	}
	if start > p.replica.LogStart() {
		p.rememberBelow(start)
		p.env.log.Info("old segments deleted", p.attrs(slog.Int("segments", deleted), slog.Int64("log_start", int64(start)))...)
		p.startMoved()
	}
}

// Stop ends the partition's part in replication: whoever waits is answered.
func (p *Partition) Stop() {
	if p.broken == nil {
		p.Step(&replication.Stop{})
	}
}

// Flushing reports whether a flush is under way: the log must stay until its end was told.
func (p *Partition) Flushing() bool { return p.flusher.inFlight }

// Close closes the log with the clean mark, after Stop. Nothing may be called afterwards.
func (p *Partition) Close() error {
	if p.log == nil {
		return nil
	}
	if p.broken != nil || p.log.Err() != nil || p.replica.Failure() != nil {
		p.log.Abandon() // also where the log works: what was remembered of its producers may be a part
		return nil      // what is wrong was reported when it happened
	}
	if err := p.log.Flush(); err != nil {
		p.log.Abandon()
		return fmt.Errorf("partition: close %s: %w", p.tp, err)
	}
	if p.snapshotAt != p.log.End() {
		p.writeSnapshot(p.log.End(), p.producers.encode()) // also when it is empty: otherwise the next start reads the whole log to find that out
	}
	if err := p.log.Close(); err != nil {
		return fmt.Errorf("partition: close %s: %w", p.tp, err)
	}
	return nil
}

// Remove deletes the log's files, after Stop. Nothing may be called afterwards.
func (p *Partition) Remove() error {
	if p.log == nil {
		return nil
	}
	if err := p.log.Remove(); err != nil {
		return fmt.Errorf("partition: remove %s: %w", p.tp, err)
	}
	return nil
}

// Abandon lets go of the log without any mark, as a crash would.
func (p *Partition) Abandon() {
	if p.log != nil {
		p.log.Abandon()
	}
}
