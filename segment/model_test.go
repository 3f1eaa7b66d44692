package segment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// TestModel runs random operations, crashes and disk errors on a log and on a slice of batches, and compares them after each step. A
// crash may happen between any two changes of the disk that an operation makes. What is claimed:
//
//   - what was flushed is there after every crash, unless it was truncated or deleted;
//   - what is there is a prefix of what was appended, byte for byte, and nothing that was truncated comes back;
//   - the log start does not go back;
//   - the epoch history is that of the batches;
//   - a power cut alone is never reported as damage.
func TestModel(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		m := newModel(t, uint64(seed))
		for range 60 {
			m.step()
		}
	}
}

// contents is the model of a log.
type contents struct {
	batches []record.Batch // those that reach beyond start, and no others
	start   record.Offset
	empty   record.Offset // the end of a log without batches
	flushed record.Offset
}

func (c contents) end() record.Offset {
	if n := len(c.batches); n > 0 {
		return c.batches[n-1].NextOffset()
	}
	return c.empty
}

// aligned is the end of the last batch that ends at or below limit.
func (c contents) aligned(limit record.Offset) record.Offset {
	at := c.start
	for _, b := range c.batches {
		if b.NextOffset() <= limit {
			at = b.NextOffset()
		}
	}
	return at
}

func (c contents) clone() contents {
	c.batches = slices.Clone(c.batches)
	return c
}

func (c contents) cut(end record.Offset) contents {
	c = c.clone()
	for n := len(c.batches); n > 0 && c.batches[n-1].NextOffset() > end; n = len(c.batches) {
		c.batches = c.batches[:n-1]
	}
	c.empty = c.start
	c.flushed = min(c.flushed, c.end())
	return c
}

func (c contents) moveStart(start record.Offset) contents {
	c = c.clone()
	end := c.end()
	for len(c.batches) > 0 && c.batches[0].NextOffset() <= start {
		c.batches = c.batches[1:]
	}
	c.start, c.empty = start, end
	return c
}

func (c contents) epochs() epochHistory {
	var e epochHistory
	for _, b := range c.batches {
		e = e.note(b.LeaderEpoch(), b.BaseOffset())
	}
	return e.cutStart(c.start)
}

type model struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	mem   *vfs.Mem
	fs    *vfs.Injector
	cfg   Config
	log   *Log
	now   contents
	epoch record.LeaderEpoch
	clock int64
	note  []string

	partial bool // an append with gaps failed, perhaps between two segments
	crashIn int  // changes of the disk until the crash; 0 is none
	crashed *vfs.Mem
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 42)), clock: 1000}
	m.cfg = testConfig()
	m.cfg.SegmentBytes = 1024 + m.rng.Int64N(8192)
	m.cfg.IndexIntervalBytes = m.rng.IntN(1000)
	m.use(newTestFS(t))
	m.open()
	return m
}

func (m *model) use(mem *vfs.Mem) {
	m.mem, m.crashed, m.crashIn = mem, nil, 0
	m.fs = vfs.NewInjector(mem, func(string) {
		if m.crashIn--; m.crashIn == 0 {
			m.crashed = m.mem.Crash(m.rng)
		}
	})
}

func (m *model) fatalf(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("seed %d: %s\nafter %q", m.seed, fmt.Sprintf(format, args...), m.note)
}

func (m *model) check(err error) {
	m.t.Helper()
	if err != nil {
		m.fatalf("%v", err)
	}
}

func (m *model) open() Report {
	l, report, err := Open(m.fs, testDir, testID, m.cfg)
	if err != nil && !errors.Is(err, ErrDamaged) {
		m.fs.Heal() // an Open that met a disk error can be repeated
		l, report, err = Open(m.fs, testDir, testID, m.cfg)
	}
	if err != nil {
		m.fatalf("open: %v", err)
	}
	if report.Doubtful && !report.Relaxed {
		m.fatalf("open: a crash alone has left a doubtful end: %+v", report)
	}
	m.check(SettleDoubt(m.mem, testDir))
	m.log = l
	return report
}

