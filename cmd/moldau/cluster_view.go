package main

import (
	"fmt"
	"strings"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// healthShape is `moldau cluster health`.
type healthShape struct {
	Healthy         bool     `json:"healthy"`
	Reasons         []string `json:"reasons"`
	ClusterID       string   `json:"cluster_id"`
	Controller      int32    `json:"controller"`
	Brokers         int32    `json:"brokers"`
	Fenced          []int32  `json:"fenced"`
	Topics          int32    `json:"topics"`
	Partitions      int32    `json:"partitions"`
	Leaderless      int32    `json:"leaderless"`
	UnderReplicated int32    `json:"under_replicated"`
	UnderMinISR     int32    `json:"under_min_isr"`
	Reassigning     int32    `json:"reassigning"`
	OfflineLogs     int32    `json:"offline_logs"`
	LostEnds        int32    `json:"lost_ends"`
	Unreached       []int32  `json:"unreached"`
}

// statusShape is `moldau cluster status`.
type statusShape struct {
	ClusterID    string        `json:"cluster_id"`
	Controller   int32         `json:"controller"`
	FeatureLevel int32         `json:"feature_level"`
	Healthy      bool          `json:"healthy"`
	Reasons      []string      `json:"reasons"`
	Topics       int32         `json:"topics"`
	Partitions   int32         `json:"partitions"`
	Brokers      []brokerShape `json:"brokers"`
}

// brokerShape is one broker of `moldau cluster brokers`.
type brokerShape struct {
	Broker      int32           `json:"broker"`
	Endpoint    string          `json:"endpoint"`
	PeerAddress string          `json:"peer_address"`
	Listeners   []listenerShape `json:"listeners"`
	Rack        string          `json:"rack"`
	Version     string          `json:"version"`
	Fenced      bool            `json:"fenced"`
	Draining    bool            `json:"draining"`
	Controller  bool            `json:"controller"`
	BrokerEpoch int64           `json:"broker_epoch"`
	Leads       int32           `json:"leads"`
	Holds       int32           `json:"holds"`
}

// listenerShape is one advertised address.
type listenerShape struct {
	Name string `json:"name"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

func healthOf(h *moldauv1.ClusterHealthResponse) healthShape {
	return healthShape{
		Healthy: h.GetHealthy(), Reasons: list(h.GetReasons()), ClusterID: h.GetClusterId(), Controller: h.GetController(), Brokers: h.GetBrokers(),
		Fenced: list(h.GetFenced()), Topics: h.GetTopics(), Partitions: h.GetPartitions(), Leaderless: h.GetLeaderless(),
		UnderReplicated: h.GetUnderReplicated(), UnderMinISR: h.GetUnderMinIsr(), Reassigning: h.GetReassigning(), OfflineLogs: h.GetOfflineLogs(),
		LostEnds: h.GetLostEnds(), Unreached: list(h.GetUnreached()),
	}
}

func viewHealth(h *moldauv1.ClusterHealthResponse) view {
	s := healthOf(h)
	v := view{
		fields: []field{
			{"healthy", yesNo(s.Healthy)}, {"cluster", s.ClusterID}, {"controller", broker(s.Controller)}, {"brokers", number(s.Brokers)},
			{"fenced brokers", orNone(ids(s.Fenced))}, {"topics", number(s.Topics)}, {"partitions", number(s.Partitions)},
			{"leaderless", number(s.Leaderless)}, {"under-replicated", number(s.UnderReplicated)}, {"under min ISR", number(s.UnderMinISR)},
			{"reassigning", number(s.Reassigning)}, {"offline logs", number(s.OfflineLogs)}, {"lost ends", number(s.LostEnds)},
			{"not reached", orNone(ids(s.Unreached))},
		},
		names: []string{map[bool]string{true: "healthy", false: "unhealthy"}[s.Healthy]},
		value: s,
	}
	for _, r := range s.Reasons {
		v.fields = append(v.fields, field{"reason", r})
	}
	return v
}

func brokersOf(cluster *moldauv1.DescribeClusterResponse) []brokerShape {
	shapes := []brokerShape{}
	for _, b := range cluster.GetBrokers() {
		s := brokerShape{
			Broker: b.GetBroker(), Endpoint: b.GetEndpoint(), PeerAddress: b.GetPeerAddress(), Listeners: []listenerShape{}, Rack: b.GetRack(),
			Version: b.GetVersion(), Fenced: b.GetFenced(), Draining: b.GetDraining(), Controller: b.GetBroker() == cluster.GetController(),
			BrokerEpoch: b.GetBrokerEpoch(), Leads: b.GetLeads(), Holds: b.GetHolds(),
		}
		for _, l := range b.GetListeners() {
			s.Listeners = append(s.Listeners, listenerShape{l.GetName(), l.GetHost(), l.GetPort()})
		}
		shapes = append(shapes, s)
	}
	return shapes
}

func brokerTable(shapes []brokerShape) table {
	t := table{columns: []column{
		col("BROKER"), col("STATE"), col("GRPC"), wide("PEER"), wide("LISTENERS"), col("RACK"), col("LEADS"), col("HOLDS"), wide("EPOCH"), col("VERSION"),
	}}
	for _, s := range shapes {
		var listeners []string
		for _, l := range s.Listeners {
			listeners = append(listeners, fmt.Sprintf("%s=%s:%d", l.Name, l.Host, l.Port))
		}
		t.rows = append(t.rows, []string{
			number(s.Broker), brokerState(s), s.Endpoint, s.PeerAddress, strings.Join(listeners, ","), s.Rack, number(s.Leads), number(s.Holds),
			number(s.BrokerEpoch), s.Version,
		})
	}
	return t
}

func brokerState(s brokerShape) string {
	state := "up"
	switch {
	case s.Fenced:
		state = "fenced"
	case s.Draining:
		state = "draining"
	}
	if s.Controller {
		state += ",controller"
	}
	return state
}

func viewBrokers(cluster *moldauv1.DescribeClusterResponse) view {
	shapes := brokersOf(cluster)
	v := view{tables: []table{brokerTable(shapes)}, value: shapes}
	for _, s := range shapes {
		v.names = append(v.names, number(s.Broker))
	}
	return v
}

func viewStatus(cluster *moldauv1.DescribeClusterResponse, h *moldauv1.ClusterHealthResponse) view {
	s := statusShape{
		ClusterID: cluster.GetClusterId(), Controller: cluster.GetController(), FeatureLevel: cluster.GetFeatureLevel(), Healthy: h.GetHealthy(),
		Reasons: list(h.GetReasons()), Topics: h.GetTopics(), Partitions: h.GetPartitions(), Brokers: brokersOf(cluster),
	}
	v := view{
		fields: []field{
			{"cluster", s.ClusterID}, {"controller", broker(s.Controller)}, {"feature level", number(s.FeatureLevel)}, {"healthy", yesNo(s.Healthy)},
			{"topics", number(s.Topics)}, {"partitions", number(s.Partitions)},
		},
		tables: []table{brokerTable(s.Brokers)},
		names:  []string{s.ClusterID},
		value:  s,
	}
	for _, r := range s.Reasons {
		v.fields = append(v.fields, field{"reason", r})
	}
	return v
}

// reassignmentShape is one partition on the move.
type reassignmentShape struct {
	Topic     string  `json:"topic"`
	TopicID   string  `json:"topic_id"`
	Partition int32   `json:"partition"`
	Replicas  []int32 `json:"replicas"`
	Adding    []int32 `json:"adding"`
	Removing  []int32 `json:"removing"`
}

func viewReassignments(all []*moldauv1.Reassignment) view {
	shapes := []reassignmentShape{}
	t := table{columns: []column{col("TOPIC"), col("PARTITION"), col("REPLICAS"), col("ADDING"), col("REMOVING")}}
	var v view
	for _, r := range all {
		s := reassignmentShape{r.GetTopic(), r.GetTopicId(), r.GetPartition(), list(r.GetReplicas()), list(r.GetAdding()), list(r.GetRemoving())}
		shapes = append(shapes, s)
		t.rows = append(t.rows, []string{s.Topic, number(s.Partition), ids(s.Replicas), ids(s.Adding), ids(s.Removing)})
		v.names = append(v.names, fmt.Sprintf("%s:%d", s.Topic, s.Partition))
	}
	v.tables, v.value = []table{t}, shapes
	return v
}

// electionShape is one partition of `moldau cluster elect`.
type electionShape struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id"`
	Partition int32  `json:"partition"`
	Error     string `json:"error"`
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "NO"
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
