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

// capped is a request that a client may send in a version up to a bound.
type capped struct {
	kmsg.Request
	max int16
}

func (c capped) MaxVersion() int16 { return c.max }