// step does one operation. after is what the log holds when it succeeds.
func (m *model) step() {
	name, run, after := m.pick()
	m.note = append(m.note, name)
	before := m.now.clone()
	m.partial = false
	switch m.rng.IntN(12) {
	case 0:
		m.crashIn = 1 + m.rng.IntN(12)
	case 1:
		m.fs.Add(vfs.Rule{Op: vfs.OpWrite, Nth: 1 + m.rng.IntN(2), Count: 1, Err: syscall.ENOSPC, Short: m.rng.IntN(200)})
	case 2:
		ops := []vfs.Op{vfs.OpSync, vfs.OpSyncDir, vfs.OpRename, vfs.OpCreate, vfs.OpWrite, vfs.OpRemove, vfs.OpTruncate, vfs.OpRead}
		m.fs.Add(vfs.Rule{Op: ops[m.rng.IntN(len(ops))], Nth: 1 + m.rng.IntN(3), Count: 1, Err: syscall.EIO})
	}
	err := run()
	m.fs.Heal()
	m.crashIn = 0
	switch {
	case m.crashed != nil:
		m.note = append(m.note, "crash")
		m.log.Abandon()
		m.use(m.crashed)
		m.reopen(before, after)
	case err == nil:
		m.now = after
		m.compare(m.now)
	case m.log.Err() != nil:
		m.note = append(m.note, "offline")
		m.log.Abandon()
		m.reopen(before, after)
	case m.partial:
		m.note = append(m.note, "partial")
		m.now = after.cut(m.log.End())
		m.now.empty = max(m.now.empty, m.log.End())
		if len(m.now.batches) < len(before.batches) {
			m.fatalf("a refused append lost batches")
		}
		m.compare(m.now)
	default:
		m.note = append(m.note, "refused")
		m.compare(before)
	}
}

// pick chooses an operation.
func (m *model) pick() (name string, run func() error, after contents) {
	after = m.now.clone()
	switch n := m.rng.IntN(100); {
	case n < 45:
		return m.pickAppend(after)
	case n < 60:
		after.flushed = after.end()
		return "flush", m.log.Flush, after
	case n < 68:
		to := m.within(m.now.start, m.now.end())
		after = after.cut(to)
		return fmt.Sprintf("truncate %d", to), func() error { return m.log.TruncateTo(to) }, after
	case n < 70:
		to := m.now.start + record.Offset(m.rng.IntN(300))
		after = contents{start: to, empty: to, flushed: min(m.now.flushed, to)}
		return fmt.Sprintf("reset %d", to), func() error { return m.log.ResetTo(to) }, after
	case n < 78:
		to := m.within(m.now.start, m.now.end())
		return fmt.Sprintf("start %d", to), func() error { return m.log.MoveStart(to) }, after.moveStart(to)
	case n < 82:
		return "checkpoint", m.log.Checkpoint, after
	case n < 86:
		relaxed := m.rng.IntN(2) == 0
		return "relaxed", func() error { return m.log.SetRelaxed(relaxed) }, after
	case n < 90:
		after.flushed = after.end()
		return "close", m.closeAndOpen, after
	case n < 94:
		return "kill", func() error { m.log.Abandon(); m.open(); return nil }, m.recovered(after)
	case n < 97:
		return "power cut", func() error { m.crashed = m.mem.Crash(m.rng); return nil }, after
	default:
		m.clock += m.cfg.SegmentAge.Milliseconds()
		return "age", func() error { return nil }, after
	}
}

// recovered is the state after an Open that had to recover and lost nothing.
func (m *model) recovered(c contents) contents {
	c.flushed = c.end()
	return c
}

func (m *model) closeAndOpen() error {
	if err := m.log.Close(); err != nil {
		return err
	}
	if m.crashed == nil {
		m.fs.Heal() // what the disk refuses to read is recovered, and that is no clean stop
		if report := m.open(); !report.Clean {
			m.fatalf("a clean stop was not seen: %+v", report)
		}
	}
	return nil
}

func (m *model) within(from, to record.Offset) record.Offset {
	return from + record.Offset(m.rng.Int64N(int64(to-from)+1))
}

func (m *model) pickAppend(after contents) (string, func() error, contents) {
	var all []byte
	at := after.end()
	if m.rng.IntN(4) == 0 {
		m.epoch++
	}
	gaps := m.rng.IntN(8) == 0
	for range 1 + m.rng.IntN(3) {
		if gaps {
			at += record.Offset(m.rng.IntN(3)) * record.Offset(m.rng.Int64N(1<<31))
		}
		spec := batchSpec{base: at, epoch: m.epoch, count: 1 + m.rng.IntN(4), size: m.rng.IntN(500), ts: m.clock, fill: byte(m.rng.IntN(256))}
		if m.rng.IntN(3) == 0 {
			spec.codec = record.CodecZstd
		}
		b, err := record.Parse(makeBatch(m.t, spec))
		m.check(err)
		m.clock += m.rng.Int64N(50)
		after.batches, all, at = append(after.batches, b), append(all, b.Bytes()...), b.NextOffset()
	}
	return fmt.Sprintf("append to %d", at), func() error {
		if gaps {
			_, err := m.log.AppendReplicated(m.clock, all)
			m.partial = err != nil
			return err
		}
		_, err := m.log.Append(m.clock, all)
		return err
	}, after
}

