package main

import (
	"strconv"
	"strings"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// groupShape is one group of `moldau group list`.
type groupShape struct {
	Group       string `json:"group"`
	Type        string `json:"type"`
	State       string `json:"state"`
	Members     int32  `json:"members"`
	Coordinator int32  `json:"coordinator"`
}

// groupDescriptionShape is `moldau group describe`.
type groupDescriptionShape struct {
	Group       string             `json:"group"`
	Type        string             `json:"type"`
	State       string             `json:"state"`
	Epoch       int32              `json:"epoch"`
	Assignor    string             `json:"assignor"`
	Coordinator int32              `json:"coordinator"`
	Lag         *int64             `json:"lag"` // of all partitions whose lag is known; null when none is
	Members     []memberShape      `json:"members"`
	Offsets     []groupOffsetShape `json:"offsets"`
}

// memberShape is one member.
type memberShape struct {
	MemberID    string             `json:"member_id"`
	InstanceID  string             `json:"instance_id"`
	ClientID    string             `json:"client_id"`
	ClientHost  string             `json:"client_host"`
	Rack        string             `json:"rack"`
	MemberEpoch int32              `json:"member_epoch"`
	Topics      []string           `json:"topics"`
	Assigned    []topicPartitionID `json:"assigned"`
	Target      []topicPartitionID `json:"target"`
	Revoking    []topicPartitionID `json:"revoking"`
}

// topicPartitionID names a partition.
type topicPartitionID struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id"`
	Partition int32  `json:"partition"`
}

// groupOffsetShape is one partition's progress; what is unknown is null.
type groupOffsetShape struct {
	Topic           string `json:"topic"`
	TopicID         string `json:"topic_id"`
	Partition       int32  `json:"partition"`
	CommittedOffset *int64 `json:"committed_offset"`
	LogStartOffset  *int64 `json:"log_start_offset"`
	HighWatermark   *int64 `json:"high_watermark"`
	Lag             *int64 `json:"lag"`
	MemberID        string `json:"member_id"`
	Metadata        string `json:"metadata"`
	CommittedMs     int64  `json:"committed_ms"`
}

func groupType(t moldauv1.GroupType) string {
	switch t {
	case moldauv1.GroupType_GROUP_TYPE_NATIVE:
		return "native"
	case moldauv1.GroupType_GROUP_TYPE_CLASSIC:
		return "classic"
	}
	return "offsets-only"
}

func viewGroups(groups []*moldauv1.GroupListing) view {
	shapes := []groupShape{}
	t := table{columns: []column{col("GROUP"), col("TYPE"), col("STATE"), col("MEMBERS"), col("COORDINATOR")}}
	var v view
	for _, g := range groups {
		s := groupShape{g.GetGroup(), groupType(g.GetType()), g.GetState(), g.GetMembers(), g.GetCoordinator()}
		shapes = append(shapes, s)
		t.rows = append(t.rows, []string{s.Group, s.Type, s.State, number(s.Members), broker(s.Coordinator)})
		v.names = append(v.names, s.Group)
	}
	v.tables, v.value = []table{t}, shapes
	return v
}

func describeGroup(g *moldauv1.GroupDescription) groupDescriptionShape {
	s := groupDescriptionShape{
		Group: g.GetGroup(), Type: groupType(g.GetType()), State: g.GetState(), Epoch: g.GetEpoch(), Assignor: g.GetAssignor(),
		Coordinator: g.GetCoordinator(), Members: []memberShape{}, Offsets: []groupOffsetShape{},
	}
	for _, m := range g.GetMembers() {
		s.Members = append(s.Members, memberShape{
			MemberID: m.GetMemberId(), InstanceID: m.GetInstanceId(), ClientID: m.GetClientId(), ClientHost: m.GetClientHost(), Rack: m.GetRack(),
			MemberEpoch: m.GetMemberEpoch(), Topics: list(m.GetTopics()), Assigned: partitionIDs(m.GetAssigned()), Target: partitionIDs(m.GetTarget()),
			Revoking: partitionIDs(m.GetRevoking()),
		})
	}
	for _, o := range g.GetOffsets() {
		row := groupOffsetShape{
			Topic: o.GetTopic(), TopicID: o.GetTopicId(), Partition: o.GetPartition(), CommittedOffset: known(o.GetCommittedOffset()),
			LogStartOffset: known(o.GetLogStartOffset()), HighWatermark: known(o.GetHighWatermark()), Lag: o.Lag, MemberID: o.GetMemberId(),
			Metadata: o.GetMetadata(), CommittedMs: o.GetCommittedMs(),
		}
		s.Offsets = append(s.Offsets, row)
		if row.Lag != nil {
			sum := *row.Lag
			if s.Lag != nil {
				sum += *s.Lag
			}
			s.Lag = &sum
		}
	}
	return s
}

