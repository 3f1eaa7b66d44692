package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestDeleteRecords_IsDoneWhenAnswered asks for the start of the log, and for what was before it, right after each of several trims.
func TestDeleteRecords_IsDoneWhenAnswered(t *testing.T) {
	const trims = 20
	b := start(t)
	for n := range int64(trims) {
		b.wantProduced(sent{values: []string{"v"}}, n, nil)
	}
	for n := int64(1); n <= trims; n++ {
		trimmed, err := b.admin.DeleteRecords(b.ctx, kadm.Offsets{"t": {0: {Topic: "t", At: n}}})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := trimmed.Lookup("t", 0); got.Err != nil || got.LowWatermark != n {
			t.Errorf("trim to %d: low watermark %d, %v", n, got.LowWatermark, got.Err)
		}
		if got := b.earliest(); got != n {
			t.Errorf("after the trim to %d the log starts at %d", n, got)
		}
		if _, err := b.fetchAt(n - 1); err != kerr.OffsetOutOfRange {
			t.Errorf("after the trim to %d a fetch at %d: %v", n, n-1, err)
		}
	}
}

func (b *broker) earliest() int64 {
	b.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	topic, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	topic.Topic, p.Timestamp = "t", -2
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	return ask[*kmsg.ListOffsetsResponse](b, req).Topics[0].Partitions[0].Offset
}

// fetchAt asks for records of t once, without waiting.
func (b *broker) fetchAt(offset int64) ([]byte, error) {
	b.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.SessionEpoch = 1<<20, -1
	topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	topic.Topic, topic.TopicID, p.FetchOffset, p.PartitionMaxBytes = "t", b.topic, offset, 1<<20
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	got := ask[*kmsg.FetchResponse](b, req).Topics[0].Partitions[0]
	return got.RecordBatches, kerr.ErrorForCode(got.ErrorCode)
}
