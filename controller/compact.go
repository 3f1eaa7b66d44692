package controller

import (
	"errors"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Bounds of the Raft log in bytes, beside those in entries: one entry may hold half a mebibyte of committed offsets.
const (
	logBytesMax   = 64 << 20 // appended since the last snapshot; beyond it one is taken at once
	trailingBytes = 16 << 20 // about as much stays in the log behind a snapshot
	trailingMin   = 64       // but never fewer entries than this
)

// logVolume counts what was appended since it last asked for a snapshot.
type logVolume struct {
	bytes, entries atomic.Int64
	limit          int64         // logBytesMax
	trail          int64         // trailingBytes
	due            chan struct{} // capacity 1
}

func newLogVolume() *logVolume {
	return &logVolume{limit: logBytesMax, trail: trailingBytes, due: make(chan struct{}, 1)}
}

// add counts appended entries.
func (v *logVolume) add(entries []*raft.Log) {
	n := 0
	for _, e := range entries {
		n += len(e.Data)
	}
	v.entries.Add(int64(len(entries)))
	if v.bytes.Add(int64(n)) < v.limit {
		return
	}
	select {
	case v.due <- struct{}{}:
	default:
	}
}

// take starts counting anew and returns how many entries of the present size may stay behind a snapshot.
func (v *logVolume) take(most uint64) uint64 {
	bytes, entries := v.bytes.Swap(0), v.entries.Swap(0)
	if entries == 0 || bytes == 0 {
		return most
	}
	return min(most, max(trailingMin, uint64(v.trail/max(bytes/entries, 1))))
}

// keepCompact takes a snapshot when the log has grown by logBytesMax, before Raft's own count of entries asks for one.
func (c *Controller) keepCompact(n *node) {
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.store.volume.due:
		}
		reload := n.raft.ReloadableConfig()
		reload.TrailingLogs = c.store.volume.take(c.cfg.TrailingLogs)
		if err := n.raft.ReloadConfig(reload); err != nil {
			c.log.Warn("cannot change how much of the Raft log stays", "error", err)
		}
		if err := await(c.ctx, n.raft.Snapshot()); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) && c.ctx.Err() == nil {
			c.log.Warn("cannot take a metadata snapshot", "error", err)
		}
	}
}
