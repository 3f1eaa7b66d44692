package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/internal/history"
)

// A member stays in its group for shortLife to longLife, then leaves and joins again: every life is a rebalance or two.
const (
	shortLife     = 3 * time.Second
	longLife      = 20 * time.Second
	memberSession = 6 * time.Second
	commitEvery   = 3                      // one poll in so many, on average, is followed by a commit
	givingUp      = 400 * time.Millisecond // how long a native member takes to give up a partition; nobody may have it meanwhile
)

// memberPatience bounds a poll or a commit of a member.
const memberPatience = 2 * time.Second

// lives runs one life of a member after another, until the context ends.
func (c *Client) lives(ctx context.Context, life func(context.Context)) {
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, shortLife+time.Duration(c.Random.Int64N(int64(longLife-shortLife))))
		life(once)
		cancel()
	}
}

// KafkaMember gives a member of a classic group, which reads topics and commits what it has read. Each generation deals everything anew (eager), and nothing is revoked
// between a poll and its commit, so that the generation in the history is the one of the commit.
func (l *Load) KafkaMember(group string, topics ...string) func(context.Context, *Client) {
	return func(ctx context.Context, c *Client) {
		c.lives(ctx, func(ctx context.Context) { c.kafkaLife(ctx, group, topics) })
	}
}

func (c *Client) kafkaLife(ctx context.Context, group string, topics []string) {
	var cl *kgo.Client
	assigned := func(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
		member, generation := cl.GroupMetadata()
		c.assigned(group, member, generation, kafkaStarts(offsets))
		return offsets, nil
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.At.Kafka...), kgo.ClientID(c.Name), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(kgo.RoundRobinBalancer()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.AdjustFetchOffsetsFn(assigned), kgo.SessionTimeout(memberSession),
		kgo.HeartbeatInterval(memberSession/6), kgo.MetadataMinAge(250*time.Millisecond), kgo.MetadataMaxAge(5*time.Second), kgo.DialTimeout(2*time.Second))
	if err != nil {
		c.Counts.Note("new Kafka client", err)
		return
	}
	defer cl.CloseAllowingRebalance()
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, memberPatience)
		member, generation := cl.GroupMetadata()
		c.kafkaPoll(once, cl, history.Event{Kind: history.Poll, Group: group, Member: member})
		cancel()
		if ctx.Err() == nil && c.Random.IntN(commitEvery) == 0 {
			if _, now := cl.GroupMetadata(); now == generation && now > 0 {
				c.kafkaCommit(ctx, cl, group, member, generation)
			}
		}
		cl.AllowRebalance()
	}
}

// kafkaStarts are where a member begins in what it was assigned; the start of a log, for which there is no number, is not known.
func kafkaStarts(offsets map[string]map[int32]kgo.Offset) []history.Record {
	var out []history.Record
	for topic, partitions := range offsets {
		for p, o := range partitions {
			out = append(out, history.Record{Topic: topic, Partition: p, Offset: max(o.EpochOffset().Offset, history.Unknown), Epoch: history.Unknown})
		}
	}
	return out
}

// assigned writes what a member owns from now on.
func (c *Client) assigned(group, member string, generation int32, records []history.Record) {
	slices.SortFunc(records, func(a, b history.Record) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	e := c.Begin(history.Event{Kind: history.Assign, Group: group, Member: member, Generation: generation})
	e.Records = records
	c.End(e, nil)
}

// errPartly is a commit that was not carried out, or not in every partition.
var errPartly = errors.New("load: not committed everywhere")

func (c *Client) kafkaCommit(ctx context.Context, cl *kgo.Client, group, member string, generation int32) {
	offsets := cl.UncommittedOffsets()
	e := history.Event{Kind: history.Commit, Group: group, Member: member, Generation: generation}
	for topic, partitions := range offsets {
		for p, o := range partitions {
			e.Records = append(e.Records, history.Record{Topic: topic, Partition: p, Offset: o.Offset, Epoch: history.Unknown})
		}
	}
	if len(e.Records) == 0 {
		return
	}
	e = c.Begin(e)
	once, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	result := errPartly
	cl.CommitOffsetsSync(once, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		result = err
		if err == nil && !allCommitted(resp, len(e.Records)) {
			result = errPartly
		}
	})
	c.End(e, result)
}

func allCommitted(resp *kmsg.OffsetCommitResponse, want int) bool {
	n := 0
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if resp.Topics[i].Partitions[j].ErrorCode == 0 {
				n++
			}
		}
	}
	return n == want
}

// NativeMember gives a member of a native group. Its client does not tell where it begins: the first record of a partition does.
func (l *Load) NativeMember(group string, topics ...string) func(context.Context, *Client) {
	return func(ctx context.Context, c *Client) {
		c.lives(ctx, func(ctx context.Context) { c.nativeLife(ctx, group, topics) })
	}
}

