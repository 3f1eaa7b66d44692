package broker

import (
	"context"
	"log/slog"
	"time"
)

// diskCheck is how often the free space is looked at.
const diskCheck = 2 * time.Second

// watchDisk refuses produce while less than the reserve is free, or while the metadata store lives on its own reserve, so that recovery, metadata and deletes
// always have room.
func (b *Broker) watchDisk(ctx context.Context) {
	tick := time.NewTicker(diskCheck)
	defer tick.Stop()
	for {
		free, _, err := b.options.FS.DiskFree(b.options.Root)
		if err == nil {
			b.setDiskFull(free < b.options.DiskReserve || b.controller.DiskShort(), free)
		}
		select {
		case <-tick.C:
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
