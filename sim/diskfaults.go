package sim

import (
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
)

// partitionsDir is where the replicas are in a data directory.
const partitionsDir = "partitions"

// diskFaults are faults of disks beyond the loss of what was not synced. Those that take what a disk holds ask mayTake first.
func diskFaults() []faultKind {
	return []faultKind{
		{name: "disk-error", do: (*World).diskError},
		{name: "read-error", do: (*World).readError},
		{name: "disk-full", do: (*World).diskFull},
		{name: "bit-flip", do: (*World).bitFlip},
		{name: "bit-flip-beside", do: (*World).bitFlipBeside},
		{name: "lost-segment", rare: true, do: (*World).loseSegment},
		{name: "lost-directory", rare: true, do: (*World).loseDirectory},
		{name: "empty-disk", rare: true, do: (*World).emptyDisk},
		{name: "old-disk", do: (*World).oldDisk},
		{name: "swapped-disks", rare: true, do: (*World).swapDisks},
		{name: "bit-flip-behind", do: func(w *World, _ *broker) { w.flipBehind() }},
	}
}

// endFaults take what nothing on the disk tells of.
func endFaults() []faultKind {
	return []faultKind{{name: "lost-end", apart: true, do: (*World).loseEnd}, {name: "old-copy", apart: true, do: (*World).oldCopy}}
}

// diskRules are calls that may fail: of the log itself, of what is kept beside it, and of the directory.
func diskRules() []vfs.Rule {
	return []vfs.Rule{
		{Op: vfs.OpSync, Glob: "*.log"},
		{Op: vfs.OpWrite, Glob: "*.log"},
		{Op: vfs.OpCreate, Glob: "*.log"},
		{Op: vfs.OpTruncate, Glob: "*.log"},
		{Op: vfs.OpSyncDir},
		{Op: vfs.OpWrite, Glob: "*.tmp"},
		{Op: vfs.OpSync, Glob: "*.tmp"},
		{Op: vfs.OpRename},
		{Op: vfs.OpCreate, Glob: "*index"},
		{Op: vfs.OpWrite, Glob: "*index"},
		{Op: vfs.OpRemove},
	}
}

// diskError makes calls of one kind fail, once or from then on; later somebody restarts the broker, and with that the disk works again (case 9).
func (w *World) diskError(b *broker) {
	if !b.up || !w.mayFail(b) {
		return
	}
	w.cov.DiskErrors++
	rules := diskRules()
	r := rules[w.rng.IntN(len(rules))]
	r.Nth, r.Err = 1+w.rng.IntN(8), syscall.EIO
	if r.Op == vfs.OpWrite {
		r.Short = w.rng.IntN(200)
	}
	if w.chance(600) {
		r.Count = 1
	}
	w.note("disk error "+string(r.Op)+" "+r.Glob, int64(r.Nth), int64(r.Count))
	b.disk.fail.Add(r)
	b.disk.failing = true
	b.later(w.between(300*time.Millisecond, 3*time.Second), func() { w.kill(b) })
}

// readError makes every read of one segment file fail for a while (case 11).
func (w *World) readError(b *broker) {
	logs := b.disk.files(".log")
	if !b.up || len(logs) == 0 || !w.mayFail(b) {
		return
	}
	w.cov.ReadErrors++
	fail, name := b.disk.fail, filepath.Base(logs[w.rng.IntN(len(logs))])
	w.note("read error " + name)
	fail.Add(vfs.Rule{Op: vfs.OpRead, Glob: name, Err: syscall.EIO})
	b.disk.failing = true
	w.after(w.between(300*time.Millisecond, 3*time.Second), func() {
		if b.disk.fail == fail {
			fail.Heal()
			b.disk.failing = false
		}
	})
}

// diskFull leaves a disk almost no room for a while (cases 12, 13).
func (w *World) diskFull(b *broker) {
	if !w.mayFail(b) || b.disk.swapped != nil || b.disk.full(w.now) {
		return
	}
	w.cov.FullDisks++
	disk := b.disk
	disk.mem.SetCapacity(disk.mem.Used() + 1 + w.rng.Int64N(4<<10))
	disk.fullTil = eternity
	w.after(w.between(300*time.Millisecond, 4*time.Second), func() {
		disk.mem.SetCapacity(0)
		disk.fullTil = w.now + 2*maintainEvery
	})
	w.after(w.between(4*time.Second, 5*time.Second), func() {
		if b.up && (b.failed || len(b.damaged) > 0) {
			w.kill(b)
		}
	})
}

