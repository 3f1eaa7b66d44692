package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What users of other brokers have reported, tried on this one: each test names its case, or says what was reported.

func TestKafkaReports(t *testing.T) {
	c := Start(t, 3, "--topic-auto-create")
	t.Run("case 2: names of a thousand new topics are known when their creation is answered", func(t *testing.T) { manyNewTopics(t, c) })
	t.Run("case 82: a paused member is fenced and comes back", func(t *testing.T) { pausedMember(t, c) })
	t.Run("case 87: earliest, latest and none below the log", func(t *testing.T) { outOfRange(t, c) })
	t.Run("lag of partitions without a commit", func(t *testing.T) { lagWithoutCommit(t, c) })
	t.Run("more members than partitions", func(t *testing.T) { idleMembers(t, c) })
	t.Run("members that die while they join", func(t *testing.T) { deathInJoin(t, c) })
	t.Run("cooperative members come and go", func(t *testing.T) { cooperativeChurn(t, c) })
	t.Run("watermark and lag never step back", func(t *testing.T) { monotoneLag(t, c) })
	t.Run("a record above every fetch limit", func(t *testing.T) { bigRecord(t, c) })
	t.Run("a client of a later time asks for versions", func(t *testing.T) { newApiVersions(t, c) })
	t.Run("message sets of the old formats", func(t *testing.T) { oldMessageSets(t, c) })
}

// manyNewTopics: librdkafka 4904. Every topic takes a record as soon as its creation is answered, without an error that reaches the caller.
func manyNewTopics(t *testing.T, c *Cluster) {
	const topics, batch = 1000, 100
	ctx := kafkaContext(t)
	client := kafkaClient(t, c, kgo.MaxBufferedRecords(topics))
	admin := kadm.NewClient(client)
	var records []*kgo.Record
	for from := 0; from < topics; from += batch {
		var names []string
		for i := range batch {
			names = append(names, fmt.Sprintf("many-%d", from+i))
			records = append(records, &kgo.Record{Topic: names[i], Value: []byte(names[i])})
		}
		created, err := admin.CreateTopics(ctx, 1, 3, nil, names...)
		if err != nil || created.Error() != nil {
			t.Fatalf("create: %v, %v", err, created.Error())
		}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range records {
		names = append(names, r.Topic)
	}
	ends, err := admin.ListEndOffsets(ctx, names...)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ends.Each(func(o kadm.ListedOffset) { n += int(o.Offset) })
	if n != topics {
		t.Errorf("%d records in %d topics", n, topics)
	}
	if deleted, err := admin.DeleteTopics(ctx, names...); err != nil || deleted.Error() != nil {
		t.Errorf("delete: %v, %v", err, deleted.Error())
	}
}

// pausedMember: a member that is silent for longer than its session can no longer commit, and joins again.
func pausedMember(t *testing.T, c *Cluster) {
	ctx := kafkaContext(t)
	client := kafkaClient(t, c)
	produceKafka(ctx, t, kafkaClient(t, c, kgo.AllowAutoTopicCreation()), "paused", "r", 10)
	m := rawMember{t: t, client: client, group: "paused", session: 6 * time.Second}
	m.join(ctx)
	commit := func(at int64) int16 { return m.commit(ctx, "paused", 0, at) }
	if code := commit(3); code != 0 {
		t.Fatalf("a live member commits: %v", kerr.ErrorForCode(code))
	}
	// It sends nothing now, as a stopped process does.
	admin := kadm.NewClient(client)
	eventually(ctx, t, "the group without the silent member", func() bool {
		groups, err := admin.DescribeGroups(ctx, "paused")
		return err == nil && groups["paused"].State == "Empty"
	})
	if err := kerr.ErrorForCode(commit(9)); !errors.Is(err, kerr.UnknownMemberID) && !errors.Is(err, kerr.IllegalGeneration) {
		t.Errorf("a fenced member commits: %v", err)
	}
	got, err := admin.FetchOffsets(ctx, "paused")
	if o, ok := got.Lookup("paused", 0); err != nil || !ok || o.At != 3 {
		t.Errorf("the committed offset is %d (%v), want the 3 of the live member", o.At, err)
	}
	before := m.generation
	m.id = ""
	m.join(ctx)
	if m.generation <= before {
		t.Errorf("generation %d after %d", m.generation, before)
	}
	if code := commit(9); code != 0 {
		t.Errorf("the member that joined again commits: %v", kerr.ErrorForCode(code))
	}
}

// outOfRange: below the start of the log earliest goes on at the start, latest at the end, and none says so.
func outOfRange(t *testing.T, c *Cluster) {
	ctx := kafkaContext(t)
	client := kafkaClient(t, c)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, 3, nil, "range"); err != nil {
		t.Fatal(err)
	}
	produceKafka(ctx, t, client, "range", "r", 10)
	var before kadm.Offsets
	before.Add(kadm.Offset{Topic: "range", Partition: 0, At: 6, LeaderEpoch: -1})
	if _, err := admin.DeleteRecords(ctx, before); err != nil {
		t.Fatal(err)
	}
	reader := func(reset kgo.Offset) *kgo.Client {
		at := map[string]map[int32]kgo.Offset{"range": {0: kgo.NewOffset().At(2)}}
		return kafkaClient(t, c, kgo.ConsumePartitions(at), kgo.ConsumeResetOffset(reset))
	}
	if seen := collectKafka(ctx, t, reader(kgo.NewOffset().AtStart()), 4); seen["r-6"] != 1 || seen["r-9"] != 1 {
		t.Errorf("earliest: %v", seen)
	}
	if fetches := reader(kgo.NoResetOffset()).PollFetches(ctx); len(fetches.Errors()) != 1 || !errors.Is(fetches.Errors()[0].Err, kerr.OffsetOutOfRange) {
		t.Errorf("none: %d records, errors %v", fetches.NumRecords(), fetches.Errors())
	}
	late := reader(kgo.NewOffset().AtEnd())
	var first string
	for n := 0; first == ""; n++ { // what is written before the client has asked for the end may pass it by
		produceKafka(ctx, t, client, "range", fmt.Sprintf("new%d", n), 1)
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		late.PollFetches(short).EachRecord(func(r *kgo.Record) {
			if first == "" {
				first = string(r.Value)
			}
		})
		cancel()
		if ctx.Err() != nil {
			t.Fatal("latest: nothing came")
		}
	}
	if !strings.HasPrefix(first, "new") {
		t.Errorf("latest begins with %s", first)
	}
}

