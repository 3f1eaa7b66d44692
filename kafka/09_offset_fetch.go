package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
)

// OffsetFetch (9), versions 1 to 10: where a group goes on reading.
//
// v2 null asks for all, a top-level error (KIP-88); v5 leader epochs (KIP-320); v6 flexible; v7 stable offsets (KIP-447), which all are without transactions; v8
// many groups (KIP-709); v9 member epochs (KIP-848); v10 topic ids.
//
// A group or partition without a commit has offset -1 and no error. What is asked for twice is answered once: metadata of a few kilobytes would come back for each four bytes.
func (c *conn) offsetFetch(ctx context.Context, req *kmsg.OffsetFetchRequest, s *slot) (*kmsg.OffsetFetchResponse, error) {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if req.Version >= 8 {
		asked := distinct(req.Groups, func(g *kmsg.OffsetFetchRequestGroup) string { return g.Group })
		for i := range asked {
			g := c.groupOffsets(ctx, &asked[i], s)
			if g.ErrorCode != errNone { // for the whole group
				g.Topics = nil
			}
			resp.Groups = append(resp.Groups, g)
		}
		return resp, nil
	}
	in := kmsg.NewOffsetFetchRequestGroup()
	in.Group = req.Group
	if req.Topics != nil || req.Version < 2 {
		in.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for i := range req.Topics {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = req.Topics[i].Topic, req.Topics[i].Partitions
		in.Topics = append(in.Topics, t)
	}
	g := c.groupOffsets(ctx, &in, s)
	resp.ErrorCode = g.ErrorCode
	if g.ErrorCode != errNone && req.Version >= 2 {
		return resp, nil
	}
	for i := range g.Topics {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = g.Topics[i].Topic
		for _, p := range g.Topics[i].Partitions {
			o := kmsg.NewOffsetFetchResponseTopicPartition()
			o.Partition, o.Offset, o.LeaderEpoch, o.Metadata, o.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			t.Partitions = append(t.Partitions, o)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// groupOffsets answers for one group; nil topics ask for all that is committed.
func (c *conn) groupOffsets(ctx context.Context, in *kmsg.OffsetFetchRequestGroup, s *slot) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = in.Group
	ask := consumergroup.FetchOffsetsRequest{Group: in.Group, MemberID: text(in.MemberID), Epoch: in.MemberEpoch}
	if ask.MemberID == "" {
		ask.Epoch = consumergroup.NoMemberEpoch
	}
	var at []*kmsg.OffsetFetchResponseGroupTopicPartition // where each answer goes
	if in.Topics != nil {
		ask.Partitions = []cluster.TopicPartition{}
	}
	namedOnce(in)
	out.Topics = make([]kmsg.OffsetFetchResponseGroupTopic, len(in.Topics))
	for i := range in.Topics {
		t, o := &in.Topics[i], &out.Topics[i]
		o.Topic, o.TopicID = t.Topic, t.TopicID
		o.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(t.Partitions))
		topic, refused := c.lookupTopic(t.TopicID, t.Topic)
		for k, n := range t.Partitions {
			p := &o.Partitions[k]
			p.Default()
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = n, -1, -1, kmsg.StringPtr(""), refused
			if topic != nil {
				ask.Partitions = append(ask.Partitions, cluster.TopicPartition{Topic: topic.ID, Partition: n})
				at = append(at, p)
			}
		}
	}
	offsets, err := c.s.groups.FetchOffsets(ctx, ask)
	if err != nil {
		out.ErrorCode, _ = s.coordinatorError(err)
		for i := range out.Topics { // versions 0 and 1 have no other place for it
			for k := range out.Topics[i].Partitions {
				out.Topics[i].Partitions[k].ErrorCode = out.ErrorCode
			}
		}
		return out
	}
	for i, p := range at {
		if i < len(offsets) && offsets[i].Found {
			fillOffset(p, &offsets[i])
		}
	}
	if in.Topics == nil {
		c.allOffsets(offsets, &out)
	}
	return out
}

// namedOnce drops partitions from where a request names them again.
func namedOnce(in *kmsg.OffsetFetchRequestGroup) {
	named := map[partitionKey]bool{}
	for i := range in.Topics {
		t := &in.Topics[i]
		t.Partitions = slices.DeleteFunc(t.Partitions, func(n int32) bool {
			key := partitionKey{id: t.TopicID, name: t.Topic, partition: n}
			repeated := named[key]
			named[key] = true
			return repeated
		})
	}
}

// lookupTopic finds a topic without waiting for it. One that is not there has no commits, which is no error when it was asked for by name.
func (c *conn) lookupTopic(id [16]byte, name string) (*cluster.Topic, int16) {
	img := c.s.broker.Image()
	if topic := cluster.TopicID(id); !topic.IsZero() {
		if t, ok := img.Topic(topic); ok {
			return t, errNone
		}
		return nil, errUnknownTopicID
	}
	t, _ := img.TopicByName(name)
	return t, errNone
}

func fillOffset(p *kmsg.OffsetFetchResponseGroupTopicPartition, o *consumergroup.FetchedOffset) {
	p.Partition, p.Offset, p.LeaderEpoch = o.Partition.Partition, int64(o.Committed.Offset), int32(o.Committed.LeaderEpoch)
	p.Metadata = kmsg.StringPtr(o.Committed.Metadata)
}

// allOffsets groups what the coordinator knows, ordered by partition, by topic.
func (c *conn) allOffsets(offsets []consumergroup.FetchedOffset, out *kmsg.OffsetFetchResponseGroup) {
	img := c.s.broker.Image()
	for i := range offsets {
		t, ok := img.Topic(offsets[i].Partition.Topic)
		if !ok || !offsets[i].Found {
			continue
		}
		if n := len(out.Topics); n == 0 || out.Topics[n-1].TopicID != [16]byte(t.ID) {
			o := kmsg.NewOffsetFetchResponseGroupTopic()
			o.Topic, o.TopicID = t.Name, [16]byte(t.ID)
			out.Topics = append(out.Topics, o)
		}
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		fillOffset(&p, &offsets[i])
		last := &out.Topics[len(out.Topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
}