// full reports whether there is no room, or was not lately.
func (d *disk) full(now time.Duration) bool { return now < d.fullTil }

// nearlyFull says that produce is refused to keep a reserve, as package broker does.
func (b *broker) nearlyFull() bool {
	if !b.disk.full(b.w.now) || b.w.mix.reserve == 0 {
		return false
	}
	free, _, err := b.disk.mem.DiskFree(dataRoot)
	return err == nil && free < b.w.mix.reserve
}

// whileDown ends a broker's process or its host, or every host, does something to its disk, and lets it start later.
func (w *World) whileDown(b *broker, what func()) {
	if b.up {
		b.crash()
	}
	switch {
	case w.chance(150): // everybody's: the next leaders are chosen among those who come back first
		w.powerCutOfAll()
	case w.chance(400):
		w.cov.PowerCuts++
		b.disk.powerCut(w.scheduler, w.chance(500))
	}
	what()
	w.restart(b)
}

// bitFlip changes a stored byte of a log, under the running broker or while it is down (cases 3, 5, 63).
func (w *World) bitFlip(b *broker) {
	if !w.mayTake(b) {
		return
	}
	live := b.up && w.chance(400)
	flip := func() {
		logs := b.disk.files(".log")
		if w.chance(500) {
			logs = newestFiles(logs)
		}
		if len(logs) > 0 {
			w.flipIn(b, logs[w.rng.IntN(len(logs))])
		}
	}
	if live {
		w.spoil(b, true)
		flip()
		return
	}
	w.whileDown(b, func() {
		w.spoil(b, false)
		flip()
	})
}

// flipIn changes one byte of a file.
func (w *World) flipIn(b *broker, path string) {
	info, err := b.disk.mem.Stat(path)
	if err != nil || info.Size == 0 {
		return
	}
	at := w.rng.Int64N(info.Size)
	if batches := b.disk.batches(path); len(batches) > 0 && w.chance(700) {
		at = w.byteOf(batches)
	}
	w.cov.BitFlips++
	w.note("flip "+filepath.Base(path), at, info.Size)
	w.check.must(b.disk.mem.Flip(path, at, 1<<w.rng.IntN(8)))
}

// bitFlipBeside changes a byte of what lies beside the records. An index, the epoch file and a producer snapshot are rebuilt (cases 6, 8, 18). Without
// log.meta a torn tail may be taken for damage (case 17), and without partition.meta a directory is nobody's.
func (w *World) bitFlipBeside(b *broker) {
	suffix := []string{".index", ".timeindex", "leader-epoch-checkpoint", "log.meta", ".snapshot", "partition.meta"}[w.rng.IntN(6)]
	takes := suffix == "partition.meta" || suffix == "log.meta"
	if takes && !w.mayTake(b) {
		return
	}
	w.whileDown(b, func() {
		files := b.disk.files(suffix)
		if len(files) == 0 {
			return
		}
		if takes {
			w.spoil(b, false)
		}
		w.flipIn(b, files[w.rng.IntN(len(files))])
	})
}

// loseSegment takes a segment file out of a log (case 22).
func (w *World) loseSegment(b *broker) {
	if !w.mayTake(b) {
		return
	}
	w.whileDown(b, func() {
		w.spoil(b, false)
		logs := b.disk.files(".log")
		if len(logs) == 0 {
			return
		}
		path := logs[w.rng.IntN(len(logs))]
		w.cov.LostSegments++
		w.note("lost " + filepath.Base(path))
		w.check.must(b.disk.mem.Lose(path))
	})
}

