package kafka

import (
	"cmp"
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// DescribeTopicPartitions (75), version 0: topics a page at a time, in the order of their names (KIP-966). A page ends at the client's limit or at
// maxDescribedPartitions; the cursor says where the next one begins. An empty list asks for all topics. It never creates one.
//
// The lists of eligible leaders are never null: Kafka's own tools cannot read that.

// maxDescribedPartitions bounds the partitions of one answer, as Kafka's max.request.partition.size.limit does.
const maxDescribedPartitions = 2000

func (c *conn) describeTopicPartitions(ctx context.Context, req *kmsg.DescribeTopicPartitionsRequest, s *slot) (*kmsg.DescribeTopicPartitionsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	names := map[string]bool{}
	for i := range req.Topics {
		name := req.Topics[i].Topic
		names[name] = true
		if _, ok := c.s.broker.Image().TopicByName(name); !ok {
			_, _ = c.s.broker.Topic(ctx, broker.TopicRef{Name: name}) // it waits for what was created a moment ago through another broker
		}
	}
	img := c.s.broker.Image()
	if len(req.Topics) == 0 {
		for t := range img.Topics() {
			names[t.Name] = true
		}
	}
	var sorted []string
	for name := range names {
		if req.Cursor == nil || name >= req.Cursor.Topic {
			sorted = append(sorted, name)
		}
	}
	slices.Sort(sorted)
	left := maxDescribedPartitions
	if l := int(req.ResponsePartitionLimit); l > 0 {
		left = min(left, l)
	}
	for _, name := range sorted {
		first := int32(0)
		if req.Cursor != nil && name == req.Cursor.Topic {
			first = max(0, req.Cursor.Partition)
		}
		if left == 0 {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: first}
			break
		}
		o, next := c.describedTopic(img, name, first, left)
		s.note(o.ErrorCode)
		left -= len(o.Partitions)
		resp.Topics = append(resp.Topics, o)
		if next > 0 {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: next}
			break
		}
	}
	return resp, nil
}

// describedTopic gives at most limit partitions of a topic from first on, and the next one, or 0 when there is none.
func (c *conn) describedTopic(img *cluster.Image, name string, first int32, limit int) (o kmsg.DescribeTopicPartitionsResponseTopic, next int32) {
	o = kmsg.NewDescribeTopicPartitionsResponseTopic()
	o.Topic, o.AuthorizedOperations = &name, allTopicOperations
	t, ok := img.TopicByName(name)
	if !ok {
		o.ErrorCode = errUnknownTopicOrPartition
		if cluster.ParseTopicName(name) != nil {
			o.ErrorCode = errInvalidTopic
		}
		return o, 0
	}
	o.TopicID = [16]byte(t.ID)
	for n, p := range img.PartitionsOf(t.ID) {
		if n >= first {
			o.Partitions = append(o.Partitions, c.describedPartition(img, n, p))
		}
	}
	slices.SortFunc(o.Partitions, func(a, b kmsg.DescribeTopicPartitionsResponseTopicPartition) int {
		return cmp.Compare(a.Partition, b.Partition)
	})
	if len(o.Partitions) > limit {
		next = o.Partitions[limit].Partition
		o.Partitions = o.Partitions[:limit]
	}
	return o, next
}

func (c *conn) describedPartition(img *cluster.Image, n int32, p *cluster.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	o := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	o.Partition, o.LeaderID, o.LeaderEpoch = n, int32(p.Leader), int32(p.LeaderEpoch)
	o.Replicas, o.ISR, o.EligibleLeaderReplicas = ids(p.Replicas), ids(p.ISR), ids(p.ELR)
	o.LastKnownELR, o.OfflineReplicas = []int32{}, []int32{}
	for _, r := range p.Replicas {
		if _, ok := c.broker(img, r); !ok {
			o.OfflineReplicas = append(o.OfflineReplicas, int32(r))
		}
	}
	if _, ok := c.broker(img, p.Leader); !ok { // clients want a leader that is in the list of brokers
		o.LeaderID = -1
	}
	return o
}
