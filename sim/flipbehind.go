package sim

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

const (
	epochEnd     = 16 // of the leader epoch in the head of a batch
	uncheckedEnd = 16 // the offset, the length and the leader epoch at the beginning of a batch, which its checksum leaves out
	maxFileBytes = 1 << 20
)

// span is where a batch lies in a file.
type span struct{ at, size int64 }

// batches lists those of a log file, up to the first that cannot be read.
func (d *disk) batches(path string) []span {
	raw, err := vfs.ReadFile(d.mem, path, maxFileBytes)
	if err != nil || !strings.HasSuffix(path, ".log") {
		return nil
	}
	var out []span
	for at := 0; ; {
		head, err := record.ParseHead(raw[at:])
		if err != nil || head.Size() > len(raw)-at {
			return out
		}
		out = append(out, span{int64(at), int64(head.Size())})
		at += head.Size()
	}
}

// newestFiles are the last files of each directory, of files in order.
func newestFiles(files []string) []string {
	var out []string
	for i, path := range files {
		if i == len(files)-1 || filepath.Dir(files[i+1]) != filepath.Dir(path) {
			out = append(out, path)
		}
	}
	return out
}

// byteOf draws a byte of one of the batches: mostly of the last ones, and often of the head.
func (w *World) byteOf(batches []span) int64 {
	n := len(batches)
	s := batches[n-1-min(w.rng.IntN(n), w.rng.IntN(n), w.rng.IntN(n))]
	return s.at + w.rng.Int64N([]int64{uncheckedEnd, record.HeaderSize, s.size}[w.rng.IntN(3)])
}

// flipBehind stops a follower and, when its leader has gone on, changes a byte of what the follower has still to copy. The leader has checked that when it came,
// and looks again at the headers only before it hands it out: the follower has to find the rest, and the leader when the follower asks again (case 63).
func (w *World) flipBehind() {
	tp, ok := w.somePartition()
	if !ok {
		return
	}
	leader := w.leaderOf(tp)
	if leader == nil || !w.mayTake(leader) {
		return
	}
	follower := w.followerOf(tp, leader)
	if follower == nil {
		return
	}
	was := leader.replica(tp).at.SizeBytes
	w.kill(follower)
	w.after(w.between(50*time.Millisecond, 400*time.Millisecond), func() {
		if w.faults && w.leaderOf(tp) == leader && leader.up && w.mayTake(leader) {
			w.flipNewest(leader, tp, was)
		}
	})
}

// followerOf is a broker that follows a leader which has the partition open, nil for none.
func (w *World) followerOf(tp cluster.TopicPartition, leader *broker) *broker {
	p, _ := w.meta.state.Image().Partition(tp)
	for _, i := range w.rng.Perm(len(p.Replicas)) {
		if b := w.brokers[p.Replicas[i]]; b != leader && b.up && b.replica(tp) != nil && leader.up && leader.replica(tp) != nil {
			return b
		}
	}
	return nil
}

// flipNewest changes a byte of what the newest file of a log has got since the log had a size.
func (w *World) flipNewest(b *broker, tp cluster.TopicPartition, was int64) {
	r := b.replica(tp)
	if r == nil {
		return
	}
	newest := ""
	for _, path := range newestFiles(b.disk.files(".log")) {
		if filepath.Base(filepath.Dir(path)) == tp.String() {
			newest = path
		}
	}
	batches, since := b.disk.batches(newest), r.at.SizeBytes-was
	for n := len(batches) - 1; n >= 0; n-- {
		if since -= batches[n].size; since < 0 {
			batches = batches[n+1:]
			break
		}
	}
	if len(batches) == 0 {
		return
	}
	at := w.byteOf(batches)
	if at-starts(batches, at) == epochEnd-1 {
		at-- // one that has risen a little passes for a newer one when the broker is killed before it is noted (segment/DESIGN.md)
	}
	w.spoil(b, true)
	w.cov.BitFlips++
	w.cov.FlipsBehind++
	w.note("flip "+filepath.Base(newest), at)
	w.check.must(b.disk.mem.Flip(newest, at, 1<<w.rng.IntN(8)))
}

// starts is where the batch begins that a byte belongs to.
func starts(batches []span, at int64) int64 {
	begin := int64(0)
	for _, s := range batches {
		if s.at <= at {
			begin = s.at
		}
	}
	return begin
}
