package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The Kafka door as a real client sees it, on three brokers: records in every codec come back, groups share partitions, administrators find their APIs, and the
// death of a leader loses nothing that was acknowledged. The client is franz-go, which always speaks the newest versions that are offered.

// kafkaSeeds are the Kafka addresses of all brokers.
func (c *Cluster) kafkaSeeds() kgo.Opt {
	var out []string
	for _, b := range c.Brokers {
		out = append(out, b.Kafka)
	}
	return kgo.SeedBrokers(out...)
}

func kafkaClient(t *testing.T, c *Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{c.kafkaSeeds(), kgo.RecordDeliveryTimeout(Patience), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func kafkaContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*Patience)
	t.Cleanup(cancel)
	return ctx
}

// produceKafka sends n records and returns when all are acknowledged.
func produceKafka(ctx context.Context, t *testing.T, client *kgo.Client, topic, prefix string, n int) {
	t.Helper()
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "%s-%d", prefix, i)})
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("produce %s: %v", prefix, err)
	}
}

// collectKafka polls until n different values have come.
func collectKafka(ctx context.Context, t *testing.T, client *kgo.Client, n int) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for len(seen) < n {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d of %d records came: %v", len(seen), n, err)
		}
		fetches.EachError(func(topic string, p int32, err error) { t.Errorf("fetch %s-%d: %v", topic, p, err) })
		fetches.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	return seen
}

// eventually waits until ok says yes.
func eventually(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: never came", what)
		}
	}
}

func TestKafka(t *testing.T) {
	c := Start(t, 3, "--topic-auto-create")
	t.Run("records in every codec", func(t *testing.T) { kafkaCodecs(t, c) })
	t.Run("topics and configurations", func(t *testing.T) { kafkaAdmin(t, c) })
	t.Run("group", func(t *testing.T) { kafkaGroup(t, c) })
	t.Run("offsets without a group", func(t *testing.T) { kafkaOffsets(t, c) })
	t.Run("partitions on other replicas", func(t *testing.T) { kafkaMoves(t, c) })
	t.Run("a leader dies", func(t *testing.T) { kafkaFailover(t, c) })
}

func kafkaCodecs(t *testing.T, c *Cluster) {
	ctx := kafkaContext(t)
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		produceKafka(ctx, t, kafkaClient(t, c, kgo.ProducerBatchCompression(codec), kgo.AllowAutoTopicCreation()), "codecs", name, 200)
	}
	reader := kafkaClient(t, c, kgo.ConsumeTopics("codecs"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for value, times := range collectKafka(ctx, t, reader, 200*len(codecs)) {
		if times != 1 {
			t.Errorf("%s came %d times", value, times)
		}
	}
}

func kafkaAdmin(t *testing.T, c *Cluster) {
	ctx := kafkaContext(t)
	client := kafkaClient(t, c)
	admin := kadm.NewClient(client)
	created, err := admin.CreateTopic(ctx, 2, 3, map[string]*string{"retention.ms": kadm.StringPtr("86400000")}, "admin")
	if err != nil || created.NumPartitions != 2 || created.ReplicationFactor != 3 {
		t.Fatalf("create: %+v, %v", created, err)
	}
	if _, err := admin.CreateTopic(ctx, 2, 3, nil, "admin"); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("create twice: %v", err)
	}
	if _, err := admin.ValidateCreatePartitions(ctx, 1, "admin"); err != nil {
		t.Errorf("validate partitions: %v", err)
	}
	if _, err := admin.UpdatePartitions(ctx, 3, "admin"); err != nil {
		t.Errorf("update partitions: %v", err)
	}
	if _, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")}}, "admin"); err != nil {
		t.Errorf("alter configs: %v", err)
	}
	eventually(ctx, t, "the configuration as set", func() bool { // another broker may answer, a moment behind
		configs, err := admin.DescribeTopicConfigs(ctx, "admin")
		if err != nil || len(configs) != 1 {
			return false
		}
		got := map[string]string{}
		for _, e := range configs[0].Configs {
			got[e.Key] = e.MaybeValue()
		}
		return got["retention.ms"] == "86400000" && got["cleanup.policy"] == "compact"
	})
	produceKafka(ctx, t, client, "admin", "r", 30)
	ends, err := admin.ListEndOffsets(ctx, "admin")
	total := int64(0)
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	if err != nil || total != 30 {
		t.Errorf("end offsets add up to %d: %v", total, err)
	}
	if _, err := admin.DeleteRecords(ctx, ends.Offsets()); err != nil {
		t.Errorf("delete records: %v", err)
	}
	eventually(ctx, t, "logs without records", func() bool {
		left := int64(30)
		starts, err := admin.ListStartOffsets(ctx, "admin")
		starts.Each(func(o kadm.ListedOffset) { left -= o.Offset })
		return err == nil && left == 0
	})
	if dirs, err := admin.DescribeAllLogDirs(ctx, nil); err != nil || len(dirs) != 3 {
		t.Errorf("log dirs: %v, %v", dirs, err)
	}
	if brokers, err := admin.ListBrokers(ctx); err != nil || len(brokers) != 3 {
		t.Errorf("brokers: %v, %v", brokers, err)
	}
	if _, err := admin.DeleteTopic(ctx, "admin"); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func kafkaGroup(t *testing.T, c *Cluster) {
	ctx := kafkaContext(t)
	admin := kadm.NewClient(kafkaClient(t, c))
	if _, err := admin.CreateTopic(ctx, 6, 3, nil, "shared"); err != nil {
		t.Fatal(err)
	}
	produceKafka(ctx, t, kafkaClient(t, c), "shared", "one", 300)
	member := func(id string) *kgo.Client {
		return kafkaClient(t, c, kgo.ClientID(id), kgo.ConsumerGroup("team"), kgo.ConsumeTopics("shared"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	first := member("first")
	collectKafka(ctx, t, first, 300)
	if err := first.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatalf("commit: %v", err)
	}
	groups, err := admin.DescribeGroups(ctx, "team")
	if g := groups["team"]; err != nil || g.State != "Stable" || len(g.Members) != 1 {
		t.Errorf("describe: %+v, %v", g, err)
	}
	first.Close()
	lag, err := admin.Lag(ctx, "team")
	if total := lag["team"].Lag.Total(); err != nil || total != 0 {
		t.Errorf("lag %d: %v", total, err)
	}
	produceKafka(ctx, t, kafkaClient(t, c), "shared", "two", 300)
	for value := range collectKafka(ctx, t, member("second"), 300) { // goes on where the first has committed
		if value[:3] != "two" {
			t.Errorf("%s came again", value)
		}
	}
}

// kafkaOffsets commits for nobody, and reads and removes what was committed.
func kafkaOffsets(t *testing.T, c *Cluster) {
	ctx := kafkaContext(t)
	admin := kadm.NewClient(kafkaClient(t, c))
	if _, err := admin.CreateTopic(ctx, 2, 3, nil, "offsets"); err != nil {
		t.Fatal(err)
	}
	if none, err := admin.FetchOffsets(ctx, "nobody"); err != nil || len(none) != 0 {
		t.Errorf("a group that does not exist has offsets %v: %v", none, err)
	}
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: "offsets", Partition: 1, At: 42, LeaderEpoch: -1, Metadata: "by hand"})
	if err := admin.CommitAllOffsets(ctx, "nobody", offsets); err != nil {
		t.Fatalf("commit: %v", err)
	}
	got, err := admin.FetchOffsets(ctx, "nobody")
	if o, ok := got.Lookup("offsets", 1); err != nil || !ok || o.At != 42 || o.Metadata != "by hand" {
		t.Errorf("fetch: %v, %v", got, err)
	}
	if listed, err := admin.ListGroups(ctx); err != nil || listed["nobody"].State != "Empty" {
		t.Errorf("list: %+v, %v", listed, err)
	}
	var drop kadm.TopicsSet
	drop.Add("offsets", 1)
	if _, err := admin.DeleteOffsets(ctx, "nobody", drop); err != nil {
		t.Errorf("delete offsets: %v", err)
	}
	if got, err := admin.FetchOffsets(ctx, "nobody"); err != nil || len(got) != 0 {
		t.Errorf("after the deletion: %v, %v", got, err)
	}
	if err := admin.CommitAllOffsets(ctx, "nobody", offsets); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if deleted, err := admin.DeleteGroup(ctx, "nobody"); err != nil || deleted.Err != nil {
		t.Errorf("delete: %v, %v", deleted, err)
	}
}

