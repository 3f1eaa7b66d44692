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
	holder, other := c.Brokers[0], c.Brokers[1]
	files := map[string]string{"log": "log.meta", "identity": "partition.meta"} // by topic
	paths := map[string]string{}
	for topic, file := range files {
		c.Must("topic", "create", topic, "--assignment", "0,1", "-c", "min.insync.replicas=1")
		c.MustWith("first\n", "produce", topic)
		paths[topic] = filepath.Join(holder.Data, "partitions", holder.directories(c.describe(topic).TopicID)[0], file)
	}
	other.Kill()
	for topic := range files {
		c.awaitISR(topic, 1)
		c.MustWith("second\n", "produce", topic)
	}
	holder.Kill()
	for _, path := range paths {
		mustDo(t, os.Rename(path, path+".away"))
		mustDo(t, os.Symlink(path, path)) // whoever opens it is told ELOOP
	}
	holder.Start()
	other.Start()
	Eventually(t, c.allRegistered)
	for topic := range files {
		c.awaitLeader(topic, -1)
	}
	if log := holder.Log(); strings.Count(log, "log not opened") != len(files) {
		t.Fatalf("a log was opened:\n%s", log)
	}
	holder.Kill()
	for _, path := range paths {
		mustDo(t, os.Rename(path+".away", path))
	}
	holder.Start()
	for topic := range files {
		c.awaitLeader(topic, 0)
		c.awaitISR(topic, 2)
		if got := c.values(topic); strings.Join(got, " ") != "first second" {
			t.Errorf("topic %s holds %v", topic, got)
		}
	}
}
