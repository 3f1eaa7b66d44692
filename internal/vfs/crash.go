package vfs

import "math/rand/v2"

// Crash returns an independent copy of the file system as a machine would find it after a power cut now. What was synced is kept
// whole. Of the rest, rng decides per change of a name and per 512-byte sector of a file what reached the disk. One rng state gives
// one outcome. m itself goes on unchanged, so handles of the dead process can do no harm to the copy.
func (m *Mem) Crash(rng *rand.Rand) *Mem {
	return m.crash(func() bool { return rng.IntN(2) == 0 }, rng.Int64N)
}

// CrashClone is Crash for the worst disk: nothing that was not synced is kept.
func (m *Mem) CrashClone() *Mem {
	return m.crash(func() bool { return false }, nil)
}

func (m *Mem) crash(keep func() bool, pick func(int64) int64) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &crasher{keep: keep, pick: pick, copies: map[*memNode]*memNode{}}
	out := NewMem()
	out.clock, out.free, out.total, out.capacity = m.clock, m.free, m.total, m.capacity
	out.root = c.copyNode(m.root)
	for _, op := range m.pending {
		if !keep() {
			continue
		}
		op.dir, op.fromDir, op.node = c.copyNode(op.dir), c.copyNode(op.fromDir), c.copyNode(op.node)
		op.apply(func(d *memNode) map[string]*memNode { return d.live })
	}
	settle(out.root)
	return out
}

// crasher copies nodes once each, so that two names of one file stay two names of one file.
type crasher struct {
	keep   func() bool
	pick   func(int64) int64
	copies map[*memNode]*memNode
}

func (c *crasher) copyNode(n *memNode) *memNode {
	if n == nil {
		return nil
	}
	if done, ok := c.copies[n]; ok {
		return done
	}
	if !n.dir {
		out := &memNode{data: c.image(n), modTime: n.modTime}
		c.copies[n] = out
		return out
	}
	out := newDir()
	c.copies[n] = out
	for _, name := range sortedNames(n.synced) {
		out.live[name] = c.copyNode(n.synced[name])
	}
	return out
}

// image is what the disk holds of a file: its synced bytes, changed sector by sector where chance kept an unsynced write.
func (c *crasher) image(n *memNode) []byte {
	size := c.size(n)
	out := make([]byte, size)
	copy(out, n.disk)
	for _, s := range n.dirty {
		for at := s.from / sector * sector; at < min(s.to, size); at += sector {
			if !c.keep() {
				continue
			}
			end := min(at+sector, size)
			clear(out[at:end])
			if at < int64(len(n.data)) {
				copy(out[at:end], n.data[at:])
			}
		}
	}
	return out
}

// size picks a size between the synced and the live one.
func (c *crasher) size(n *memNode) int64 {
	disk, live := int64(len(n.disk)), int64(len(n.data))
	if !c.keep() || disk == live {
		return disk
	}
	if live < disk || c.keep() {
		return live
	}
	return disk + c.pick(live-disk)
}

// settle declares everything in a fresh copy durable: it is the disk now.
func settle(n *memNode) {
	if !n.dir {
		n.disk = append([]byte(nil), n.data...)
		return
	}
	for _, name := range sortedNames(n.live) {
		n.synced[name] = n.live[name]
		settle(n.live[name])
	}
}
