package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
)

// firstCommitByID is the version that brought topic ids.
const firstCommitByID = 10

// OffsetCommit (8), versions 1 to 10: stores where a group goes on reading.
//
// v1 members; v2 to v4 a retention time, which is ignored as Kafka does since KIP-211; v6 leader epochs (KIP-320); v7 static members (KIP-345); v8 flexible; v9
// member epochs (KIP-848); v10 topic ids.
//
// Generation -1 without a member is a commit for nobody: it makes a group that has only offsets.
func (c *conn) offsetCommit(ctx context.Context, req *kmsg.OffsetCommitRequest, s *slot) (*kmsg.OffsetCommitResponse, error) {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	commit := consumergroup.CommitRequest{Group: req.Group, MemberID: req.MemberID, InstanceID: text(req.InstanceID), Epoch: req.Generation}
	var at []*int16 // where the code of each committed partition goes
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	for i := range req.Topics {
		in, out := &req.Topics[i], &resp.Topics[i]
		out.Topic, out.TopicID = in.Topic, in.TopicID
		out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(in.Partitions))
		t, refused := c.topicOf(ctx, in.TopicID, in.Topic)
		if req.Version >= firstCommitByID && in.TopicID == [16]byte{} {
			t, refused = nil, errUnknownTopicID
		}
		for k := range in.Partitions {
			p, o := &in.Partitions[k], &out.Partitions[k]
			o.Partition, o.ErrorCode = p.Partition, refused
			if t == nil {
				continue
			}
			if p.Partition < 0 || p.Partition >= t.Partitions {
				o.ErrorCode = errUnknownTopicOrPartition
				continue
			}
			commit.Offsets = append(commit.Offsets, consumergroup.CommitOffset{
				Partition: cluster.TopicPartition{Topic: t.ID, Partition: p.Partition}, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: text(p.Metadata),
			})
			at = append(at, &o.ErrorCode)
		}
	}
	codes, err := c.s.groups.Commit(ctx, commit) // also without offsets: the member is checked
	whole, _ := s.coordinatorError(err)
	if whole == errUnknownMemberID && req.Generation >= 0 {
		whole = s.note(c.noSuchGroup(ctx, req))
	}
	for i, code := range at {
		*code = whole
		if err == nil && i < len(codes) {
			*code = s.note(wireGroup(codes[i]))
		}
	}
	return resp, nil
}

// noSuchGroup is what a member of a group that is not there is told: the group's name is wrong, or, before version 9, its generation is.
func (c *conn) noSuchGroup(ctx context.Context, req *kmsg.OffsetCommitRequest) int16 {
	_, err := c.s.groups.Describe(ctx, req.Group)
	switch {
	case err == nil || broker.AsRefusal(err).Code != cluster.CodeUnknownGroup:
		return errUnknownMemberID
	case req.Version < 9:
		return errIllegalGeneration
	}
	return errGroupIDNotFound
}
