package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/record"
)

// DeleteRecords (21), versions 0 to 2: makes an offset the first readable one; -1 is the high watermark (KIP-107). v2 is flexible.
func (c *conn) deleteRecords(ctx context.Context, req *kmsg.DeleteRecordsRequest, s *slot) (*kmsg.DeleteRecordsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	for i := range req.Topics {
		t := kmsg.NewDeleteRecordsResponseTopic()
		t.Topic = req.Topics[i].Topic
		for _, in := range req.Topics[i].Partitions {
			p := kmsg.NewDeleteRecordsResponseTopicPartition()
			p.Partition = in.Partition
			start, err := c.s.broker.DeleteRecords(ctx, broker.TopicRef{Name: t.Topic}, in.Partition, record.Offset(in.Offset))
			p.LowWatermark = int64(start)
			p.ErrorCode, _ = s.refuse(err)
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}
