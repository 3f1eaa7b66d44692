package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCase11_TheOnlyCompleteReplicaCannotBeOpenedOnce: a disk that gives an error at the start of the broker has lost nothing. Where nobody else is complete, the partition
// waits for it, and goes on when the next start can open the log: nobody has to accept a loss that there is not.
func TestCase11_TheOnlyCompleteReplicaCannotBeOpenedOnce(t *testing.T) {
	t.Parallel()
	c := Start(t, 5)
	c.Must("topic", "create", "pair", "--assignment", "0,1", "-c", "min.insync.replicas=1")
	c.MustWith("first\n", "produce", "pair")
	c.Brokers[1].Kill()
	c.awaitISR("pair", 1)
	c.MustWith("second\n", "produce", "pair")
	holder := c.Brokers[0]
	meta := filepath.Join(holder.Data, "partitions", holder.directories(c.describe("pair").TopicID)[0], "log.meta")
	holder.Kill()
	mustDo(t, os.Rename(meta, meta+".away"))
	mustDo(t, os.Symlink(meta, meta)) // whoever opens it is told ELOOP
	holder.Start()
	c.Brokers[1].Start()
	Eventually(t, c.allRegistered)
	c.awaitLeader("pair", -1)
	if log := holder.Log(); !strings.Contains(log, "log not opened") {
		t.Fatalf("the log was opened:\n%s", log)
	}
	holder.Kill()
	mustDo(t, os.Rename(meta+".away", meta))
	holder.Start()
	c.awaitLeader("pair", 0)
	c.awaitISR("pair", 2)
	if got := c.values("pair"); strings.Join(got, " ") != "first second" {
		t.Errorf("the topic holds %v", got)
	}
}
