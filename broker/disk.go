package broker

import (
	"context"
	"log/slog"
	"time"
)

// How often the free space is looked at. Near the reserve it is often: a disk that takes 500 MB a second fills the default reserve in 130 ms, and behind the
// reserve are an offline log and a metadata store that must stop.
const (
	diskCheck     = 200 * time.Millisecond
	diskCheckNear = 10 * time.Millisecond
	diskNear      = 8 // times the reserve
)

// diskPause is the time until the next look.
func diskPause(free, reserve int64) time.Duration {
	if free/diskNear < reserve {
		return diskCheckNear
	}
	return diskCheck
}

// watchDisk refuses produce while less than the reserve is free, or while the metadata store lives on its own reserve, so that recovery, metadata and deletes
// always have room.
func (b *Broker) watchDisk(ctx context.Context) {
	timer := time.NewTimer(diskCheck)
	defer timer.Stop()
	for {
		pause := diskCheck
		free, _, err := b.options.FS.DiskFree(b.options.Root)
		if err == nil {
			b.setDiskFull(free < b.options.DiskReserve || b.controller.DiskShort(), free)
			pause = diskPause(free, b.options.DiskReserve)
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *Broker) setDiskFull(full bool, free int64) {
	if b.diskFull.Swap(full) == full {
		return
	}
	if full {
		b.log.Error("disk nearly full: produce is refused until space returns", slog.Int64("free_bytes", free), slog.Int64("reserve_bytes", b.options.DiskReserve))
		return
	}
	b.log.Info("disk has space again: produce is accepted", slog.Int64("free_bytes", free))
}
