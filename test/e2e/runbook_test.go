package e2e

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/segment"
)

// runbook is the commands that a section of docs/operations.md tells an operator to type, in their order.
func runbook(t *testing.T, section string) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("docs/operations.md has no section %q", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	var out []string
	for _, m := range regexp.MustCompile("`(?:moldau )?(cluster [^`]+)`").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// typed runs a command of the runbook on a stopped broker.
func (b *Broker) typed(command string) string {
	b.cluster.t.Helper()
	command = strings.NewReplacer("DIR", b.Data, "HOST:PORT", b.Peer).Replace(command)
	return b.cluster.Must(strings.Fields(command)...)
}

// TestCase127_TheRunbookOfALostQuorum follows docs/operations.md to the letter: two of three voters are gone for good, a voter and a broker that does not vote are left,
// which have everything. Nothing that was acknowledged is lost.
func TestCase127_TheRunbookOfALostQuorum(t *testing.T) {
	t.Parallel()
	steps := runbook(t, "The quorum is lost")
	if len(steps) != 5 {
		t.Fatalf("the runbook has the commands %q", steps)
	}
	c := Start(t, 4)
	c.Must("topic", "create", "numbers", "-p", "3", "-r", "4", "-c", "min.insync.replicas=2")
	c.MustWith(seq(1, 5000), "produce", "numbers")
	c.Must("consume", "numbers", "-g", "kept", "--exit-at-end")
	before, err := c.status()
	if err != nil {
		t.Fatal(err)
	}
	var left []*Broker
	for _, b := range c.Brokers { // with four brokers three vote
		if len(left) == 0 && b.ID == 2 || b.ID == 3 {
			left = append(left, b)
			continue
		}
		b.Kill()
		if err := os.RemoveAll(b.Data); err != nil {
			t.Fatal(err)
		}
	}
	// 1. Stop all brokers. Each that is left shows how new its metadata is.
	var best *Broker
	var newest recovery
	for _, b := range left {
		b.Terminate()
	}
	for _, b := range left {
		var shown recovery
		if err := c.decode(&shown, append(strings.Fields(strings.ReplaceAll(steps[0], "DIR", b.Data)), "-o", "json")...); err != nil {
			t.Fatal(err)
		}
		if shown.Executed || len(shown.Voters) != 3 || shown.ClusterID != before.ClusterID {
			t.Errorf("the inspection of broker %d says %+v", b.ID, shown)
		}
		if best == nil || shown.LastTerm > newest.LastTerm || shown.LastTerm == newest.LastTerm && shown.LastIndex > newest.LastIndex {
			best, newest = b, shown
		}
	}
	// 2. The one with the highest term and index becomes the only voter. 3. Every other one that is left joins again.
	best.typed(steps[1])
	for _, b := range left {
		if b != best {
			b.typed(steps[2])
		}
	}
	// 4. Start them.
	for _, b := range left {
		b.Start()
	}
	// 5. A partition that stays without a leader takes one of the replicas that are left.
	c.awaitTopic("numbers", func(d topicDescription) error {
		for _, p := range d.Partitions {
			if unhealthy := c.CLI(strings.Fields(steps[3])...); p.Leader == -1 && strings.Contains(unhealthy.Stdout, "numbers") {
				c.CLI(strings.Fields(strings.ReplaceAll(steps[4], "TOPIC:PARTITION", fmt.Sprint("numbers:", p.Partition)))...) // both brokers may not be in service yet
			}
			if p.Leader != 2 && p.Leader != 3 || len(p.ISR) != 2 {
				return fmt.Errorf("partition %d is led by %d with the ISR %v", p.Partition, p.Leader, p.ISR)
			}
		}
		return nil
	})
	if got := len(c.values("numbers")); got != 5000 {
		t.Errorf("%d of 5000 acknowledged records are there", got)
	}
	c.MustWith("after\n", "produce", "numbers")
	if after, err := c.status(); err != nil || after.ClusterID != before.ClusterID {
		t.Errorf("the cluster %s became %s, %v", before.ClusterID, after.ClusterID, err)
	}
	if d, err := c.describeGroup("kept"); err != nil || len(d.Offsets) == 0 {
		t.Errorf("the group's offsets: %+v, %v", d, err)
	}
	c.Brokers[0].Start() // new, empty brokers take the places of the lost ones
	c.Brokers[1].Start()
	c.WaitHealthy()
	c.sameReplicas()
}

// TestCase123_TheRunbookOfDamagedMetadata follows docs/operations.md: a broker whose metadata store is damaged does not start and says what to do; done so, it is a
// member again, with its replicas.
func TestCase123_TheRunbookOfDamagedMetadata(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "3", "-r", "3")
	c.MustWith(seq(1, 1000), "produce", "numbers")
	broken := c.Brokers[2]
	broken.Kill()
	store := filepath.Join(broken.Data, "raft", "raft.db")
	if err := os.Truncate(store, 3*int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	broken.Start()
	broken.awaitEnd(1)
	if last := tail(broken.logPath, 1); !strings.Contains(last, store) || !strings.Contains(last, "move this broker's whole data directory away") {
		t.Errorf("its last words: %s", last)
	}
	c.MustWith("during\n", "produce", "numbers") // the others go on
	if err := os.Rename(broken.Data, broken.Data+".damaged"); err != nil {
		t.Fatal(err)
	}
	broken.Start()
	c.WaitHealthy()
	c.sameReplicas()
	if got := len(c.values("numbers")); got != 1001 {
		t.Errorf("%d of 1001 records are there", got)
	}
}

// awaitEnd waits until the process has ended by itself, and compares its exit code.
func (b *Broker) awaitEnd(code int) {
	b.cluster.t.Helper()
	Eventually(b.cluster.t, func() error {
		if b.Running() {
			return fmt.Errorf("broker %d still runs", b.ID)
		}
		return nil
	})
	if got := b.Terminate(); got != code {
		b.cluster.t.Errorf("broker %d ended with exit code %d, want %d:\n%s", b.ID, got, code, tail(b.logPath, 5))
	}
}

// TestFullDiskUnderTheMetadata: not even the metadata store can write. The broker gives its reserve back and ends with the exit code of its own; started again, it
// serves everything but produce, and produce when there is space.
func TestFullDiskUnderTheMetadata(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	c := Prepare(t, 1, "--storage-reserve-bytes", "1MiB")
	b := c.Brokers[0]
	b.Data = filepath.Join(disk, "data")
	b.Start()
	c.WaitHealthy()
	c.Must("topic", "create", "numbers", "-p", "1")
	c.MustWith("before\n", "produce", "numbers")
	ballast := filepath.Join(disk, "ballast")
	fillDisk(t, ballast)
	for i := 0; b.Running(); i++ {
		if i == 2000 {
			t.Fatal("the metadata of 2000 changes takes no space")
		}
		c.CLI("config", "set", "topic", "numbers", fmt.Sprintf("retention.ms=%d", 100_000+i), "--timeout", "1s")
	}
	b.awaitEnd(11)
	if last := tail(b.logPath, 1); !strings.Contains(last, "the reserve of the metadata was released") {
		t.Errorf("its last words: %s", last)
	}
	b.Start()
	Eventually(t, c.allRegistered) // it is not healthy: the disk is full
	if got := c.values("numbers"); len(got) != 1 || got[0] != "before" {
		t.Errorf("the topic holds %v", got)
	}
	if out := c.CLIWith("full\n", "produce", "numbers", "--timeout", "1s"); out.Code == 0 {
		t.Error("produce is accepted on the full disk")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	Eventually(t, func() error {
		if out := c.CLIWith("after\n", "produce", "numbers", "--timeout", "1s"); out.Code != 0 {
			return fmt.Errorf("exit %d: %s", out.Code, out.Stderr)
		}
		return nil
	})
}

// fillDisk writes a file until there is no space left.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// TestCase24_NothingIsWrittenBeforeTheLock: a process that finds the data directory in use leaves every file in it as it was.
func TestCase24_NothingIsWrittenBeforeTheLock(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	c.Must("topic", "create", "numbers", "-p", "1")
	c.MustWith("one\n", "produce", "numbers")
	b := c.Brokers[0]
	b.Kill()
	held, err := segment.LockDir(vfs.OS{}, b.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	before := b.files()
	out := c.CLI(b.Args()...)
	if out.Code == 0 || !strings.Contains(out.Stderr, "in use by another process") {
		t.Errorf("exit %d: %s", out.Code, out.Stderr)
	}
	if after := b.files(); after != before {
		t.Errorf("the files were\n%s\nand are\n%s", before, after)
	}
}

// files lists what is in the data directory: names, sizes and checksums.
func (b *Broker) files() string {
	b.cluster.t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(b.Data, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			fmt.Fprintln(&out, path)
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintln(&out, path, len(content), crc32.ChecksumIEEE(content))
		return err
	})
	if err != nil {
		b.cluster.t.Fatal(err)
	}
	return out.String()
}
