package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// Metadata (3), versions 0 to 13: brokers, topics, and who leads what.
//
// v1 racks, controller; v2 cluster id; v4 a flag for auto-creation, which earlier versions imply; v5 offline replicas; v7 leader epochs (KIP-320); v8 authorized
// operations (KIP-430); v9 flexible; v10 topic ids (KIP-516); v12 topics by id; v13 a top-level error (KIP-1102).
//
// Version 0 asks for all topics with an empty list, later ones with null.

// allTopicOperations are the bits of the operations on a topic: everybody may do everything while there is no authorization. Read to AlterConfigs, as Kafka
// numbers them.
const (
	allTopicOperations   int32 = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	allClusterOperations int32 = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
	allGroupOperations   int32 = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11
)

func (c *conn) metadata(ctx context.Context, req *kmsg.MetadataRequest, s *slot) (*kmsg.MetadataResponse, error) {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	create := req.AllowAutoTopicCreation || req.Version < 4
	var topics []kmsg.MetadataResponseTopic
	asked := distinct(req.Topics, func(t *kmsg.MetadataRequestTopic) broker.TopicRef {
		if t.TopicID != [16]byte{} { // the name is not looked at then
			return broker.TopicRef{ID: t.TopicID}
		}
		return broker.TopicRef{Name: text(t.Topic)}
	})
	for i := range asked {
		topics = append(topics, c.namedTopic(ctx, &asked[i], create))
	}
	img := c.s.broker.Image() // after creations and catching up: the answer is one view
	for i := range topics {
		if topics[i].ErrorCode == errNone {
			c.describeTopic(img, &topics[i])
		}
		if topics[i].ErrorCode != errNone {
			s.outcome = errorLabel(topics[i].ErrorCode)
		}
	}
	if req.Topics == nil || (req.Version == 0 && len(req.Topics) == 0) {
		for t := range img.Topics() {
			out := kmsg.NewMetadataResponseTopic()
			out.Topic, out.TopicID = kmsg.StringPtr(t.Name), [16]byte(t.ID)
			c.describeTopic(img, &out)
			topics = append(topics, out)
		}
	}
	if req.IncludeTopicAuthorizedOperations {
		for i := range topics {
			topics[i].AuthorizedOperations = allTopicOperations
		}
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = allClusterOperations
	}
	resp.Topics = topics
	c.describeBrokers(img, resp)
	return resp, nil
}

// namedTopic finds a topic that was asked for, or says why not. Its partitions are filled in later.
func (c *conn) namedTopic(ctx context.Context, in *kmsg.MetadataRequestTopic, create bool) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = in.Topic, in.TopicID
	ref := broker.TopicRef{ID: cluster.TopicID(in.TopicID)}
	if ref.ID.IsZero() && in.Topic != nil {
		ref.Name = *in.Topic
	}
	var t *cluster.Topic
	var err error
	switch {
	case !ref.ID.IsZero():
		t, err = c.s.broker.Topic(ctx, ref)
		if err != nil {
			out.ErrorCode = errUnknownTopicID
			return out
		}
	case create:
		t, err = c.s.broker.TopicOrNew(ctx, ref.Name)
	default:
		t, err = c.s.broker.Topic(ctx, ref)
	}
	if err == nil {
		out.Topic, out.TopicID = kmsg.StringPtr(t.Name), [16]byte(t.ID)
		return out
	}
	out.ErrorCode = wire(broker.AsRefusal(err).Code)
	if nameErr := cluster.ParseTopicName(ref.Name); nameErr != nil {
		out.ErrorCode = errInvalidTopic
	}
	return out
}

func (c *conn) describeTopic(img *cluster.Image, out *kmsg.MetadataResponseTopic) {
	t, ok := img.Topic(cluster.TopicID(out.TopicID))
	if !ok { // deleted a moment ago
		out.ErrorCode = errUnknownTopicOrPartition
		return
	}
	for n, p := range img.PartitionsOf(t.ID) {
		o := kmsg.NewMetadataResponseTopicPartition()
		o.Partition, o.Leader, o.LeaderEpoch = n, int32(p.Leader), int32(p.LeaderEpoch)
		o.Replicas, o.ISR, o.OfflineReplicas = ids(p.Replicas), ids(p.ISR), []int32{}
		for _, r := range p.Replicas {
			if _, ok := c.broker(img, r); !ok {
				o.OfflineReplicas = append(o.OfflineReplicas, int32(r))
			}
		}
		if _, ok := c.broker(img, p.Leader); !ok { // clients want a leader that is in the list of brokers
			o.ErrorCode, o.Leader = errLeaderNotAvailable, -1
		}
		out.Partitions = append(out.Partitions, o)
	}
}

func (c *conn) describeBrokers(img *cluster.Image, resp *kmsg.MetadataResponse) {
	id := img.ClusterID().String()
	resp.ClusterID = &id
	resp.ControllerID = -1
	controller, known := c.s.broker.Controller()
	for b := range img.Brokers() {
		if b, ok := c.broker(img, b.ID); ok {
			o := kmsg.NewMetadataResponseBroker()
			o.NodeID = int32(b.ID)
			o.Host, o.Port, _ = c.endpoint(b)
			if b.Rack != "" {
				o.Rack = &b.Rack
			}
			resp.Brokers = append(resp.Brokers, o)
			if known && b.ID == controller {
				resp.ControllerID = o.NodeID
			}
		}
	}
}

func ids(in []cluster.BrokerID) []int32 {
	out := make([]int32, len(in))
	for i, id := range in {
		out[i] = int32(id)
	}
	return out
}

// wireTopic is wire for a request that may name its topic by id: an id that is not there has an error of its own.
func (c *conn) wireTopic(ref broker.TopicRef, code cluster.Code) int16 {
	if code == cluster.CodeUnknownTopic && !ref.ID.IsZero() {
		if _, ok := c.s.broker.Image().Topic(ref.ID); !ok {
			return errUnknownTopicID
		}
	}
	return wire(code)
}
