package kafka

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// TestFetch_NobodyHereIsAReplica: whoever says that he is a follower reads nothing, waits for nothing, and is told what Apache Kafka tells one that is none. What is wrong with
// the partition or the leader epoch comes first.
func TestFetch_NobodyHereIsAReplica(t *testing.T) {
	d := openDoor(t, Config{})
	var found cluster.Code
	asked := make(chan broker.FetchRequest, 1)
	d.broker.onFetch = func(_ context.Context, req broker.FetchRequest) []broker.FetchedPartition {
		asked <- req
		out := make([]broker.FetchedPartition, len(req.Partitions))
		for i := range out {
			out[i] = broker.FetchedPartition{Code: found, HighWatermark: 5}
		}
		return out
	}
	c := d.dial()
	for name, x := range map[string]struct {
		version     int16
		leaderEpoch int32
		found       cluster.Code
		want        int16
	}{
		"in the request":              {11, -1, cluster.CodeNone, errNotLeaderOrFollower},
		"in the tag":                  {17, -1, cluster.CodeNone, errNotLeaderOrFollower},
		"with a leader epoch":         {11, 0, cluster.CodeNone, errUnknownLeaderEpoch},
		"in the tag, with an epoch":   {17, 0, cluster.CodeNone, errUnknownLeaderEpoch},
		"above the end":               {11, -1, cluster.CodeOffsetOutOfRange, errNotLeaderOrFollower},
		"at a new leader":             {11, -1, cluster.CodeOffsetNotAvailable, errNotLeaderOrFollower},
		"with an old epoch":           {11, 0, cluster.CodeFencedLeaderEpoch, wire(cluster.CodeFencedLeaderEpoch)},
		"of a topic that is not here": {11, -1, cluster.CodeUnknownTopic, errUnknownTopicOrPartition},
	} {
		found = x.found
		req := oneTopicFetch(x.version, 0, -1)
		req.ReplicaID, req.ReplicaState = 0, kmsg.FetchRequestReplicaState{ID: 0, Epoch: 7}
		req.MinBytes, req.MaxWaitMillis, req.Rack = 1, 60_000, "west"
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = x.leaderEpoch
		c.send(req)
		_, resp := c.answer(req)
		if p := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != x.want || p.HighWatermark != -1 {
			t.Errorf("%s: error %d and watermark %d, want %d and -1", name, p.ErrorCode, p.HighWatermark, x.want)
		}
		if got := <-asked; got.MaxWait != 0 || got.MinBytes != 0 || got.MaxBytes != 0 || got.Followers || got.Rack != "" {
			t.Errorf("%s: the broker is asked for %+v", name, got)
		}
	}
}