// loseEnd takes the newest bytes of the logs away, which were flushed, as if they had never been written: nothing on that disk tells of it. Mostly everybody else is
// down, too, and nobody knows who has everything (case 60).
func (w *World) loseEnd(b *broker) {
	if !w.mayTake(b) {
		return
	}
	w.whileDown(b, func() {
		if w.chance(600) {
			w.powerCutOfAll()
		}
		w.spoil(b, false)
		w.spoilt.untold = true
		for _, path := range newestFiles(b.disk.files(".log")) {
			info, err := b.disk.mem.Stat(path)
			if err != nil || info.Size == 0 {
				continue
			}
			w.cov.LostEnds++
			w.note("lost end of "+filepath.Base(path), info.Size)
			w.check.must(b.disk.mem.Shorten(path, max(0, info.Size-1-w.rng.Int64N(1<<w.rng.IntN(13)))))
		}
	})
}

// loseDirectory moves the directory of a replica away (case 40).
func (w *World) loseDirectory(b *broker) {
	if !w.mayTake(b) {
		return
	}
	w.whileDown(b, func() {
		dirs := b.disk.directories()
		if len(dirs) == 0 {
			return
		}
		w.spoil(b, false)
		w.spoilt.mended = true
		w.cov.LostDirectories++
		w.moveAway(b, []string{dirs[w.rng.IntN(len(dirs))]})
	})
}

// emptyDisk gives a broker a new disk (case 40).
func (w *World) emptyDisk(b *broker) {
	if !w.mayTake(b) {
		return
	}
	w.whileDown(b, func() {
		w.spoil(b, false)
		w.spoilt.mended = true
		w.cov.EmptyDisks++
		b.disk.wipe()
	})
}

// oldDisk puts back a copy of a disk that was taken when its broker was stopped in order, some lives ago: b's, or that of the first who has one. That is
// seldom possible, so it is tried for a while.
func (w *World) oldDisk(b *broker) { w.tryOldDisk(b, 8) }

func (w *World) tryOldDisk(b *broker, tries int) {
	for _, o := range append([]*broker{b}, w.brokers...) {
		if w.hasOldDisk(o) && w.mayTake(o) {
			w.putBack(o)
			return
		}
	}
	w.after(250*time.Millisecond, func() {
		if w.faults && tries > 1 {
			w.tryOldDisk(b, tries-1)
		}
	})
}

// hasOldDisk reports whether there is a copy of b's disk, and b has been registered since it was made.
func (w *World) hasOldDisk(b *broker) bool {
	me, ok := w.meta.state.Image().Broker(b.id)
	return b.disk.copy != nil && ok && me.Epoch != b.disk.copiedAt
}

func (w *World) putBack(b *broker) {
	w.whileDown(b, func() {
		w.spoil(b, false)
		w.spoilt.mended = true
		w.cov.OldDisks++
		b.disk.mem = b.disk.copy.CrashClone()
	})
}

// oldCopy takes a copy of the disk under a running broker, as a volume snapshot does, and puts it back a while later. Without a clean-stop marker it passes for the disk after a crash, so
// that only what the others have tells that it is old (case 60).
func (w *World) oldCopy(b *broker) {
	if !b.up || b.epoch == cluster.NoBrokerEpoch || b.disk.swapped != nil || w.isSpoilt(b) {
		return // a copy of damage would bring that back
	}
	copied, dir := b.disk.contents(), b.dir
	w.after(w.between(200*time.Millisecond, 3*time.Second), func() { w.putCopyBack(b, copied, dir, 20) })
}

// putCopyBack waits until that may be done.
func (w *World) putCopyBack(b *broker, copied *vfs.Mem, dir cluster.DirectoryID, tries int) {
	switch {
	case !w.faults || tries == 0 || b.dir != dir:
		return
	case !w.mayTake(b):
		w.after(250*time.Millisecond, func() { w.putCopyBack(b, copied, dir, tries-1) })
		return
	}
	w.whileDown(b, func() {
		if w.chance(600) {
			w.powerCutOfAll()
		}
		w.spoil(b, false)
		w.spoilt.mended, w.spoilt.untold = true, true
		w.cov.OldCopies++
		w.note("old copy", int64(b.id))
		b.disk.mem = copied
	})
}

// swapDisks puts the disks of two brokers into each other's machines: neither may start with it (case 44). Later somebody sees it.
func (w *World) swapDisks(b *broker) {
	o := w.brokers[w.rng.IntN(len(w.brokers))]
	if o == b || w.spoilt != nil || !w.mayBeSwapped(b) || !w.mayBeSwapped(o) {
		return
	}
	w.cov.SwappedDisks++
	w.swap(b, o)
	w.after(w.between(500*time.Millisecond, 3*time.Second), func() {
		if b.disk.swapped == o {
			w.swap(b, o)
		}
	})
}

