package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/moldau-log/moldau/record"
)

// headRot is a log with what was appended to it, of which at most one batch has rotted in a field that no checksum covers.
type headRot struct {
	t       *testing.T
	rng     *rand.Rand
	shape   int // what the batches are like
	log     *Log
	batches []rotBatch // all that the log has; those below its start may stay
	views   []*View    // the last is the log's own
	epoch   record.LeaderEpoch
	rotten  int    // index of the batch with the flipped bit, -1 for none
	rotted  string // which bit it is
}

// rotBatch is one batch as it was appended.
type rotBatch struct {
	base, next record.Offset
	path       string
	position   int64
	bytes      []byte
	seen       bool // a read has come past it since the log was opened, so that the log may believe it
}

// A bit in the first 17 bytes of a batch, which no checksum covers, flips before any read has come past the batch. From then on no read hands the batch out: wherever it begins,
// however little it may return, in whatever order reads, appends, cuts and restarts come. What reads do hand out is what was appended, and where nothing has rotted all of them succeed.
func TestCase63_NoReadHandsOutAHeadThatRottedBeforeIt(t *testing.T) {
	for seed := range uint64(600) {
		rotHead(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// rotHead does what a seed says.
func rotHead(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 63))
	cfg := DefaultConfig()
	cfg.SegmentBytes = []int64{6 << 10, 64 << 10, 1 << 20}[rng.IntN(3)]
	cfg.IndexIntervalBytes = []int{1, 300, 4096, 1 << 20}[rng.IntN(4)]
	l, _ := mustOpen(t, newTestFS(t), cfg)
	r := &headRot{t: t, rng: rng, shape: rng.IntN(5), log: l, rotten: -1}
	defer func() { r.log.Abandon() }()
	r.append(1 + rng.IntN(3))
	if rng.IntN(4) == 0 && r.shape != 2 {
		r.append(100) // more than one window of a walk
	}
	for range 10 + rng.IntN(30) {
		r.step()
	}
	if !r.flip() {
		return
	}
	for range 10 + rng.IntN(30) {
		if r.step(); r.rotten < 0 {
			return // it was cut off
		}
	}
	for range 30 {
		r.read()
	}
}

// step is one thing that happens to the log.
func (r *headRot) step() {
	switch n := r.rng.IntN(100); {
	case n < 45:
		r.append(1 + r.rng.IntN(3))
	case n < 90:
		r.read()
	case n < 93:
		r.moveStart()
	case n < 96:
		r.truncate()
	case n < 98:
		r.reopen()
	case !r.log.active.empty():
		check(r.t, r.log.roll(r.log.End()))
		r.look()
	}
}

// look takes the log's present view.
func (r *headRot) look() { r.views = append(r.views, r.log.View()) }

// append adds so many batches at once.
func (r *headRot) append(n int) {
	if r.rng.IntN(8) == 0 {
		r.epoch += record.LeaderEpoch(1 + r.rng.IntN(3))
	}
	var all []byte
	end := r.log.End()
	from := len(r.batches)
	for range n {
		b := r.batch(end)
		parsed, err := record.Parse(b)
		check(r.t, err)
		r.batches = append(r.batches, rotBatch{base: end, next: parsed.NextOffset(), position: int64(len(all)), bytes: b})
		all, end = append(all, b...), parsed.NextOffset()
	}
	_, err := r.log.AppendReplicated(5000, all)
	check(r.t, err)
	active := r.log.active
	for i := from; i < len(r.batches); i++ {
		r.batches[i].path = active.file.path
		r.batches[i].position += active.size - int64(len(all))
	}
	r.look()
}

// batch makes one of the shape. Those of the last one are powers of two, so that a flipped length may end where another batch does.
func (r *headRot) batch(base record.Offset) []byte {
	s := batchSpec{base: base, epoch: r.epoch, count: 1 + r.rng.IntN(4), ts: 1000, fill: byte('a' + base%26)}
	switch r.shape {
	case 0:
		s.size = r.rng.IntN(20)
	case 1:
		s.size = r.rng.IntN(900)
	case 2:
		s.count, s.size = 1, 7000+r.rng.IntN(3000)
	case 3:
		s.size = []int{0, 10, 300, 5000, 20000}[r.rng.IntN(5)]
	default:
		s.count = 1
		want := 128 << r.rng.IntN(2)
		for s.size = want - 90; ; s.size++ {
			if b := makeBatch(r.t, s); len(b) == want {
				return b
			}
		}
	}
	return makeBatch(r.t, s)
}

func (r *headRot) moveStart() {
	start, end := r.log.Start(), r.log.End()
	check(r.t, r.log.MoveStart(start+record.Offset(r.rng.Int64N(int64(end-start)/3+1))))
	r.look()
}

// truncate cuts the log, which damage may forbid.
func (r *headRot) truncate() {
	start, end := r.log.Start(), r.log.End()
	to := end - record.Offset(r.rng.Int64N(int64(end-start)/3+1))
	kept := len(r.batches)
	for kept > 0 && r.batches[kept-1].next > to {
		kept--
	}
	if kept == 0 || r.batches[kept-1].next <= start {
		return
	}
	if err := r.log.TruncateTo(to); err != nil {
		if r.rotten < 0 || !errors.Is(err, ErrDamaged) {
			r.t.Errorf("cut at %d: %v", to, err)
		}
		return
	}
	if want := r.batches[kept-1].next; r.log.End() != want {
		r.t.Errorf("cut at %d: the log ends at %d, not at %d", to, r.log.End(), want)
	}
	r.batches, r.views = r.batches[:kept], nil
	if r.rotten >= kept {
		r.rotten = -1
	}
	r.look()
}

// reopen closes the log in order and opens it: nothing counts as read any more.
func (r *headRot) reopen() {
	check(r.t, r.log.Close())
	fs, cfg := r.log.fs, r.log.cfg
	l, _, err := Open(fs, testDir, testID, cfg)
	check(r.t, err)
	r.log, r.views = l, nil
	for i := range r.batches {
		r.batches[i].seen = false
	}
	r.look()
}

// flip changes one bit of a batch that no read has come past, if there is one.
func (r *headRot) flip() bool {
	var unseen []int
	for i, b := range r.batches {
		if !b.seen && b.next > r.log.Start() {
			unseen = append(unseen, i)
		}
	}
	if len(unseen) == 0 {
		return false
	}
	r.rotten = unseen[r.rng.IntN(len(unseen))]
	at := r.rng.Int64N(17)
	if r.rng.IntN(3) == 0 {
		at = 8 + r.rng.Int64N(4)
	}
	b := r.batches[r.rotten]
	fs := r.log.fs.(interface {
		Flip(path string, at int64, mask byte) error
	})
	bit := r.rng.IntN(8)
	r.rotted = fmt.Sprintf("byte %d, bit %d of the batch at %d in a log that begins at %d", at, bit, b.base, r.log.Start())
	check(r.t, fs.Flip(filepath.Clean(b.path), b.position+at, 1<<bit))
	return true
}

// read reads somewhere, near what has rotted more often than not, in a view that may be an older one.
func (r *headRot) read() {
	v := r.views[len(r.views)-1]
	if r.rng.IntN(3) == 0 {
		v = r.views[r.rng.IntN(len(r.views))]
	}
	if v.Start() == v.End() {
		return
	}
	from := v.Start() + record.Offset(r.rng.Int64N(int64(v.End()-v.Start())))
	if r.rotten >= 0 && r.rng.IntN(3) > 0 {
		near := r.batches[max(0, min(r.rotten+r.rng.IntN(6)-4, len(r.batches)-1))]
		from = max(v.Start(), min(near.base+record.Offset(r.rng.Int64N(int64(near.next-near.base))), v.End()-1))
	}
	bytes := []int{0, 1, 300, 2000, 9000, 1 << 20}[r.rng.IntN(6)]
	limit := v.End()
	if r.rng.IntN(2) == 0 {
		limit = from + record.Offset(r.rng.IntN(12))
	}
	before := r.begins(v, from)
	s, err := v.Read(from, bytes, limit)
	if err != nil {
		if !errors.Is(err, ErrStaleView) || v == r.log.View() {
			r.excuse(v, err)
		}
		return
	}
	defer s.Release()
	r.judge(s, from, bytes, min(limit, v.End()))
	if s.Len() == 0 {
		return
	}
	for i, b := range r.batches {
		if b.path == s.file.path && b.position >= min(before, r.begins(v, from)) && b.position < s.position+int64(s.Len()) {
			r.batches[i].seen = true
		}
	}
}

// begins is where the index has a read of a view begin.
func (r *headRot) begins(v *View, from record.Offset) int64 {
	e, err := v.at(v.find(from)).lookup(from)
	if err != nil {
		return 0
	}
	return int64(e.position)
}

// judge compares what was handed out with what was appended.
func (r *headRot) judge(s Slice, from record.Offset, max int, limit record.Offset) {
	t := r.t
	t.Helper()
	first := 0
	for r.batches[first].next <= from {
		first++
	}
	if s.Len() == 0 {
		if from < limit && r.batches[first].next <= limit {
			t.Errorf("read from %d below %d: nothing", from, limit)
		}
		return
	}
	var want []byte
	last := first
	for ; ; last++ {
		if last == r.rotten {
			t.Errorf("read from %d, %d bytes at most, below %d: hands out what has rotted: %s", from, max, limit, r.rotted)
			return
		}
		if want = append(want, r.batches[last].bytes...); len(want) >= s.Len() || last+1 == len(r.batches) {
			break
		}
	}
	got, err := s.AppendTo(nil)
	check(t, err)
	if !bytes.Equal(got, want) || s.Next() != r.batches[last].next || s.Next() > limit || last > first && len(got) > max {
		t.Errorf("read from %d, %d bytes at most, below %d: %d bytes up to %d", from, max, limit, len(got), s.Next())
	}
}

// excuse takes an error for damage, which has to be there and to be found where the error says, unless the log begins behind it by now.
func (r *headRot) excuse(v *View, err error) {
	r.t.Helper()
	switch {
	case r.rotten < 0:
		r.t.Errorf("nothing has rotted: %v", err)
	case v.Start() == r.log.Start():
		findsAgain(r.t, r.log, err)
	case !errors.Is(err, ErrDamaged):
		r.t.Error(err)
	}
}
