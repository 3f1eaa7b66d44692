package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/record"
)

// OffsetForLeaderEpoch (23), versions 2 to 4: where a leader epoch ends in the log. Consumers ask after a change of leader, to find out whether what they have
// read was cut off (KIP-320).
//
// v2 the client's current epoch; v3 a replica id; v4 flexible.
func (c *conn) offsetForLeaderEpoch(ctx context.Context, req *kmsg.OffsetForLeaderEpochRequest, s *slot) (*kmsg.OffsetForLeaderEpochResponse, error) {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	ctx, cancel := context.WithTimeout(ctx, partitionsWait)
	defer cancel()
	for i := range req.Topics {
		t := kmsg.NewOffsetForLeaderEpochResponseTopic()
		t.Topic = req.Topics[i].Topic
		for k := range req.Topics[i].Partitions {
			in := &req.Topics[i].Partitions[k]
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition = in.Partition
			end, err := c.s.broker.EpochEnd(ctx, broker.TopicRef{Name: t.Topic}, in.Partition, record.LeaderEpoch(in.CurrentLeaderEpoch), record.LeaderEpoch(in.LeaderEpoch))
			p.LeaderEpoch, p.EndOffset = int32(end.Epoch), int64(end.End)
			if p.ErrorCode, _ = refused(err); p.ErrorCode != errNone {
				s.outcome = errorLabel(p.ErrorCode)
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}
