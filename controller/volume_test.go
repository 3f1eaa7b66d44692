package controller

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// newLoaded starts a broker that is a cluster of its own, with topics of a hundred partitions each.
func newLoaded(tb testing.TB, dir string, topics int, limit, trail int64) *Controller {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.Directory, cfg.Dir, cfg.Address, cfg.SessionTimeout = newUUID(), dir, "broker-0:9093", time.Hour
	c := startLoaded(tb, cfg, limit, trail)
	registered := mustPropose(tb, c, cluster.RegisterBroker{
		Broker:        cluster.Broker{Directory: cfg.Directory, Incarnation: newUUID(), PeerAddress: cfg.Address, MinLevel: cluster.LevelFirst, MaxLevel: cluster.LevelNewest},
		PreviousEpoch: cluster.NoBrokerEpoch,
	})
	mustPropose(tb, c, cluster.UnfenceBroker{Epoch: registered.BrokerEpoch})
	for n := range topics {
		create := cluster.CreateTopic{ID: cluster.TopicID{1, byte(n)}, Name: fmt.Sprintf("topic-%d", n)}
		for range partitionsEach {
			create.Assignment = append(create.Assignment, []cluster.BrokerID{0})
		}
		mustPropose(tb, c, create)
	}
	return c
}

const partitionsEach = 100

// startLoaded starts the broker on what is in its directory, and waits until it can change the metadata.
func startLoaded(tb testing.TB, cfg Config, limit, trail int64) *Controller {
	tb.Helper()
	host := newTestNet().listen(cfg.Address, string(serverID(cfg.Broker, cfg.Directory)))
	c, err := Open(cfg, Ports{Streams: host, Calls: host, Log: testLog(), Fatal: func(err error) { tb.Error(err) }})
	if err != nil {
		tb.Fatal(err)
	}
	c.store.volume.limit, c.store.volume.trail = limit, trail
	c.Start()
	select {
	case <-c.Formed():
	case <-tb.Context().Done():
		tb.Fatal("not formed")
	}
	mustPropose(tb, c, configCommand("retention.ms", "1"))
	return c
}

func mustPropose(tb testing.TB, c *Controller, cmd cluster.Command) cluster.Result {
	tb.Helper()
	result, err := c.Propose(tb.Context(), cmd)
	if err != nil || result.Code != cluster.CodeNone {
		tb.Fatalf("%T: %+v, %v", cmd, result, err)
	}
	return result
}

// commitOffsets commits rounds batches, each of one offset for every partition of a topic by one group.
func commitOffsets(tb testing.TB, c *Controller, topics, rounds, groups int) {
	tb.Helper()
	for n := range rounds {
		group, topic := fmt.Sprintf("group-%d", n%groups), cluster.TopicID{1, byte(n / groups % topics)}
		for commitRound(tb, c, group, topic, record.Offset(n)) == cluster.CodeStaleShardEpoch { // the controller has just given the shards out
		}
	}
}

func commitRound(tb testing.TB, c *Controller, group string, topic cluster.TopicID, offset record.Offset) cluster.Code {
	tb.Helper()
	shard := cluster.ShardOf(group)
	at := c.Groups().Shard(shard)
	batch := cluster.GroupBatch{Shard: shard, ShardEpoch: at.Epoch, Sequence: at.NextSequence}
	for p := range int32(partitionsEach) {
		batch.Records = append(batch.Records, cluster.OffsetCommitted{
			Group: group, Partition: cluster.TopicPartition{Topic: topic, Partition: p},
			Committed: cluster.CommittedOffset{Offset: offset, CommittedMs: 1},
		})
	}
	result := mustPropose(tb, c, cluster.GroupAppend{Broker: at.Leader, Batches: []cluster.GroupBatch{batch}})
	code := result.Items[0].Code
	if code != cluster.CodeNone && code != cluster.CodeStaleShardEpoch {
		tb.Fatal(code)
	}
	return code
}

// A thousand partitions and a hundred thousand commits, in a log that is cut after a megabyte: raft.db stays small, a restart replays little, and has everything.
// BenchmarkCase126_Restart has the figures of ten thousand and a million.
func TestCase126_RaftFilesStayBounded(t *testing.T) {
	t.Parallel()
	const topics, groups, rounds, limit, trail = 10, 5, 1000, 1 << 20, 128 << 10
	dir := filepath.Join(t.TempDir(), "raft")
	c := newLoaded(t, dir, topics, limit, trail)
	commitOffsets(t, c, topics, rounds, groups)
	cfg := c.cfg
	cfg.Cluster = c.Image().ClusterID()
	written, err := c.store.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, storeFile))
	if err != nil {
		t.Fatal(err)
	}
	if most := int64(4 * (limit + trail)); info.Size() > most { // free pages stay in it
		t.Errorf("%s has %d bytes, want at most %d", storeFile, info.Size(), most)
	}
	again := startLoaded(t, cfg, limit, trail)
	defer again.Close()
	newest, err := again.snaps.newest()
	if err != nil || newest == nil {
		t.Fatalf("no snapshot: %v", err)
	}
	if replayed, most := written-newest.Index, written/2; replayed > most {
		t.Errorf("a restart replays %d of %d entries, want at most %d", replayed, written, most)
	}
	view, found := again.Groups(), 0
	for g := range groups {
		for _, at := range view.Offsets(fmt.Sprintf("group-%d", g)) {
			found++
			if at.Offset < rounds-groups*topics {
				t.Fatalf("a committed offset is %d after %d rounds", at.Offset, rounds)
			}
		}
	}
	if want := topics * groups * partitionsEach; found != want || view.GroupCount() != groups {
		t.Errorf("%d offsets of %d groups, want %d of %d", found, view.GroupCount(), want, groups)
	}
	partitions := 0
	for range cluster.Diff(cluster.EmptyImage(), again.Image()).Partitions() {
		partitions++
	}
	if partitions != topics*partitionsEach {
		t.Errorf("%d partitions", partitions)
	}
}

// BenchmarkCase126_Restart is a whole restart of a controller with 10,000 partitions and a million offset commits behind it: once from a snapshot, once with as much
// log behind the snapshot as there can be.
func BenchmarkCase126_Restart(b *testing.B) {
	const topics, groups, rounds = 100, 100, 10_000
	for name, cut := range map[string]bool{"snapshot": true, "log": false} {
		b.Run(name, func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "raft")
			c := newLoaded(b, dir, topics, logBytesMax, trailingBytes)
			commitOffsets(b, c, topics, rounds, groups)
			if cut {
				if err := c.node.Load().raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
					b.Fatal(err)
				}
			}
			cfg := c.cfg
			cfg.Cluster = c.Image().ClusterID()
			if err := c.Close(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				c := startLoaded(b, cfg, logBytesMax, trailingBytes)
				b.StopTimer()
				if err := c.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			info, err := os.Stat(filepath.Join(dir, storeFile))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(info.Size())/(1<<20), "raft.db-MiB")
		})
	}
}