// nativeMember is one life of a member.
type nativeMember struct {
	*Client
	consumer *client.Consumer
	group    string
	// changes are what the group gives and takes, as they happen; read by the goroutine that polls.
	changes chan change
	// owned are the partitions that it reads; false: nothing of it has come yet.
	owned map[client.TopicPartition]bool
	next  map[client.TopicPartition]int64
}

// change is what a group has given (or taken).
type change struct {
	partitions []client.TopicPartition
	gone       bool
}

// maxChanges bounds the changes between two polls.
const maxChanges = 100

func (c *Client) nativeLife(ctx context.Context, group string, topics []string) {
	m := &nativeMember{Client: c, group: group, changes: make(chan change, maxChanges), owned: map[client.TopicPartition]bool{}, next: map[client.TopicPartition]int64{}}
	tell := func(gone bool) func(context.Context, []client.TopicPartition) {
		return func(ctx context.Context, tps []client.TopicPartition) {
			if gone {
				wait(ctx, givingUp)
			}
			now := change{slices.Clone(tps), gone}
			select {
			case m.changes <- now:
			default: // full: its reader has ended, or will come. A change must not get lost only because ctx has ended as well
				select {
				case m.changes <- now:
				case <-ctx.Done():
				}
			}
		}
	}
	cl, err := client.New(client.WithSeeds(c.At.GRPC...), client.WithClientID(c.Name), client.WithDialTimeout(2*time.Second), client.WithMetadataMaxAge(5*time.Second))
	if err != nil {
		c.Counts.Note("new native client", err)
		return
	}
	defer cl.Close()
	m.consumer, err = cl.NewConsumer(client.WithGroup(group), client.WithTopics(topics...), client.WithOffsetReset(client.ResetEarliest), client.WithAutoCommit(0), client.WithSessionTimeout(memberSession),
		client.WithMaxPollRecords(pollRecords), client.WithOnAssigned(tell(false)), client.WithOnRevoked(tell(true)), client.WithOnLost(tell(true)))
	if err != nil {
		c.Counts.Note("new native member", err)
		return
	}
	defer m.consumer.Close()
	for ctx.Err() == nil {
		m.poll(ctx)
		if ctx.Err() == nil && c.Random.IntN(commitEvery) == 0 {
			m.commit(ctx)
		}
	}
}

// poll is one poll. What the group has changed meanwhile, and where new partitions begin, stands before it in the history.
func (m *nativeMember) poll(ctx context.Context) {
	once, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	e := m.Begin(history.Event{Kind: history.Poll, Group: m.group})
	records, err := m.consumer.Poll(once)
	if err != nil && once.Err() == nil {
		m.Counts.Note("native member", err)
		wait(once, 100*time.Millisecond)
	}
	m.follow(records)
	for _, r := range records {
		e.Records = append(e.Records, history.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Epoch: r.LeaderEpoch, Value: history.Describe(r.Value)})
		m.next[client.TopicPartition{Topic: r.Topic, Partition: r.Partition}] = r.Offset + 1
	}
	m.End(e, nil)
}

// follow takes what the group has changed, and writes what is owned when something new came or records of it came first. What is owned belongs to an epoch only
// if the epoch is the same before and after: the client has a new one before it tells what came with it, and after it has told what went before it.
func (m *nativeMember) follow(records []client.Record) {
	changed := false
	_, epoch := m.consumer.Membership()
	for len(m.changes) > 0 {
		c := <-m.changes
		changed = true
		for _, tp := range c.partitions {
			delete(m.owned, tp)
			delete(m.next, tp)
			if !c.gone {
				m.owned[tp] = false
			}
		}
	}
	first := map[client.TopicPartition]int64{}
	for _, r := range records {
		tp := client.TopicPartition{Topic: r.Topic, Partition: r.Partition}
		if started, ok := m.owned[tp]; ok && !started {
			first[tp] = r.Offset
			m.owned[tp] = true
		}
	}
	if !changed && len(first) == 0 {
		return
	}
	var now []history.Record
	for tp, started := range m.owned {
		offset := int64(history.Kept)
		if start, ok := first[tp]; ok {
			offset = start
		} else if !started {
			offset = history.Unknown
		}
		now = append(now, history.Record{Topic: tp.Topic, Partition: tp.Partition, Offset: offset, Epoch: history.Unknown})
	}
	id, after := m.consumer.Membership()
	if after != epoch {
		after = 0
	}
	m.assigned(m.group, id, after, now)
}

// commit stores where the member is.
func (m *nativeMember) commit(ctx context.Context) {
	if len(m.next) == 0 {
		return
	}
	offsets := maps.Clone(m.next)
	e := history.Event{Kind: history.Commit, Group: m.group, Ordered: true}
	e.Member, e.Generation = m.consumer.Membership()
	for tp, o := range offsets {
		e.Records = append(e.Records, history.Record{Topic: tp.Topic, Partition: tp.Partition, Offset: o, Epoch: history.Unknown})
	}
	e = m.Begin(e)
	once, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	err := m.consumer.CommitOffsets(once, offsets)
	if err != nil {
		err = fmt.Errorf("native: %w", err)
	}
	m.End(e, err)
}
