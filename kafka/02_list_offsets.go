package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// ListOffsets (2), versions 0 to 10: the first offset whose record has at least a timestamp, or a special position.
//
// v0 answers with a list of offsets; v1 one offset (KIP-79); v2 isolation level (KIP-98); v4 leader epochs (KIP-320); v6 flexible; v7 the record with the largest
// timestamp, -3 (KIP-734); v8 the earliest local offset, -4 (KIP-405); v9 the latest tiered one, -5 (KIP-1005); v10 a timeout (KIP-1075).
//
// Nothing is tiered: -4 is the log start, -5 is none.
const (
	earliestLocalTimestamp int64 = -4
	latestTieredTimestamp  int64 = -5
)

func (c *conn) listOffsets(ctx context.Context, req *kmsg.ListOffsetsRequest, s *slot) (*kmsg.ListOffsetsResponse, error) {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	var queries []broker.OffsetQuery
	named := countPartitions(req)
	for i := range req.Topics {
		ref := c.existing(ctx, broker.TopicRef{Name: req.Topics[i].Topic})
		for k := range req.Topics[i].Partitions {
			p := &req.Topics[i].Partitions[k]
			q := broker.OffsetQuery{Topic: ref, Partition: p.Partition, Timestamp: p.Timestamp, LeaderEpoch: record.LeaderEpoch(p.CurrentLeaderEpoch)}
			if p.Timestamp == earliestLocalTimestamp {
				q.Timestamp = broker.EarliestTimestamp
			}
			if p.Timestamp == latestTieredTimestamp { // asked as any other, for its errors
				q.Timestamp = broker.EarliestTimestamp
			}
			queries = append(queries, q)
		}
	}
	answers := c.s.broker.ListOffsets(ctx, queries)
	n := 0
	for i := range req.Topics {
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = req.Topics[i].Topic
		for k := range req.Topics[i].Partitions {
			in, a := &req.Topics[i].Partitions[k], &answers[n]
			n++
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.ErrorCode = in.Partition, wire(a.Code)
			p.Offset, p.Timestamp, p.LeaderEpoch = int64(a.Offset), a.Timestamp, int32(a.LeaderEpoch)
			switch times := named[partitionName{req.Topics[i].Topic, in.Partition}]; {
			case times > 1: // answered once
				named[partitionName{req.Topics[i].Topic, in.Partition}] = 0
				p.ErrorCode, a.Offset = errInvalidRequest, -1
			case times == 0:
				continue
			case unknownTimestamp(req.Version, in.Timestamp):
				p.ErrorCode, a.Offset = errUnsupportedVersion, -1
			}
			if p.ErrorCode != errNone || in.Timestamp == latestTieredTimestamp {
				p.Offset, p.Timestamp, p.LeaderEpoch = -1, -1, -1
			}
			p.OldStyleOffsets = []int64{}
			if a.Code == cluster.CodeNone && a.Offset >= 0 {
				p.OldStyleOffsets = append(p.OldStyleOffsets, int64(a.Offset))
			}
			if p.ErrorCode != errNone {
				s.outcome = errorLabel(p.ErrorCode)
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// unknownTimestamp says whether a version of the request does not have a special timestamp yet, or no version has it.
func unknownTimestamp(version int16, timestamp int64) bool {
	switch {
	case timestamp >= broker.EarliestTimestamp:
		return false
	case timestamp == broker.MaxTimestamp:
		return version < 7
	case timestamp == earliestLocalTimestamp:
		return version < 8
	case timestamp == latestTieredTimestamp:
		return version < 9
	}
	return true
}

type partitionName struct {
	topic     string
	partition int32
}

// countPartitions counts how often a request names each partition. More than once is invalid.
func countPartitions(req *kmsg.ListOffsetsRequest) map[partitionName]int {
	named := map[partitionName]int{}
	for i := range req.Topics {
		for k := range req.Topics[i].Partitions {
			named[partitionName{req.Topics[i].Topic, req.Topics[i].Partitions[k].Partition}]++
		}
	}
	return named
}
