package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/segment"
)

// clusterHealth is what `moldau cluster health -o json` prints.
type clusterHealth struct {
	Healthy     bool     `json:"healthy"`
	Reasons     []string `json:"reasons"`
	OfflineLogs int      `json:"offline_logs"`
	LostEnds    int      `json:"lost_ends"`
	Unreached   []int    `json:"unreached"`
}

// awaitHealth asks one broker until what it says of the cluster is as wanted.
func (b *Broker) awaitHealth(what string, ok func(clusterHealth) bool) {
	b.cluster.t.Helper()
	Eventually(b.cluster.t, func() error {
		out := b.cluster.CLI("cluster", "health", "-o", "json", "--server", b.GRPC)
		var h clusterHealth
		if err := json.Unmarshal([]byte(out.Stdout), &h); err != nil || out.Code != 0 && out.Code != 10 {
			return fmt.Errorf("cluster health of broker %d: exit %d, %v: %s", b.ID, out.Code, err, out.Stderr)
		}
		if !ok(h) {
			return fmt.Errorf("no %s: %+v", what, h)
		}
		return nil
	})
}

// says reports whether one of the reasons has all the parts.
func (h clusterHealth) says(parts ...string) bool {
	return slices.ContainsFunc(h.Reasons, func(reason string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(reason, part) })
	})
}

// TestHealth_OfflineLogsOfAllBrokers: whichever broker is asked, it tells of the logs that are offline on another one, and names the brokers that it cannot ask.
func TestHealth_OfflineLogsOfAllBrokers(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "--assignment", "1,0,2", "-c", "min.insync.replicas=1")
	c.MustWith(seq(1, 100), "produce", "numbers")
	asked, down, broken := c.Brokers[0], c.Brokers[1], c.Brokers[2]
	replica := filepath.Join(broken.Data, "partitions", broken.directories(c.describe("numbers").TopicID)[0])
	broken.Terminate()
	c.awaitISR("numbers", 2)
	mustDo(t, os.Remove(filepath.Join(replica, strings.Repeat("0", 20)+".log")))
	broken.Start()
	asked.awaitHealth("word of the offline log of broker 2", func(h clusterHealth) bool {
		return !h.Healthy && h.OfflineLogs == 1 && h.says("1 partitions are offline on broker 2") && len(h.Unreached) == 0
	})
	if out := c.CLI("cluster", "health", "--server", asked.GRPC); out.Code != 10 {
		t.Errorf("cluster health: exit %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
	down.Kill()
	asked.awaitHealth("word of the broker that is down", func(h clusterHealth) bool {
		return h.OfflineLogs == 1 && slices.Equal(h.Unreached, []int{1}) && h.says("broker 1 is down")
	})
	down.Start()
	broken.Terminate()
	mustDo(t, os.Rename(replica, filepath.Join(t.TempDir(), "away"))) // as docs/operations.md says
	broken.Start()
	c.WaitHealthy()
	c.sameReplicas()
}

// damage changes a byte of a stopped broker's replica, in its first segment.
func damage(t *testing.T, replica string, at int64) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(replica, strings.Repeat("0", 20)+".log"), os.O_RDWR, 0)
	mustDo(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	b[0] ^= 1
	if err == nil {
		_, err = f.WriteAt(b, at)
	}
	mustDo(t, errors.Join(err, f.Close()))
}

// TestCase5_TheOnlyReplicaHasLostItsEnd: the last batch of a topic with one replica rots while its broker is down. The topic goes on without it, and nobody can overlook that: the log, a
// metric, the cluster's health whichever broker is asked and however often it is started, and the consumer that has read the record. It is over when an operator says so.
func TestCase5_TheOnlyReplicaHasLostItsEnd(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "single", "--assignment", "2")
	asked, victim := c.Brokers[0], c.Brokers[2]
	for _, value := range []string{"kept\n", "lost\n"} {
		c.MustWith(value, "produce", "single")
	}
	reader, err := c.Client(t).NewConsumer(client.WithPartitions(map[client.TopicPartition]client.Start{{Topic: "single"}: client.FromStart()}))
	mustDo(t, err)
	for read := 0; read < 2; {
		records, err := reader.Poll(patient(t))
		mustDo(t, err)
		read += len(records)
	}
	replica := filepath.Join(victim.Data, "partitions", victim.directories(c.describe("single").TopicID)[0])
	victim.Kill()
	info, err := os.Stat(filepath.Join(replica, strings.Repeat("0", 20)+".log"))
	mustDo(t, err)
	damage(t, replica, info.Size()-1)
	lost := func(h clusterHealth) bool {
		return !h.Healthy && h.LostEnds == 1 && h.says("broker 2 may have lost acknowledged records", "single:0")
	}
	victim.Start()
	asked.awaitHealth("word of the lost end", lost)
	Eventually(t, func() error {
		if !strings.Contains(victim.Log(), "acknowledged records may be lost") {
			return errors.New("the broker's log says nothing")
		}
		return nil
	})
	if n, err := victim.Metric(`moldau_partitions{state="lost_end"}`); err != nil || n != 1 {
		t.Errorf("the metric is %v, %v", n, err)
	}
	var loss *client.DataLossError
	for ctx := patient(t); !errors.As(c.pollError(ctx, reader), &loss); {
		if ctx.Err() != nil {
			t.Fatal("the reader is not told that what it has read is gone")
		}
	}
	victim.Terminate() // an orderly life changes nothing
	victim.Start()
	asked.awaitHealth("word of the lost end after another start", lost)
	c.MustWith("after\n", "produce", "single")
	if got := c.values("single"); !slices.Equal(got, []string{"kept", "after"}) {
		t.Errorf("there is %q", got)
	}
	victim.Terminate()
	mustDo(t, (vfs.OS{}).Remove(segment.DoubtFile(replica)))
	victim.Start()
	c.WaitHealthy()
}
