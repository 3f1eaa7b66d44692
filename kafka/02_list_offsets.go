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
	named := countPartitions(req)
	queries := make([]broker.OffsetQuery, 0, len(named))
	for i := range req.Topics {
		ref := c.existing(ctx, broker.TopicRef{Name: req.Topics[i].Topic})
		for k := range req.Topics[i].Partitions {
			p := &req.Topics[i].Partitions[k]
			if named[partitionName{req.Topics[i].Topic, p.Partition}] > 1 || unknownTimestamp(req.Version, p.Timestamp) {
				continue // refused below, and nothing is looked for
			}
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
	place := map[string]int{} // of each topic in the answer: one that is named again is there once
	for i := range req.Topics {
		name := req.Topics[i].Topic
		at, there := place[name]
		if !there {
			at = len(resp.Topics)
			place[name] = at
			resp.Topics = append(resp.Topics, kmsg.ListOffsetsResponseTopic{Topic: name})
		}
		t := &resp.Topics[at]
		for k := range req.Topics[i].Partitions {
			in := &req.Topics[i].Partitions[k]
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.Offset, p.Timestamp, p.LeaderEpoch, p.OldStyleOffsets = in.Partition, -1, -1, -1, []int64{}
			switch key := (partitionName{name, in.Partition}); {
			case named[key] == 0: // refused above
				continue
			case named[key] > 1:
				named[key] = 0
				p.ErrorCode = errInvalidRequest
			case unknownTimestamp(req.Version, in.Timestamp):
				p.ErrorCode = errUnsupportedVersion
			default:
				listed(&p, &answers[n], in.Timestamp)
				n++
			}
			s.note(p.ErrorCode)
			t.Partitions = append(t.Partitions, p)
		}
	}
	return resp, nil
}

// listed fills in what the broker says of a partition.
func listed(p *kmsg.ListOffsetsResponseTopicPartition, a *broker.OffsetAnswer, timestamp int64) {
	p.ErrorCode = wire(a.Code)
	if a.Code != cluster.CodeNone {
		return
	}
	if timestamp != latestTieredTimestamp {
		p.Offset, p.Timestamp, p.LeaderEpoch = int64(a.Offset), a.Timestamp, int32(a.LeaderEpoch)
	}
	if a.Offset >= 0 {
		p.OldStyleOffsets = append(p.OldStyleOffsets, int64(a.Offset))
	}
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
