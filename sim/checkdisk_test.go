package sim

import (
	"testing"
	"time"

	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// TestFlipsBesideTheChecksum changes each bit of the head of a committed batch. A client finds those that the checksum covers and those that make no batch;
// the others, of the base offset and the leader epoch, it cannot find, so that no broker is blamed for them.
func TestFlipsBesideTheChecksum(t *testing.T) {
	w := newWorld(Options{Seed: 1, Without: Names()})
	w.setUp()
	w.runUntil(w.now+time.Second, w.check.failed)
	tp, first, end := w.longBatch(t)
	p, _ := w.meta.state.Image().Partition(tp)
	r := w.brokers[p.Leader].replica(tp)
	res := r.Read(partition.ReadRequest{Offset: first, MaxBytes: 1, LeaderEpoch: record.NoEpoch, LastEpoch: record.NoEpoch, Follower: true})
	whole, err := res.Slice.AppendTo(nil)
	if err != nil || w.check.beside(tp, whole) {
		t.Fatalf("a batch at %d to %d as it was committed is blamed: %v", first, end, err)
	}
	const headBytes, lengthAt, epochAt, magicAt = 61, 8, 12, 16 // of the format of batches
	hidden := 0
	for bit := range headBytes * 8 {
		raw := append([]byte(nil), whole...)
		raw[bit/8] ^= 1 << (bit % 8)
		outside := bit/8 < lengthAt || bit/8 >= epochAt && bit/8 < magicAt
		if sound(raw) && !outside { // some base offsets make no batch
			t.Errorf("bit %d is covered, and the client does not see it", bit)
		}
		if sound(raw) && !w.check.beside(tp, raw) {
			t.Errorf("bit %d is not covered, and the broker is blamed for it", bit)
		}
		hidden += int(flag(sound(raw)))
	}
	if hidden < 32 {
		t.Errorf("%d bits of the head are not covered, those of the leader epoch are 32", hidden)
	}
}
