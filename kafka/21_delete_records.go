package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/record"
)

// DeleteRecords (21), versions 0 to 2: makes an offset the first readable one; -1 is the high watermark (KIP-107). v2 is flexible.
//
// Of a partition that is named more than once the last offset counts, and there is one answer, as with Apache Kafka.
func (c *conn) deleteRecords(ctx context.Context, req *kmsg.DeleteRecordsRequest, s *slot) (*kmsg.DeleteRecordsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	last := map[partitionName]record.Offset{}
	for i := range req.Topics {
		for _, in := range req.Topics[i].Partitions {
			last[partitionName{req.Topics[i].Topic, in.Partition}] = record.Offset(in.Offset)
		}
	}
	for i := range req.Topics {
		t := kmsg.NewDeleteRecordsResponseTopic()
		t.Topic = req.Topics[i].Topic
		for _, in := range req.Topics[i].Partitions {
			name := partitionName{t.Topic, in.Partition}
			before, there := last[name]
			if !there { // is answered
				continue
			}
			delete(last, name)
			p := kmsg.NewDeleteRecordsResponseTopicPartition()
			p.Partition = in.Partition
			start, err := c.s.broker.DeleteRecords(ctx, broker.TopicRef{Name: t.Topic}, in.Partition, before)
			p.LowWatermark = int64(start)
			p.ErrorCode, _ = s.refuse(err)
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}
