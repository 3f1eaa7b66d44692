package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/config"
)

// Answers as Apache Kafka gives them; test/differential has found where they were not.

// wantCode compares an error code.
func (b *broker) wantCode(what string, got int16, want error) {
	b.t.Helper()
	if err := kerr.ErrorForCode(got); err != want {
		b.t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestProduce_DoesNotCreateATopic(t *testing.T) {
	b := start(t, func(c *config.Config) { c.Topic.AutoCreate = true })
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	topic, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	topic.Topic, p.Records = "gone", sent{id: -1, values: []string{"v"}}.bytes(t)
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	b.wantCode("produce by name", ask[*kmsg.ProduceResponse](b, capped{req, 12}).Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
	names, err := b.admin.ListTopics(b.ctx)
	if err != nil || names.Has("gone") {
		t.Errorf("error %v; the topic is there: %v", err, names.Has("gone"))
	}
}

func TestFetch_ARefusalTellsNothingOfTheLog(t *testing.T) {
	b := start(t)
	req := kmsg.NewPtrFetchRequest()
	topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	topic.Topic, topic.TopicID, p.FetchOffset, p.PartitionMaxBytes = "t", b.topic, 99, 1000
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	got := ask[*kmsg.FetchResponse](b, req).Topics[0].Partitions[0]
	b.wantCode("fetch beyond the end", got.ErrorCode, kerr.OffsetOutOfRange)
	if got.HighWatermark != -1 || got.LastStableOffset != -1 || got.LogStartOffset != -1 {
		t.Errorf("watermark %d, last stable %d, log start %d; want -1 in all", got.HighWatermark, got.LastStableOffset, got.LogStartOffset)
	}
	req.Topics[0].TopicID = [16]byte{}
	b.wantCode("fetch of a zero id", ask[*kmsg.FetchResponse](b, req).Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicID)
}

func TestListOffsets_SpecialTimestampsBelongToVersions(t *testing.T) {
	b := start(t)
	for _, c := range []struct {
		timestamp int64
		version   int16
		want      error
	}{
		{-3, 6, kerr.UnsupportedVersion}, {-3, 7, nil}, {-4, 7, kerr.UnsupportedVersion}, {-4, 8, nil}, {-5, 8, kerr.UnsupportedVersion}, {-5, 9, nil},
		{-6, 10, kerr.UnsupportedVersion}, {-7, 10, kerr.UnsupportedVersion}, {-1, 1, nil},
	} {
		req := kmsg.NewPtrListOffsetsRequest()
		topic, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		topic.Topic, p.Timestamp = "t", c.timestamp
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
		got := ask[*kmsg.ListOffsetsResponse](b, capped{req, c.version}).Topics[0].Partitions
		b.wantCode("timestamp", got[0].ErrorCode, c.want)
		if c.want != nil && got[0].Offset != -1 {
			t.Errorf("timestamp %d, version %d: offset %d beside an error", c.timestamp, c.version, got[0].Offset)
		}
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		if got := ask[*kmsg.ListOffsetsResponse](b, req).Topics[0].Partitions; len(got) != 1 || kerr.ErrorForCode(got[0].ErrorCode) != kerr.InvalidRequest {
			t.Errorf("a partition named twice: %+v", got)
		}
	}
}

func TestAdmin_WhatIsNamedTwiceIsRefused(t *testing.T) {
	b := start(t)
	remove := kmsg.NewPtrDeleteTopicsRequest()
	for range 2 {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = kmsg.StringPtr("t")
		remove.Topics = append(remove.Topics, topic)
	}
	grow := kmsg.NewPtrCreatePartitionsRequest()
	for range 2 {
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = "t", 3
		grow.Topics = append(grow.Topics, topic)
	}
	removed, grown := ask[*kmsg.DeleteTopicsResponse](b, remove).Topics, ask[*kmsg.CreatePartitionsResponse](b, grow).Topics
	if len(removed) != 1 || len(grown) != 1 {
		t.Fatalf("%d and %d answers, want one", len(removed), len(grown))
	}
	b.wantCode("delete", removed[0].ErrorCode, kerr.InvalidRequest)
	b.wantCode("grow", grown[0].ErrorCode, kerr.InvalidRequest)
	remove.Topics = remove.Topics[:1]
	remove.Topics[0].TopicID = b.topic
	b.wantCode("delete by name and id", ask[*kmsg.DeleteTopicsResponse](b, remove).Topics[0].ErrorCode, kerr.InvalidRequest)
	remove.Topics[0] = kmsg.NewDeleteTopicsRequestTopic()
	b.wantCode("delete of nothing", ask[*kmsg.DeleteTopicsResponse](b, remove).Topics[0].ErrorCode, kerr.InvalidRequest)
	metadata := kmsg.NewPtrMetadataRequest()
	for range 2 {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr("t")
		metadata.Topics = append(metadata.Topics, topic)
	}
	if got := ask[*kmsg.MetadataResponse](b, metadata).Topics; len(got) != 1 || len(got[0].Partitions) != 1 {
		t.Errorf("a topic asked for twice: %+v", got)
	}
}

// alter sends one change of t's configuration.
func (b *broker) alter(key string, op kmsg.IncrementalAlterConfigOp, values ...*string) int16 {
	b.t.Helper()
	req, r := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	for _, value := range values {
		r.Configs = append(r.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Op: op, Value: value})
	}
	req.Resources = append(req.Resources, r)
	return ask[*kmsg.IncrementalAlterConfigsResponse](b, req).Resources[0].ErrorCode
}

func TestConfigs_OddChanges(t *testing.T) {
	b := start(t)
	one := kmsg.StringPtr("1")
	b.wantCode("null", b.alter("retention.ms", kmsg.IncrementalAlterConfigOpSet, nil), kerr.InvalidRequest)
	b.wantCode("append null", b.alter("cleanup.policy", kmsg.IncrementalAlterConfigOpAppend, nil), kerr.InvalidRequest)
	b.wantCode("twice", b.alter("retention.ms", kmsg.IncrementalAlterConfigOpSet, one, one), kerr.InvalidRequest)
	b.wantCode("remove what does not exist", b.alter("no.such", kmsg.IncrementalAlterConfigOpDelete, nil), nil)
	b.wantCode("set what does not exist", b.alter("no.such", kmsg.IncrementalAlterConfigOpSet, one), kerr.InvalidConfig)

	describe := func(kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
		req, r := kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
		req.Resources, req.IncludeSynonyms = append(req.Resources, r), true
		return ask[*kmsg.DescribeConfigsResponse](b, req).Resources[0]
	}
	b.wantCode("a broker that is not there", describe(kmsg.ConfigResourceTypeBroker, "77").ErrorCode, kerr.InvalidRequest)
	if n := len(describe(kmsg.ConfigResourceTypeTopic, "t", []string{}...).Configs); n == 0 {
		t.Error("an empty list of names is not all")
	}
	if n := len(describe(kmsg.ConfigResourceTypeBroker, "").Configs); n != 0 {
		t.Errorf("%d values are the default of all brokers, and nothing is set", n)
	}
	for _, broker := range []string{"", "0"} {
		req, r := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, broker
		r.Configs = append(r.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "max.connections", Value: kmsg.StringPtr("500" + broker)})
		req.Resources = append(req.Resources, r)
		b.wantCode("broker "+broker, ask[*kmsg.IncrementalAlterConfigsResponse](b, req).Resources[0].ErrorCode, nil)
	}
	b.eventually("both values", func() bool {
		c := describe(kmsg.ConfigResourceTypeBroker, "0", "max.connections").Configs[0]
		return len(c.ConfigSynonyms) == 3 && *c.ConfigSynonyms[0].Value == "5000" && *c.ConfigSynonyms[1].Value == "500" && c.ConfigSynonyms[1].Source == kmsg.ConfigSourceDynamicDefaultBrokerConfig
	})
}

func TestCommit_ToAGroupWithoutMembers(t *testing.T) {
	b := start(t)
	if err := b.commit("simple", "", "anybody", -1, 1); err != nil {
		t.Errorf("generation -1 with a member's name: %v", err)
	}
	if err := b.commit("simple", "", "stranger", 3, 1); err != kerr.UnknownMemberID {
		t.Errorf("a generation of a group that has only offsets: %v", err)
	}
	for version, want := range map[int16]error{8: kerr.IllegalGeneration, 9: kerr.GroupIDNotFound} {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.MemberID, req.Generation = "never", "x", 3
		topic, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
		topic.Topic, topic.Partitions = "t", append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
		b.wantCode("a group that is not there", ask[*kmsg.OffsetCommitResponse](b, capped{req, version}).Topics[0].Partitions[0].ErrorCode, want)
		if version == 9 {
			b.wantCode("a zero id", ask[*kmsg.OffsetCommitResponse](b, req).Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicID)
		}
	}
}

func TestOffsetDelete_Refusals(t *testing.T) {
	b := start(t)
	if err := b.commit("g", "", "", -1, 1); err != nil {
		t.Fatal(err)
	}
	remove := func(group string) *kmsg.OffsetDeleteResponse {
		req, topic := kmsg.NewPtrOffsetDeleteRequest(), kmsg.NewOffsetDeleteRequestTopic()
		for _, n := range []int32{0, 9} {
			p := kmsg.NewOffsetDeleteRequestTopicPartition()
			p.Partition = n
			topic.Partitions = append(topic.Partitions, p)
		}
		topic.Topic = "t"
		req.Group, req.Topics = group, append(req.Topics, topic)
		return ask[*kmsg.OffsetDeleteResponse](b, req)
	}
	for group, want := range map[string]error{"never": kerr.GroupIDNotFound, "": kerr.InvalidGroupID} {
		got := remove(group)
		b.wantCode("group "+group, got.ErrorCode, want)
		if len(got.Topics) != 0 {
			t.Errorf("group %q: %d topics beside the refusal", group, len(got.Topics))
		}
	}
	got := remove("g").Topics[0].Partitions
	b.wantCode("a partition", got[0].ErrorCode, nil)
	b.wantCode("a partition that is not there", got[1].ErrorCode, kerr.UnknownTopicOrPartition)
}

func TestSync_NeedsItsProtocol(t *testing.T) {
	b := start(t)
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID = "g", "x"
	b.wantCode("without a protocol", ask[*kmsg.SyncGroupResponse](b, req).ErrorCode, kerr.InconsistentGroupProtocol)
	b.wantCode("without one before version 5", ask[*kmsg.SyncGroupResponse](b, capped{req, 4}).ErrorCode, kerr.UnknownMemberID)
}

func TestInitProducerID_NeedsBothOrNeither(t *testing.T) {
	b := start(t)
	ask := func(id int64, epoch int16, transactional *string) int16 {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch, req.TransactionalID = id, epoch, transactional
		return ask[*kmsg.InitProducerIDResponse](b, req).ErrorCode
	}
	b.wantCode("an epoch without an id", ask(-1, 3, nil), kerr.InvalidRequest)
	b.wantCode("an id without an epoch", ask(9, -1, nil), kerr.InvalidRequest)
	b.wantCode("both", ask(9, 3, nil), nil)
	b.wantCode("neither", ask(-1, -1, nil), nil)
	b.wantCode("an empty transactional id", ask(-1, -1, kmsg.StringPtr("")), kerr.InvalidRequest)
}

func TestDescribeCluster_KindsOfEndpoint(t *testing.T) {
	b := start(t)
	for kind, want := range map[int8]error{1: nil, 2: kerr.MismatchedEndpointType, 3: kerr.UnsupportedEndpointType} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = kind
		b.wantCode("a kind of endpoint", ask[*kmsg.DescribeClusterResponse](b, req).ErrorCode, want)
	}
}

// capped is a request that a client may send in a version up to a bound.
type capped struct {
	kmsg.Request
	max int16
}

func (c capped) MaxVersion() int16 { return c.max }

// A broker has one name: what is set for another one would never be found (case 108).
func TestCase108_ABrokerHasOneName(t *testing.T) {
	b := start(t)
	for name, want := range map[string]error{"0": nil, "00": kerr.InvalidRequest, "+0": kerr.InvalidRequest} {
		req := kmsg.NewPtrDescribeConfigsRequest()
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeBroker, name
		req.Resources = append(req.Resources, resource)
		b.wantCode("broker "+name, ask[*kmsg.DescribeConfigsResponse](b, req).Resources[0].ErrorCode, want)
	}
}
