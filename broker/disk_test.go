package broker

import (
	"testing"
	"time"
)

// TestCase12_ReserveIsNotOverrun: between two looks a disk of 1 GB/s does not go from where looks are rare to full, nor from where they are frequent through
// half of the default reserve.
func TestCase12_ReserveIsNotOverrun(t *testing.T) {
	const speed, reserve = int64(1) << 30, int64(64) << 20
	written := func(d time.Duration) int64 { return speed * int64(d) / int64(time.Second) }
	for free := reserve; free < 64*reserve; free += reserve / 2 {
		if left := free - written(diskPause(free, reserve)); left < reserve/2 {
			t.Errorf("%d MiB are free, and %d when the disk is looked at again", free>>20, left>>20)
		}
	}
}
