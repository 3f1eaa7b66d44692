package segment

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// maxDecompressed bounds the records of one batch in memory. Whoever let the batch in had a bound of its own, and a lower one.
const maxDecompressed = record.MaxBatchSize

// OffsetForTimestamp returns the first record below limit whose timestamp is at or after ts, in ms, looking into compressed batches;
// found is false when there is none. It reads the disk, until ctx ends. memory counts what decompression holds; nil for nothing.
func (v *View) OffsetForTimestamp(ctx context.Context, ts int64, limit record.Offset, memory *record.Memory) (offset record.Offset, timestamp int64, found bool, err error) {
	q := search{want: func(t int64) bool { return t >= ts }, start: v.start, limit: limit, epochs: v.epochs, memory: memory}
	for i := v.find(v.start); i <= len(v.sealed) && !found && err == nil; i++ {
		if s := v.at(i); s.newest.timestamp >= ts && s.base < limit {
			offset, timestamp, found, err = q.in(ctx, s, ts)
		}
	}
	return offset, timestamp, found, err
}

// MaxTimestamp returns the first record below limit that has the largest timestamp of all those below limit, in ms; found is false when
// no record has a timestamp. It reads the disk, until ctx ends. memory is that of OffsetForTimestamp.
func (v *View) MaxTimestamp(ctx context.Context, limit record.Offset, memory *record.Memory) (offset record.Offset, timestamp int64, found bool, err error) {
	newest := maxTime{timestamp: -1}
	for i := v.find(v.start); i <= len(v.sealed); i++ {
		s := v.at(i)
		if s.empty() || s.base >= limit || s.newest.timestamp <= newest.timestamp {
			continue
		}
		within := s.newest
		if s.end > limit || s.base < v.start {
			if within, err = s.newestIn(ctx, v.start, limit); err != nil {
				return 0, 0, false, err
			}
		}
		if within.timestamp > newest.timestamp {
			newest = within
		}
	}
	if newest.timestamp < 0 {
		return 0, 0, false, nil
	}
	// The batch says what its largest timestamp is and not which record has it.
	return v.OffsetForTimestamp(ctx, newest.timestamp, limit, memory)
}

// newestIn is newest for the batches of [start, limit) only. It reads headers.
func (s *segment) newestIn(ctx context.Context, start, limit record.Offset) (maxTime, error) {
	newest := maxTime{timestamp: -1}
	h, err := s.file.acquire()
	if err != nil {
		return newest, err
	}
	defer s.file.release()
	w := s.walk(h, 0)
	defer w.close()
	for {
		if err := ended(ctx); err != nil {
			return newest, err
		}
		b, _, err := w.next()
		switch {
		case errors.Is(err, io.EOF) || err == nil && b.next > limit:
			return newest, nil
		case err != nil:
			return newest, err
		case b.next > start:
			newest.note(b)
		}
	}
}

// ended says that whoever searches does not want to know any more.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("segment: search by timestamp: %w", err)
	}
	return nil
}

// search looks for the first record in [start, limit) with a wanted timestamp.
type search struct {
	want         func(timestamp int64) bool
	start, limit record.Offset
	epochs       epochHistory
	memory       *record.Memory
}

// instant is a record that was found.
type instant struct {
	offset    record.Offset
	timestamp int64
}

// in searches one segment, from where the time index says that nothing before reaches ts.
func (q search) in(ctx context.Context, s *segment, ts int64) (record.Offset, int64, bool, error) {
	h, err := s.file.acquire()
	if err != nil {
		return 0, 0, false, err
	}
	defer s.file.release()
	from, err := q.from(s, h, ts)
	if err != nil {
		return 0, 0, false, err
	}
	entry, err := s.entryFor(h, from)
	if err != nil {
		return 0, 0, false, err
	}
	w := s.walkFrom(h, entry, q.epochs)
	defer w.close()
	for {
		if err := ended(ctx); err != nil {
			return 0, 0, false, err
		}
		fit := w.chain
		b, position, err := w.next()
		if errors.Is(err, io.EOF) || err == nil && b.base >= q.limit {
			return 0, 0, false, nil
		}
		if err != nil {
			return 0, 0, false, err
		}
		if b.next <= q.start || !q.want(b.maxTimestamp) {
			continue
		}
		if r, ok, err := q.inBatch(s, h, position, b.size, fit); ok || err != nil {
			return r.offset, r.timestamp, ok, err
		}
	}
}

// from is the offset at which the search in a segment begins. The entry of the time index is checked against the batch that it names;
// when it is wrong, the search begins at the start of the segment, which is slow and right.
func (q search) from(s *segment, h vfs.File, ts int64) (record.Offset, error) {
	times, err := s.timesOf()
	if err != nil {
		return 0, err
	}
	e := byTime(times, ts)
	if e.relative < 0 {
		return s.base, nil
	}
	at := s.base + record.Offset(e.relative)
	entry, err := s.entryFor(h, at)
	if err != nil {
		return 0, err
	}
	w := s.walkFrom(h, entry, q.epochs)
	defer w.close()
	for {
		b, _, err := w.next()
		switch {
		case errors.Is(err, io.EOF):
			return s.base, nil
		case err != nil:
			return 0, err
		case b.next-1 == at && b.maxTimestamp == e.timestamp:
			return at + 1, nil
		case b.next > at:
			return s.base, nil
		}
	}
}

// inBatch looks at the records of one batch.
func (q search) inBatch(s *segment, h vfs.File, position, size int64, fit chain) (at instant, found bool, err error) {
	if verified, _ := s.file.checked(position, position+size); !verified {
		if err := s.verify(h, position, position+size, fit); err != nil {
			return instant{}, false, err
		}
	}
	b := make([]byte, size)
	if _, err := readAt(h, b, position); err != nil {
		return instant{}, false, err
	}
	batch, err := record.Parse(b)
	if err != nil {
		return instant{}, false, fmt.Errorf("segment: %w", err)
	}
	err = batch.Visit(maxDecompressed, q.memory, func(r *record.Visited) bool {
		if r.Offset >= q.start && r.Offset < q.limit && q.want(r.Timestamp) {
			at, found = instant{r.Offset, r.Timestamp}, true
		}
		return !found
	})
	if err != nil {
		return instant{}, false, fmt.Errorf("segment: records of batch at byte %d of %s: %w", position, s.file.path, err)
	}
	return at, found, nil
}
