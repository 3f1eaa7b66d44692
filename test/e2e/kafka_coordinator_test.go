package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A coordinator dies while a classic group joins: one member is in generation 1 and has committed, a second one waits for it to join again. Both must find the
// next coordinator by themselves, get into one generation above the first, and find the commit. The metadata quorum is asked for on the way, of every broker.

func TestCase83_KafkaCoordinatorMovesDuringJoin(t *testing.T) {
	c := Start(t, 3)
	ctx := kafkaContext(t)
	client := kafkaClient(t, c)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, 3, nil, "case83"); err != nil {
		t.Fatal(err)
	}
	first := &rawMember{t: t, client: client, group: "case83", session: 30 * time.Second}
	first.join(ctx)
	if code := first.commit(ctx, "case83", 0, 7); code != 0 {
		t.Fatalf("commit: %v", kerr.ErrorForCode(code))
	}
	if first.generation != 1 {
		t.Fatalf("the first generation is %d", first.generation)
	}
	found := admin.FindGroupCoordinators(ctx, "case83")["case83"]
	if found.Err != nil {
		t.Fatal(found.Err)
	}
	describeQuorum(ctx, t, c)

	second := &joiner{t: t, cluster: c, member: &rawMember{t: t, client: kafkaClient(t, c), group: "case83", session: 30 * time.Second}}
	joined := second.start(ctx)
	eventually(ctx, t, "a rebalance", func() bool {
		groups, err := admin.DescribeGroups(ctx, "case83")
		return err == nil && groups["case83"].State == "PreparingRebalance"
	})
	c.Brokers[found.NodeID].Kill()
	again := &joiner{t: t, cluster: c, member: first}
	eventually(ctx, t, "the second member's join", func() bool {
		select {
		case err := <-joined:
			if err != nil {
				t.Fatal(err)
			}
			return true
		default:
		}
		// The first one joins again as often as its group waits for it, as a client does that its heartbeats tell.
		groups, err := admin.DescribeGroups(ctx, "case83")
		if err != nil || groups["case83"].Err != nil {
			admin = kadm.NewClient(kafkaClient(t, c))
			return false
		}
		if groups["case83"].State == "PreparingRebalance" {
			if err := again.run(ctx); err != nil {
				t.Fatal(err)
			}
		}
		return false
	})
	if second.generation != again.generation || second.generation <= 1 {
		t.Errorf("joined in the generations %d and %d", again.generation, second.generation)
	}
	offsets, err := admin.FetchOffsets(ctx, "case83")
	if o, ok := offsets.Lookup("case83", 0); err != nil || !ok || o.At != 7 {
		t.Errorf("committed %+v, %v", o, err)
	}
	c.Brokers[found.NodeID].Start()
	c.WaitHealthy()
}

// joiner joins until it is in a generation, as a client does: it looks for the coordinator again, and begins anew when it is not known.
type joiner struct {
	t          *testing.T
	cluster    *Cluster
	member     *rawMember
	generation int32
}

func (j *joiner) start(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- j.run(ctx) }()
	return done
}

func (j *joiner) run(ctx context.Context) error {
	for {
		resp, err := j.member.request().RequestWith(ctx, j.member.client)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		switch {
		case err == nil:
			j.generation = resp.Generation
			return nil
		case errors.Is(err, kerr.MemberIDRequired):
			j.member.id = resp.MemberID
		case errors.Is(err, kerr.UnknownMemberID):
			j.member.id = ""
		case kerr.IsRetriable(err), resp == nil: // the connection broke, or the next coordinator is not there yet
			if resp == nil { // a client remembers the coordinator that it cannot reach
				j.member.client = kafkaClient(j.t, j.cluster)
			}
			select {
			case <-time.After(poll):
			case <-ctx.Done():
			}
		default:
			return err
		}
	}
}

// describeQuorum asks each broker who keeps the metadata: all say the same, and know how far each is.
func describeQuorum(ctx context.Context, t *testing.T, c *Cluster) {
	t.Helper()
	client := kafkaClient(t, c)
	for _, b := range c.Brokers {
		eventually(ctx, t, "the quorum", func() bool {
			req := kmsg.NewPtrDescribeQuorumRequest()
			topic := kmsg.NewDescribeQuorumRequestTopic()
			topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{kmsg.NewDescribeQuorumRequestTopicPartition()}
			req.Topics = append(req.Topics, topic)
			raw, err := client.Broker(b.ID).Request(ctx, req)
			if err != nil {
				return false
			}
			p := raw.(*kmsg.DescribeQuorumResponse).Topics[0].Partitions[0]
			known := 0
			for _, v := range p.CurrentVoters {
				if v.LogEndOffset > 0 && v.LastFetchTimestamp > 0 {
					known++
				}
			}
			return p.ErrorCode == 0 && p.LeaderID >= 0 && p.LeaderEpoch > 0 && len(p.CurrentVoters) == 3 && known == 3
		})
	}
}