// known makes -1 what it means: nothing.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func partitionIDs(tps []*moldauv1.TopicPartition) []topicPartitionID {
	out := []topicPartitionID{}
	for _, tp := range tps {
		out = append(out, topicPartitionID{tp.GetTopic(), tp.GetTopicId(), tp.GetPartition()})
	}
	return out
}

func viewGroup(g *moldauv1.GroupDescription) view {
	s := describeGroup(g)
	members := table{title: "members", columns: []column{
		col("MEMBER"), wide("INSTANCE"), col("CLIENT"), col("HOST"), wide("RACK"), col("EPOCH"), col("ASSIGNED"), wide("TARGET"), col("REVOKING"),
	}}
	for _, m := range s.Members {
		members.rows = append(members.rows, []string{
			m.MemberID, m.InstanceID, m.ClientID, m.ClientHost, m.Rack, number(m.MemberEpoch), brief(m.Assigned), brief(m.Target), brief(m.Revoking),
		})
	}
	offsets := table{title: "offsets", columns: []column{
		col("TOPIC"), col("PARTITION"), col("COMMITTED"), wide("LOG-START"), col("HIGH-WATERMARK"), col("LAG"), col("MEMBER"), wide("COMMITTED-AT"), wide("METADATA"),
	}}
	for _, o := range s.Offsets {
		offsets.rows = append(offsets.rows, []string{
			o.Topic, number(o.Partition), maybe(o.CommittedOffset), maybe(o.LogStartOffset), maybe(o.HighWatermark), maybe(o.Lag), o.MemberID,
			moment(o.CommittedMs), o.Metadata,
		})
	}
	return view{
		fields: []field{
			{"group", s.Group}, {"type", s.Type}, {"state", s.State}, {"epoch", number(s.Epoch)}, {"assignor", orDash(s.Assignor)},
			{"coordinator", broker(s.Coordinator)}, {"members", strconv.Itoa(len(s.Members))}, {"lag", orDash(maybe(s.Lag))},
		},
		tables: []table{members, offsets},
		names:  []string{s.Group},
		value:  s,
	}
}

// viewSeveralGroups is a list of groups.
func viewSeveralGroups(groups []*moldauv1.GroupDescription) view {
	shapes := []groupDescriptionShape{}
	var v view
	for _, g := range groups {
		one := viewGroup(g)
		shapes = append(shapes, one.value.(groupDescriptionShape))
		v.names = append(v.names, one.names...)
		for _, t := range one.tables {
			t.title = g.GetGroup() + " " + t.title
			v.tables = append(v.tables, t)
		}
	}
	v.value = shapes
	return v
}

// brief prints partitions by topic: orders:0,1,2 payments:4.
func brief(tps []topicPartitionID) string {
	byTopic := map[string][]int32{}
	for _, tp := range tps {
		byTopic[tp.Topic] = append(byTopic[tp.Topic], tp.Partition)
	}
	var words []string
	for _, topic := range sortedKeys(byTopic) {
		words = append(words, topic+":"+ids(byTopic[topic]))
	}
	return strings.Join(words, " ")
}

// broker prints an id, or "none".
func broker(id int32) string {
	if id < 0 {
		return "none"
	}
	return number(id)
}