// lagWithoutCommit: kafka_exporter 28. Partitions that the group never committed are not in its offsets, and count nothing.
func lagWithoutCommit(t *testing.T, c *Cluster) {
	ctx := kafkaContext(t)
	client := kafkaClient(t, c, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 3, 3, nil, "lag"); err != nil {
		t.Fatal(err)
	}
	for p := range int32(3) {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "lag", Partition: p}, &kgo.Record{Topic: "lag", Partition: p}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: "lag", Partition: 1, At: 1, LeaderEpoch: -1})
	if err := admin.CommitAllOffsets(ctx, "lag", offsets); err != nil {
		t.Fatal(err)
	}
	got, err := admin.FetchOffsets(ctx, "lag")
	if err != nil || len(got["lag"]) != 1 {
		t.Errorf("committed: %v, %v", got, err)
	}
	out, err := c.describeGroup("lag")
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Offsets) == 0 {
		t.Error("group describe shows no partition")
	}
	for _, p := range out.Offsets {
		if p.Partition != 1 && p.Lag != nil {
			t.Errorf("partition %d has lag %d and no commit", p.Partition, *p.Lag)
		}
		if p.Partition == 1 && (p.Lag == nil || *p.Lag != 1) {
			t.Errorf("partition 1: lag %v, want 1", p.Lag)
		}
	}
}

// idleMembers: iggy 1478. Five members come and go on three partitions; each time the group settles, every partition has one owner.
func idleMembers(t *testing.T, c *Cluster) {
	ctx := kafkaContext(t)
	admin := kadm.NewClient(kafkaClient(t, c))
	if _, err := admin.CreateTopic(ctx, 3, 3, nil, "few"); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(16, 0))
	var members []*groupReader
	for range 5 {
		members = append(members, startGroupReader(t, c, "idle", "few"))
	}
	owned := func(want int) {
		t.Helper()
		eventually(ctx, t, fmt.Sprintf("three partitions with an owner each among %d members", want), func() bool {
			groups, err := admin.DescribeGroups(ctx, "idle")
			g := groups["idle"]
			if err != nil || g.State != "Stable" || len(g.Members) != want {
				return false
			}
			owners := map[int32]int{}
			for _, m := range g.Members {
				if a, ok := m.Assigned.AsConsumer(); ok {
					for _, topic := range a.Topics {
						for _, p := range topic.Partitions {
							owners[p]++
						}
					}
				}
			}
			return len(owners) == 3 && owners[0] == 1 && owners[1] == 1 && owners[2] == 1
		})
	}
	owned(5)
	for range 4 {
		i := random.IntN(len(members))
		members[i].stop()
		members = append(members[:i], members[i+1:]...)
		owned(4)
		members = append(members, startGroupReader(t, c, "idle", "few"))
		owned(5)
	}
}