// mayBeSwapped reports whether a broker has a disk of its own, with nothing else wrong with it.
func (w *World) mayBeSwapped(b *broker) bool {
	_, err := b.disk.mem.Stat(filepath.Join(dataRoot, identityFile))
	return err == nil && b.disk.swapped == nil && !b.disk.full(w.now)
}

// swap exchanges two disks, or puts them back.
func (w *World) swap(b, o *broker) {
	with, of := o, b
	if b.disk.swapped == o {
		with, of = nil, nil
	}
	b.disk.swapped, o.disk.swapped = with, of
	for _, x := range []*broker{b, o} {
		if x.up {
			x.crash()
		}
	}
	b.disk.mem, o.disk.mem = o.disk.mem, b.disk.mem
	w.restart(b)
	w.restart(o)
}

// files lists the files of all replicas whose names end so, in order.
func (d *disk) files(suffix string) []string {
	var out []string
	for _, dir := range d.directories() {
		names, err := d.mem.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, name := range names {
			if strings.HasSuffix(name, suffix) {
				out = append(out, filepath.Join(dir, name))
			}
		}
	}
	return out
}

// directories lists those of all replicas, in order.
func (d *disk) directories() []string {
	root := filepath.Join(dataRoot, partitionsDir)
	names, err := d.mem.ReadDir(root)
	if err != nil {
		return nil
	}
	for i := range names {
		names[i] = filepath.Join(root, names[i])
	}
	return names
}

// wipe replaces the disk by an empty one.
func (d *disk) wipe() { d.mem = vfs.NewMem() }

// keepCopy remembers the disk of a broker that has stopped in order, for oldDisk.
func (d *disk) keepCopy(epoch cluster.BrokerEpoch) {
	d.copy, d.copiedAt = d.contents(), epoch
}

// contents is a copy of what the disk holds for sure. How much room there is belongs to the disk, not to the copy: put back, it does not make a disk full again
// that has long had room.
func (d *disk) contents() *vfs.Mem {
	copied := d.mem.CrashClone()
	copied.SetCapacity(0)
	return copied
}

// diskFloors is how much of it has to happen.
func diskFloors() []floor {
	return []floor{
		{"disk errors", func(c *Coverage) int { return c.DiskErrors }, 30},
		{"read errors", func(c *Coverage) int { return c.ReadErrors }, 30},
		{"full disks", func(c *Coverage) int { return c.FullDisks }, 30},
		{"flipped bits", func(c *Coverage) int { return c.BitFlips }, 30},
		{"batches that clients found to be bad", func(c *Coverage) int { return c.CorruptReads }, 5},
		{"replicas that waited for room", func(c *Coverage) int { return c.RoomFound }, 1},
		{"flipped bits that followers have still to copy", func(c *Coverage) int { return c.FlipsBehind }, 5},
		{"lost segments", func(c *Coverage) int { return c.LostSegments }, 3},
		{"lost ends of logs", func(c *Coverage) int { return c.LostEnds }, 5},
		{"lost directories", func(c *Coverage) int { return c.LostDirectories }, 3},
		{"starts that missed a replica", func(c *Coverage) int { return c.MissingReplicas }, 5},
		{"empty disks", func(c *Coverage) int { return c.EmptyDisks }, 3},
		{"old disks", func(c *Coverage) int { return c.OldDisks }, 2},
		{"old copies of running brokers' disks", func(c *Coverage) int { return c.OldCopies }, 5},
		{"swapped disks", func(c *Coverage) int { return c.SwappedDisks }, 5},
		{"starts that were refused", func(c *Coverage) int { return c.RefusedStarts }, 20},
		{"logs found damaged", func(c *Coverage) int { return c.DamagedLogs }, 20},
		{"producer snapshots of running replicas", func(c *Coverage) int { return c.ProducerSnapshots }, 10_000},
		{"repairs", func(c *Coverage) int { return c.Repairs }, 20},
	}
}