// reopen opens the log after a crash or an error in an operation that was to lead from before to after.
func (m *model) reopen(before, after contents) {
	m.open()
	var misfits []string
	for _, c := range []contents{before, after} {
		got, misfit := m.fit(c)
		if misfit == "" {
			m.now = got
			m.compare(m.now)
			return
		}
		misfits = append(misfits, misfit)
	}
	m.fatalf("the log [%d, %d) is neither the one before nor the one after: %q", m.log.Start(), m.log.End(), misfits)
}

// fit cuts c to what the recovered log holds, or says why the log cannot be what is left of c.
func (m *model) fit(c contents) (contents, string) {
	end := m.log.End()
	// An append with a gap may have got through in part, and so may what a crash kept of it.
	got := c.cut(max(end, c.start))
	switch {
	case m.log.Start() != c.start:
		return c, fmt.Sprintf("start is %d, want %d", m.log.Start(), c.start)
	case end < c.flushed:
		return c, fmt.Sprintf("%d was flushed", c.flushed)
	case end > c.end():
		return c, fmt.Sprintf("end was %d", c.end())
	}
	// The end of a log without batches, or with a gap before its end, lives in file names.
	if got.end() != end && len(got.batches) > 0 {
		return c, fmt.Sprintf("prefix ends at %d", got.end())
	}
	got.empty = end
	got.flushed = got.end()
	return got, ""
}

// compare checks everything that can be seen of the log.
func (m *model) compare(c contents) {
	m.t.Helper()
	l := m.log
	if l.Start() != c.start || l.End() != c.end() {
		m.fatalf("log is [%d, %d), want [%d, %d)", l.Start(), l.End(), c.start, c.end())
	}
	if l.Flushed() < c.flushed || l.Flushed() > l.End() {
		m.fatalf("flushed is %d, want %d or more, end is %d", l.Flushed(), c.flushed, l.End())
	}
	if got, want := epochHistory(l.Epochs()), c.epochs(); !m.sameEpochs(got, want, c) {
		m.fatalf("epochs %v, want %v", got, want)
	}
	v := l.View()
	at := c.start
	for i := 0; i < len(c.batches); {
		s, err := v.Read(at, m.rng.IntN(3000), l.End())
		if err != nil {
			m.fatalf("read at %d: %v", at, err)
		}
		got, err := s.AppendTo(nil)
		s.Release()
		m.check(err)
		for len(got) > 0 {
			want := c.batches[i].Bytes()
			if !bytes.HasPrefix(got, want) {
				m.fatalf("other bytes at offset %d", at)
			}
			got, at, i = got[len(want):], c.batches[i].NextOffset(), i+1
		}
	}
	m.compareTimes(v, c)
}

// sameEpochs allows for what the model does not keep: of the batches below the start, the log still knows the last epoch.
func (m *model) sameEpochs(got, want epochHistory, c contents) bool {
	if len(got) > 0 && got[0].Start == c.start && (len(want) == 0 || want[0].Start > c.start) {
		if len(want) > 0 && want[0].Epoch == got[0].Epoch {
			want = want[1:]
		}
		got = got[1:]
	}
	return slices.Equal(got, want)
}

func (m *model) compareTimes(v *View, c contents) {
	ts := m.clock - m.rng.Int64N(2000)
	limit := m.within(c.start, c.end())
	want, newest, newestTime := record.Offset(-1), record.Offset(-1), int64(-1)
	for _, b := range c.batches {
		for r, err := range b.All(maxDecompressed) {
			m.check(err)
			if b.NextOffset() <= limit && r.Offset >= c.start && r.Timestamp > newestTime {
				newest, newestTime = r.Offset, r.Timestamp
			}
			if want < 0 && r.Timestamp >= ts && r.Offset >= c.start && r.Offset < limit {
				want = r.Offset
			}
		}
	}
	got, _, found, err := v.OffsetForTimestamp(context.Background(), ts, limit, nil)
	m.check(err)
	if found != (want >= 0) || found && got != want {
		m.fatalf("time %d below %d: offset %d %v, want %d", ts, limit, got, found, want)
	}
	limit = c.aligned(limit) // the watermark is always between two batches
	got, _, found, err = v.MaxTimestamp(context.Background(), limit, nil)
	m.check(err)
	if found != (newest >= 0) || found && got != newest {
		m.fatalf("newest below %d: offset %d %v, want %d", limit, got, found, newest)
	}
}
