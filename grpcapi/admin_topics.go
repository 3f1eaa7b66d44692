package grpcapi

import (
	"context"
	"math"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// adminService implements moldau.v1.AdminService.
type adminService struct {
	moldauv1.UnimplementedAdminServiceServer
	*Server
}

// CreateTopic creates a topic.
func (a *adminService) CreateTopic(ctx context.Context, req *moldauv1.CreateTopicRequest) (*moldauv1.CreateTopicResponse, error) {
	if req.GetReplicationFactor() > math.MaxInt16 {
		return nil, cluster.Refuse(cluster.CodeInvalidReplication, "replication_factor is too large")
	}
	spec := broker.TopicSpec{
		Name: req.GetTopic(), Partitions: orDefault(req.GetPartitions()), ReplicationFactor: int16(orDefault(req.GetReplicationFactor())),
		Assignment: assignment(req.GetAssignment()), ValidateOnly: req.GetValidateOnly(),
	}
	for _, c := range req.GetConfigs() {
		spec.Configs = spec.Configs.With(c.GetKey(), c.GetValue())
	}
	created, err := a.broker.CreateTopic(ctx, spec)
	if err != nil {
		return nil, err
	}
	resp := &moldauv1.CreateTopicResponse{
		Topic: created.Topic.Name, Partitions: created.Topic.Partitions, ReplicationFactor: int32(created.Topic.ReplicationFactor), Notes: created.Notes,
	}
	if !created.Topic.ID.IsZero() {
		resp.TopicId = created.Topic.ID.String()
	}
	return resp, nil
}

// orDefault is the broker's form of a number that may be left out.
func orDefault(n int32) int32 {
	if n == 0 {
		return -1
	}
	return n
}

func assignment(in []*moldauv1.Replicas) [][]cluster.BrokerID {
	if len(in) == 0 {
		return nil
	}
	out := make([][]cluster.BrokerID, len(in))
	for i, r := range in {
		out[i] = fromBrokerIDs(r.GetReplicas())
	}
	return out
}

// DeleteTopic removes a topic.
func (a *adminService) DeleteTopic(ctx context.Context, req *moldauv1.DeleteTopicRequest) (*moldauv1.DeleteTopicResponse, error) {
	ref, err := topicRef(req.GetTopic(), req.GetTopicId())
	if err != nil {
		return nil, err
	}
	return &moldauv1.DeleteTopicResponse{}, a.broker.DeleteTopic(ctx, ref)
}

// ListTopics lists topics.
func (a *adminService) ListTopics(context.Context, *moldauv1.ListTopicsRequest) (*moldauv1.ListTopicsResponse, error) {
	resp := &moldauv1.ListTopicsResponse{}
	img := a.broker.Image()
	for t := range img.Topics() {
		resp.Topics = append(resp.Topics, &moldauv1.TopicListing{
			Topic: t.Name, TopicId: t.ID.String(), Partitions: t.Partitions, ReplicationFactor: int32(img.ReplicationFactor(t)), CreatedMs: t.CreatedMs,
		})
	}
	return resp, nil
}

// DescribeTopics tells partitions from one image, and, on request, what the leaders say of them.
func (a *adminService) DescribeTopics(ctx context.Context, req *moldauv1.DescribeTopicsRequest) (*moldauv1.DescribeTopicsResponse, error) {
	resp := &moldauv1.DescribeTopicsResponse{}
	var refused []*moldauv1.TopicDescription // by position; nil where the topic is known
	var topics []*cluster.Topic
	for _, r := range req.GetTopics() {
		ref, err := topicRef(r.GetTopic(), r.GetTopicId())
		var t *cluster.Topic
		if err == nil {
			t, err = a.broker.Topic(ctx, ref)
		}
		topics = append(topics, t)
		var d *moldauv1.TopicDescription
		if err != nil {
			d = &moldauv1.TopicDescription{Topic: r.GetTopic(), TopicId: r.GetTopicId(), Error: a.refusal(ctx, broker.AsRefusal(err))}
		}
		refused = append(refused, d)
	}
	img := a.broker.Image() // taken after waiting for topics, so that it has them
	if len(req.GetTopics()) == 0 {
		for t := range img.Topics() {
			topics, refused = append(topics, t), append(refused, nil)
		}
	}
	for i, t := range topics {
		if refused[i] != nil {
			resp.Topics = append(resp.Topics, refused[i])
			continue
		}
		if now, ok := img.Topic(t.ID); ok {
			t = now
		}
		resp.Topics = append(resp.Topics, describeTopic(img, t))
	}
	if req.GetWithStatus() {
		a.addStatus(ctx, img, resp.GetTopics())
	}
	resp.Brokers = a.describeBrokers(ctx, img, nil)
	return resp, nil
}

func describeTopic(img *cluster.Image, t *cluster.Topic) *moldauv1.TopicDescription {
	d := &moldauv1.TopicDescription{Topic: t.Name, TopicId: t.ID.String(), ReplicationFactor: int32(img.ReplicationFactor(t)), CreatedMs: t.CreatedMs}
	for _, c := range t.Configs {
		d.Configs = append(d.Configs, &moldauv1.ConfigEntry{Key: c.Key, Value: c.Value})
	}
	for n, p := range img.PartitionsOf(t.ID) {
		d.MinIsr = int32(img.MinISR(t, p))
		d.Partitions = append(d.Partitions, &moldauv1.PartitionDescription{
			Partition: n, Leader: int32(p.Leader), LeaderEpoch: int32(p.LeaderEpoch), PartitionEpoch: int32(p.PartitionEpoch),
			Replicas: brokerIDs(p.Replicas), Isr: brokerIDs(p.ISR), Elr: brokerIDs(p.ELR), Adding: brokerIDs(p.Adding), Removing: brokerIDs(p.Removing),
			LastLeader: int32(p.LastLeader),
		})
	}
	return d
}

// addStatus asks the leaders of all partitions at once.
func (a *adminService) addStatus(ctx context.Context, img *cluster.Image, topics []*moldauv1.TopicDescription) {
	var tps []cluster.TopicPartition
	var into []*moldauv1.PartitionDescription
	for _, d := range topics {
		id, err := cluster.ParseUUID(d.GetTopicId())
		if err != nil || d.GetError() != nil {
			continue
		}
		for _, p := range d.GetPartitions() {
			tps, into = append(tps, cluster.TopicPartition{Topic: id, Partition: p.GetPartition()}), append(into, p)
		}
	}
	for i, st := range a.broker.PartitionStatus(ctx, tps) {
		if !st.Leading && st.Offline == "" {
			continue // a follower's view would be taken for the leader's
		}
		into[i].Status = &moldauv1.PartitionStatus{
			LogStartOffset: int64(st.LogStart), LogEndOffset: int64(st.LogEnd), FlushedOffset: int64(st.Flushed), HighWatermark: int64(st.HighWatermark),
			SizeBytes: st.SizeBytes, Offline: st.Offline,
		}
	}
}

// AddPartitions grows a topic.
func (a *adminService) AddPartitions(ctx context.Context, req *moldauv1.AddPartitionsRequest) (*moldauv1.AddPartitionsResponse, error) {
	ref, err := topicRef(req.GetTopic(), req.GetTopicId())
	if err != nil {
		return nil, err
	}
	return &moldauv1.AddPartitionsResponse{}, a.broker.AddPartitions(ctx, ref, req.GetPartitions(), assignment(req.GetAssignment()))
}

// DeleteRecords moves the log start of a partition up.
func (a *adminService) DeleteRecords(ctx context.Context, req *moldauv1.DeleteRecordsRequest) (*moldauv1.DeleteRecordsResponse, error) {
	ref, err := topicRef(req.GetTopic(), req.GetTopicId())
	if err != nil {
		return nil, err
	}
	start, err := a.broker.DeleteRecords(ctx, ref, req.GetPartition(), record.Offset(req.GetBeforeOffset()))
	if err != nil {
		return nil, err
	}
	return &moldauv1.DeleteRecordsResponse{LogStartOffset: int64(start)}, nil
}