// kafkaMoves gives a partition another set of replicas, and its preferred leader back.
func kafkaMoves(t *testing.T, c *Cluster) {
	ctx := kafkaContext(t)
	admin := kadm.NewClient(kafkaClient(t, c))
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, "moves"); err != nil {
		t.Fatal(err)
	}
	var to kadm.AlterPartitionAssignmentsReq
	to.Assign("moves", 0, []int32{1, 2})
	if moved, err := admin.AlterPartitionAssignments(ctx, to); err != nil || moved.Error() != nil {
		t.Fatalf("reassign: %v, %v", moved, err)
	}
	eventually(ctx, t, "the partition on brokers 1 and 2", func() bool {
		m, err := admin.Metadata(ctx, "moves")
		if err != nil || len(m.Topics["moves"].Partitions) != 1 {
			return false
		}
		p := m.Topics["moves"].Partitions[0]
		return slices.Equal(p.Replicas, []int32{1, 2}) && len(p.ISR) == 2 && p.Leader > 0
	})
	if moves, err := admin.ListPartitionReassignments(ctx, kadm.TopicsSet{"moves": {0: {}}}); err != nil || len(moves) != 0 {
		t.Errorf("moves are left: %v, %v", moves, err)
	}
	eventually(ctx, t, "the preferred leader", func() bool {
		elected, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, kadm.TopicsSet{"moves": {0: {}}})
		if err != nil {
			return false
		}
		r := elected["moves"][0]
		return r.Err == nil || errors.Is(r.Err, kerr.ElectionNotNeeded)
	})
}

func kafkaFailover(t *testing.T, c *Cluster) {
	ctx := kafkaContext(t)
	admin := kadm.NewClient(kafkaClient(t, c))
	if _, err := admin.CreateTopic(ctx, 3, 3, nil, "failover"); err != nil {
		t.Fatal(err)
	}
	client := kafkaClient(t, c)
	produceKafka(ctx, t, client, "failover", "before", 100)
	coordinators := admin.FindGroupCoordinators(ctx, "survivors")
	member := kafkaClient(t, c, kgo.ConsumerGroup("survivors"), kgo.ConsumeTopics("failover"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	collectKafka(ctx, t, member, 100)
	c.Brokers[coordinators["survivors"].NodeID].Kill() // which leads partitions, too
	produceKafka(ctx, t, client, "failover", "after", 100)
	for {
		if last := collectKafka(ctx, t, member, 1); len(last) > 0 && strings.HasPrefix(slices.Collect(maps.Keys(last))[0], "after") {
			break // the member goes on with another coordinator
		}
	}
	reader := kafkaClient(t, c, kgo.ConsumeTopics("failover"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for value, times := range collectKafka(ctx, t, reader, 200) {
		if times != 1 {
			t.Errorf("%s came %d times", value, times)
		}
	}
}