// deathInJoin: redpanda 3300. A member dies between its join and its sync, again and again; the group settles each time, within its timeouts.
func deathInJoin(t *testing.T, c *Cluster) {
	ctx := kafkaContext(t)
	admin := kadm.NewClient(kafkaClient(t, c))
	if _, err := admin.CreateTopic(ctx, 3, 3, nil, "joins"); err != nil {
		t.Fatal(err)
	}
	stays := startGroupReader(t, c, "joins", "joins")
	defer stays.stop()
	for range 2 {
		dies := rawMember{t: t, client: kafkaClient(t, c), group: "joins", session: 6 * time.Second, protocol: "cooperative-sticky"}
		dies.joinOnly(ctx) // the process is gone now: no sync, no heartbeat, no leave
		dies.client.Close()
		eventually(ctx, t, "the group without the dead member", func() bool {
			groups, err := admin.DescribeGroups(ctx, "joins")
			g := groups["joins"]
			return err == nil && g.State == "Stable" && len(g.Members) == 1
		})
	}
}

// cooperativeChurn: librdkafka 4783 and case 81. Members of the cooperative protocol come and go at random while records flow; at the end the group settles and
// every record has been read.
func cooperativeChurn(t *testing.T, c *Cluster) {
	const members, moves, records = 8, 20, 2000
	ctx := kafkaContext(t)
	client := kafkaClient(t, c)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 12, 3, nil, "churn"); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(81, 0))
	seen := &seenValues{values: map[string]int{}}
	var live []*groupReader
	add := func() {
		r := startGroupReader(t, c, "churn", "churn")
		r.into(seen)
		live = append(live, r)
	}
	for range members {
		add()
	}
	for move := range moves {
		produceKafka(ctx, t, client, "churn", fmt.Sprintf("m%d", move), records/moves)
		if len(live) > 2 && random.IntN(2) == 0 {
			i := random.IntN(len(live))
			live[i].stop()
			live = append(live[:i], live[i+1:]...)
		} else {
			add()
		}
	}
	eventually(ctx, t, "every record, read by the group", func() bool { return seen.len() == records })
	eventually(ctx, t, "a settled group", func() bool {
		groups, err := admin.DescribeGroups(ctx, "churn")
		return err == nil && groups["churn"].State == "Stable" && len(groups["churn"].Members) == len(live)
	})
}

// monotoneLag: kafka_exporter 76. While a group reads at the head, the end offset never steps back, and what is committed never passes it.
func monotoneLag(t *testing.T, c *Cluster) {
	ctx := kafkaContext(t)
	client := kafkaClient(t, c)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, 3, nil, "head"); err != nil {
		t.Fatal(err)
	}
	reader := startGroupReader(t, c, "head", "head")
	defer reader.stop()
	writing, stop := context.WithCancel(ctx)
	var written sync.WaitGroup
	written.Go(func() {
		for writing.Err() == nil {
			client.ProduceSync(writing, &kgo.Record{Topic: "head", Value: make([]byte, 100)}) //nolint:errcheck // cancelled at the end
		}
	})
	last := int64(-1)
	for n := 0; n < 300 || last <= 0; n++ { // the first record may be long in coming
		committed, err := admin.FetchOffsets(ctx, "head")
		if err != nil {
			t.Fatal(err)
		}
		ends, err := admin.ListEndOffsets(ctx, "head")
		if err != nil {
			t.Fatal(err)
		}
		end, _ := ends.Lookup("head", 0)
		if end.Err != nil {
			t.Fatal(end.Err)
		}
		if end.Offset < last {
			t.Errorf("end offset %d after %d", end.Offset, last)
		}
		last = end.Offset
		if o, ok := committed.Lookup("head", 0); ok && o.At > end.Offset {
			t.Errorf("committed %d, and the log ends at %d", o.At, end.Offset)
		}
	}
	stop()
	written.Wait()
}

// bigRecord: Dekaf 1628. The first record comes although it is above what the client asks for.
func bigRecord(t *testing.T, c *Cluster) {
	const size = 5 << 20
	ctx := kafkaContext(t)
	writer := kafkaClient(t, c, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(6<<20))
	if _, err := kadm.NewClient(writer).CreateTopic(ctx, 1, 3, map[string]*string{"max.message.bytes": kadm.StringPtr("6291456")}, "big"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := writer.ProduceSync(ctx, &kgo.Record{Topic: "big", Value: append(fmt.Appendf(nil, "%d", i), make([]byte, size)...)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	reader := kafkaClient(t, c, kgo.ConsumeTopics("big"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(1024), kgo.FetchMaxPartitionBytes(1024))
	for value := range collectKafka(ctx, t, reader, 3) {
		if len(value) != size+1 {
			t.Errorf("a record of %d bytes", len(value))
		}
	}
}
