package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
)

// DescribeProducers (61), version 0: the producers that the leader of a partition remembers, idempotent ones included (KIP-664). There are no transactions, so
// none is open.

func (c *conn) describeProducers(ctx context.Context, req *kmsg.DescribeProducersRequest, s *slot) (*kmsg.DescribeProducersResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	ctx, cancel := context.WithTimeout(ctx, partitionsWait)
	defer cancel()
	asked := distinct(req.Topics, func(t *kmsg.DescribeProducersRequestTopic) string { return t.Topic })
	for i := range asked {
		in := &asked[i]
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = in.Topic
		for _, n := range distinct(in.Partitions, func(n *int32) int32 { return *n }) {
			o := kmsg.NewDescribeProducersResponseTopicPartition()
			o.Partition, o.ActiveProducers = n, []kmsg.DescribeProducersResponseTopicPartitionActiveProducer{}
			list, err := c.s.broker.Producers(ctx, broker.TopicRef{Name: in.Topic}, n)
			o.ErrorCode, o.ErrorMessage = s.refuse(err)
			for _, p := range list {
				a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				a.ProducerID, a.ProducerEpoch, a.LastSequence, a.LastTimestamp = int64(p.ID), int32(p.Epoch), int32(p.LastSequence), p.LastMs
				a.CoordinatorEpoch, a.CurrentTxnStartOffset = -1, -1
				o.ActiveProducers = append(o.ActiveProducers, a)
			}
			out.Partitions = append(out.Partitions, o)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
