package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is one API and the versions that are offered.
type api struct {
	min, max int16
	// floor is the least version that is really spoken, where more is advertised: see Produce.
	floor  int16
	handle func(c *conn, ctx context.Context, req kmsg.Request, s *slot) (kmsg.Response, error)
}

func (a api) least() int16 { return max(a.min, a.floor) }

// offer makes a table row of a typed handler. An error of the handler closes the connection.
func offer[Q kmsg.Request, R kmsg.Response](least, most int16, f func(*conn, context.Context, Q, *slot) (R, error)) api {
	return api{min: least, max: most, handle: func(c *conn, ctx context.Context, req kmsg.Request, s *slot) (kmsg.Response, error) {
		return f(c, ctx, req.(Q), s)
	}}
}

// table lists the APIs. What is not here is absent from ApiVersions. Minima reach further back than Apache Kafka's: librdkafka before 2.11 looks for single old
// versions to decide what a broker can do.
func table() map[int16]api {
	return map[int16]api{
		0:  {min: 0, max: 13, floor: 3},
		1:  offer(4, 17, (*conn).fetch),
		2:  offer(0, 10, (*conn).listOffsets),
		3:  offer(0, 13, (*conn).metadata),
		8:  offer(1, 10, (*conn).offsetCommit),
		9:  offer(1, 10, (*conn).offsetFetch),
		10: offer(0, 6, (*conn).findCoordinator),
		11: offer(0, 9, (*conn).joinGroup),
		12: offer(0, 4, (*conn).heartbeat),
		13: offer(0, 5, (*conn).leaveGroup),
		14: offer(0, 5, (*conn).syncGroup),
		15: offer(0, 6, (*conn).describeGroups),
		16: offer(0, 5, (*conn).listGroups),
		18: offer(0, 4, (*conn).apiVersions),
		19: offer(0, 7, (*conn).createTopics),
		20: offer(0, 6, (*conn).deleteTopics),
		21: offer(0, 2, (*conn).deleteRecords),
		22: offer(0, 5, (*conn).initProducerID),
		23: offer(2, 4, (*conn).offsetForLeaderEpoch),
		29: offer(0, 3, (*conn).describeACLs),
		30: offer(0, 3, (*conn).createACLs),
		31: offer(0, 3, (*conn).deleteACLs),
		32: offer(0, 4, (*conn).describeConfigs),
		33: offer(0, 2, (*conn).alterConfigs),
		35: offer(0, 4, (*conn).describeLogDirs),
		37: offer(0, 3, (*conn).createPartitions),
		42: offer(0, 2, (*conn).deleteGroups),
		43: offer(0, 2, (*conn).electLeaders),
		44: offer(0, 1, (*conn).incrementalAlterConfigs),
		45: offer(0, 1, (*conn).alterPartitionReassignments),
		46: offer(0, 0, (*conn).listPartitionReassignments),
		47: offer(0, 0, (*conn).offsetDelete),
		55: offer(0, 2, (*conn).describeQuorum),
		57: offer(0, 2, (*conn).updateFeatures),
		60: offer(0, 2, (*conn).describeCluster),
		61: offer(0, 0, (*conn).describeProducers),
		74: offer(0, 1, (*conn).listConfigResources),
		75: offer(0, 0, (*conn).describeTopicPartitions),
	}
}

// offered is the table as clients see it, in the order of keys.
func (s *Server) offered() []kmsg.ApiVersionsResponseApiKey {
	out := make([]kmsg.ApiVersionsResponseApiKey, 0, len(s.apis))
	for key, a := range s.apis {
		out = append(out, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: a.min, MaxVersion: a.max})
	}
	slices.SortFunc(out, func(a, b kmsg.ApiVersionsResponseApiKey) int { return int(a.ApiKey) - int(b.ApiKey) })
	return out
}
