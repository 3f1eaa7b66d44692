package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/internal/lograte"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// smallDisk mounts a file system of 64 MiB for the test.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a small disk needs the right to mount: %v: %s", err, bytes.TrimSpace(out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// TestCase12_FullDisk: produce on a full disk is refused with a retriable storage error, and nothing else stops: reads, a restart, a trim. The trim makes room,
// and produce is accepted again without anybody's help.
func TestCase12_FullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	c := Prepare(t, 1, "--storage-reserve-bytes", "16MiB", "--storage-retention-check", "1s")
	b := c.Brokers[0]
	b.Data = filepath.Join(disk, "data")
	b.Start()
	c.WaitHealthy()
	c.Must("topic", "create", "numbers", "-p", "1", "-c", "segment.bytes=1048576")
	cl := c.Client(t)
	random := rand.NewChaCha8([32]byte{})
	chunk := make([]byte, 200_000)
	produce := func() error {
		if _, err := random.Read(chunk); err != nil {
			t.Fatal(err)
		}
		res, err := cl.ProduceRecords(patient(t), &moldauv1.ProduceRecordsRequest{Topic: "numbers", Records: []*moldauv1.Record{{Value: chunk}}})
		if err != nil {
			return err
		}
		return client.FromWire(res.GetRecords()[0].GetError())
	}
	var stored int64
	var full error
	for full = produce(); full == nil; full = produce() {
		if stored++; stored > 400 {
			t.Fatal("a disk of 64 MiB holds 80 MB")
		}
	}
	storageRefusal := func(err error) {
		t.Helper()
		var refusal *client.Error
		if !errors.As(err, &refusal) || refusal.Code != moldauv1.ErrorCode_ERROR_CODE_STORAGE || !refusal.Retriable {
			t.Fatalf("after %d records: %v", stored, err)
		}
	}
	storageRefusal(full)
	readable := func() {
		t.Helper()
		Eventually(t, func() error {
			end, err := logEnd(patient(t), cl, "numbers", 0)
			if err == nil && end != stored {
				t.Fatalf("the log ends at %d, and %d records were acknowledged", end, stored)
			}
			return err // a new leader does not know its end at once
		})
		if got := len(c.Must("consume", "numbers", "--exit-at-end", "-f", "x")); int64(got) != stored {
			t.Fatalf("%d of %d records can be read", got, stored)
		}
	}
	readable()
	b.Kill()
	b.Start()
	Eventually(t, func() error {
		if s, err := b.status(); err != nil || len(s.Brokers) != 1 || s.Brokers[0].Fenced {
			return fmt.Errorf("after a restart on the full disk: %+v, %w", s, err)
		}
		return nil
	})
	readable()
	storageRefusal(produce())
	c.Must("topic", "trim", "numbers")
	Eventually(t, produce)
}

// TestCase13_CreatedOnAFullDisk: one broker of three has no byte left. The replicas that it should create are offline, the cluster goes on without them, and the
// broker says so in a few lines, not in many a second. When there is room they are created and copied, and what was there before is filled up, without a restart.
func TestCase13_CreatedOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	c := Prepare(t, 3, "--storage-reserve-bytes", "1MiB", "--replica-lag-max", "3s")
	full := c.Brokers[1]
	full.Data = filepath.Join(disk, "data")
	for _, b := range c.Brokers {
		b.Start()
	}
	c.WaitHealthy()
	c.Must("topic", "create", "before", "-p", "3", "-r", "3")
	followed := 0
	for c.describe("before").Partitions[followed].Leader == full.ID {
		followed++
	}
	ballast := filepath.Join(disk, "ballast")
	fillDisk(t, ballast)
	begun := time.Now()
	c.Must("topic", "create", "created", "-p", "3", "-r", "3")
	const batches, each = 20, 1000
	for i := range batches {
		lines := strings.Repeat(fmt.Sprintf("%d\n", i), each)
		c.MustWith(lines, "produce", "before", "-p", strconv.Itoa(followed)) // what it leads is closed until there is room
		c.MustWith(lines, "produce", "created")
	}
	c.awaitTopic("before", func(d topicDescription) error {
		if isr := d.Partitions[followed].ISR; slices.Contains(isr, full.ID) {
			return fmt.Errorf("before:%d: the broker on the full disk is in sync, %v", followed, isr)
		}
		return nil
	})
	c.awaitISR("created", 2)
	most := lograte.Lines * (2 + int(time.Since(begun)/lograte.Every))
	for _, line := range []string{"append refused", "log not opened", "checkpoint not written"} {
		if n := strings.Count(full.Log(), line); n > most {
			t.Errorf("%q is in the log %d times after %s, want %d at most", line, n, time.Since(begun), most)
		}
	}
	if !full.Running() || strings.Count(full.Log(), "log not opened") != 3 {
		t.Fatalf("the disk was not full enough, or the broker ended: %s", tail(full.logPath, 5))
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	c.WaitHealthy()
	for _, topic := range []string{"before", "created"} {
		if n := strings.Count(c.Must("consume", topic, "--exit-at-end"), "\n"); n != batches*each {
			t.Errorf("%d of %d records of topic %s are there", n, batches*each, topic)
		}
	}
}
