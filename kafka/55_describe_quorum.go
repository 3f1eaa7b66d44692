package kafka

import (
	"context"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
)

// DescribeQuorum (55), versions 0 to 2: who keeps the metadata (KIP-595). Moldau's Raft log is shown as the one partition of Kafka's topic __cluster_metadata:
// the term as leader epoch, Raft indexes as offsets. Any broker answers; where one of the figures is not known it is -1.
//
// v1 times of the last fetch, which here is the last heartbeat (KIP-836); v2 directories and the nodes' addresses (KIP-853).
const metadataTopic = "__cluster_metadata"

func (c *conn) describeQuorum(ctx context.Context, req *kmsg.DescribeQuorumRequest, s *slot) (*kmsg.DescribeQuorumResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	q := c.s.broker.Quorum(ctx)
	for i := range req.Topics {
		in := &req.Topics[i]
		out := kmsg.NewDescribeQuorumResponseTopic()
		out.Topic = in.Topic
		for k := range in.Partitions {
			o := kmsg.NewDescribeQuorumResponseTopicPartition()
			o.Partition = in.Partitions[k].Partition
			if in.Topic == metadataTopic && o.Partition == 0 {
				c.quorumPartition(&q, &o)
			} else {
				o.ErrorCode = s.note(errUnknownTopicOrPartition)
			}
			out.Partitions = append(out.Partitions, o)
		}
		resp.Topics = append(resp.Topics, out)
	}
	resp.Nodes = c.quorumNodes(&q)
	return resp, nil
}

func (c *conn) quorumPartition(q *broker.Quorum, o *kmsg.DescribeQuorumResponseTopicPartition) {
	o.LeaderID, o.LeaderEpoch, o.HighWatermark = int32(q.Leader), int32(q.Term), q.CommitIndex
	now := c.s.cfg.Now()
	for i := range q.Members {
		m := &q.Members[i]
		r := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		r.ReplicaID, r.ReplicaDirectoryID, r.LogEndOffset = int32(m.Broker), [16]byte(m.Directory), m.Index
		r.LastFetchTimestamp, r.LastCaughtUpTimestamp = -1, -1
		if m.Heard >= 0 {
			r.LastFetchTimestamp = now.Add(-m.Heard).Truncate(time.Millisecond).UnixMilli()
			if m.Index >= q.CommitIndex {
				r.LastCaughtUpTimestamp = r.LastFetchTimestamp
			}
		}
		if m.Voter {
			o.CurrentVoters = append(o.CurrentVoters, r)
		} else {
			o.Observers = append(o.Observers, r)
		}
	}
}

// quorumNodes gives the addresses of those who vote, as the client reaches them.
func (c *conn) quorumNodes(q *broker.Quorum) []kmsg.DescribeQuorumResponseNode {
	var out []kmsg.DescribeQuorumResponseNode
	img := c.s.broker.Image()
	for i := range q.Members {
		b, ok := img.Broker(q.Members[i].Broker)
		if !ok || !q.Members[i].Voter {
			continue
		}
		host, port, ok := c.endpoint(b)
		if !ok {
			continue
		}
		n := kmsg.NewDescribeQuorumResponseNode()
		n.NodeID = int32(b.ID)
		l := kmsg.NewDescribeQuorumResponseNodeListener()
		l.Name, l.Host, l.Port = strings.ToUpper(c.listener.Name), host, uint16(port) // Java takes no other
		n.Listeners = append(n.Listeners, l)
		out = append(out, n)
	}
	return out
}
