package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestCase40_MovedDirectories: all brokers are killed, and the directories of one's replicas are moved away before they start again. Nobody takes the empty
// place for a complete copy: what others hold is copied anew, and what nobody else holds is offline until it is put back, or given up by a person.
func TestCase40_MovedDirectories(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "3", "-r", "3")
	c.Must("topic", "create", "single", "-p", "1", "-r", "1")
	c.MustWith(seq(1, 3000), "produce", "numbers")
	c.MustWith("kept\n", "produce", "single")
	victim := c.Brokers[c.describe("single").Partitions[0].Leader]
	single := victim.directories(c.describe("single").TopicID)
	for _, b := range c.Brokers {
		b.Signal(syscall.SIGKILL)
	}
	for _, b := range c.Brokers {
		b.Kill()
	}
	replicas, away := filepath.Join(victim.Data, "partitions"), filepath.Join(t.TempDir(), "away")
	mustDo(t, os.Rename(replicas, away))
	for _, b := range c.Brokers {
		b.Start()
	}
	c.awaitISR("numbers", 3)
	if got := len(c.values("numbers")); got != 3000 {
		t.Errorf("%d of 3000 records are there", got)
	}
	c.awaitLeader("single", -1) // its only replica is missing
	if out := c.CLI("cluster", "health"); out.Code != 10 || !strings.Contains(out.Stdout+out.Stderr, "have no leader") {
		t.Errorf("cluster health: exit %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}

	victim.Terminate()
	mustDo(t, os.Rename(filepath.Join(away, single[0]), filepath.Join(replicas, single[0])))
	victim.Start()
	c.WaitHealthy()
	if got := c.values("single"); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("after the directory was put back there is %q", got)
	}

	victim.Kill()
	mustDo(t, os.RemoveAll(filepath.Join(replicas, single[0])))
	list := filepath.Join(victim.Data, "replicas")
	text, err := os.ReadFile(list)
	mustDo(t, err)
	lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool { return line == single[0]+" single\n" })
	mustDo(t, os.WriteFile(list, []byte(strings.Join(lines, "")), 0o644))
	victim.Start()
	c.WaitHealthy()
	c.MustWith("after\n", "produce", "single")
	if got := c.values("single"); !slices.Equal(got, []string{"after"}) {
		t.Errorf("after the loss was accepted there is %q", got)
	}
	c.sameReplicas()
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCase59_UncleanElectionWithoutADirectory: the only replica in sync comes back without its directory, and another lacks a record. The election that an
// operator forces takes the other, though it is second in the assignment; the empty one would have emptied it.
func TestCase59_UncleanElectionWithoutADirectory(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "kept", "--assignment", "0,1", "-c", "min.insync.replicas=1")
	c.MustWith("first\n", "produce", "kept")
	c.Brokers[1].Kill()
	c.awaitISR("kept", 1)
	c.MustWith("second\n", "produce", "kept")
	away := t.TempDir()
	c.Brokers[0].Kill()
	mustDo(t, os.Rename(filepath.Join(c.Brokers[0].Data, "partitions"), filepath.Join(away, "partitions")))
	c.Brokers[0].Start()
	c.Brokers[1].Start()
	c.awaitISR("kept", 0)
	Eventually(t, func() error {
		if err := c.allRegistered(); err != nil {
			return err
		}
		if out := c.CLI("cluster", "elect", "kept:0", "--unclean"); out.Code != 0 {
			return fmt.Errorf("exit %d: %s", out.Code, out.Stderr)
		}
		return nil
	})
	c.awaitISR("kept", 2)
	if got := c.values("kept"); !slices.Equal(got, []string{"first"}) {
		t.Errorf("there is %q", got)
	}
	c.sameReplicas()
}
