package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// ElectLeaders (43), versions 0 to 2: gives partitions their preferred leader, or, with type 1, partitions without a leader any live replica, which can lose
// acknowledged records (KIP-460). v2 is flexible. Null asks for all partitions; those that need no election are then left out of the answer.
const electionUnclean int8 = 1

func (c *conn) electLeaders(ctx context.Context, req *kmsg.ElectLeadersRequest, s *slot) (*kmsg.ElectLeadersResponse, error) {
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	if req.ElectionType != 0 && req.ElectionType != electionUnclean {
		resp.ErrorCode = s.note(errInvalidRequest)
		return resp, nil
	}
	var partitions []cluster.TopicPartition
	var names []string
	img := c.s.broker.Image()
	if req.Topics == nil {
		for t := range img.Topics() {
			for n := range img.PartitionsOf(t.ID) {
				partitions, names = append(partitions, cluster.TopicPartition{Topic: t.ID, Partition: n}), append(names, t.Name)
			}
		}
	}
	for i := range req.Topics {
		t, err := c.s.broker.Topic(ctx, broker.TopicRef{Name: req.Topics[i].Topic})
		for _, n := range req.Topics[i].Partitions {
			tp := cluster.TopicPartition{Partition: n} // the zero id is refused as unknown
			if err == nil {
				tp.Topic = t.ID
			}
			partitions, names = append(partitions, tp), append(names, req.Topics[i].Topic)
		}
	}
	if len(partitions) == 0 {
		return resp, nil
	}
	items, err := c.s.broker.ElectLeaders(ctx, partitions, req.ElectionType == electionUnclean)
	if err != nil {
		resp.ErrorCode, _ = s.refuse(err)
		return resp, nil
	}
	elected(resp, items, partitions, names, req.Topics == nil)
	return resp, nil
}

func elected(resp *kmsg.ElectLeadersResponse, items []cluster.ItemResult, partitions []cluster.TopicPartition, names []string, all bool) {
	for i := range items {
		if all && items[i].Code == cluster.CodeElectionNotNeeded {
			continue
		}
		p := kmsg.NewElectLeadersResponseTopicPartition()
		p.Partition, p.ErrorCode = partitions[i].Partition, wire(items[i].Code)
		if items[i].Code == cluster.CodeNoEligibleLeader {
			p.ErrorCode = errPreferredLeaderNotAvail
		}
		if p.ErrorCode != errNone {
			p.ErrorMessage = kmsg.StringPtr(items[i].Code.String())
		}
		if n := len(resp.Topics); n == 0 || resp.Topics[n-1].Topic != names[i] {
			t := kmsg.NewElectLeadersResponseTopic()
			t.Topic = names[i]
			resp.Topics = append(resp.Topics, t)
		}
		t := &resp.Topics[len(resp.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
}
