package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// topicShape is one topic of `moldau topic list`.
type topicShape struct {
	Topic             string `json:"topic"`
	TopicID           string `json:"topic_id"`
	Partitions        int32  `json:"partitions"`
	ReplicationFactor int32  `json:"replication_factor"`
	CreatedMs         int64  `json:"created_ms"`
}

// createdShape is `moldau topic create`.
type createdShape struct {
	Topic             string   `json:"topic"`
	TopicID           string   `json:"topic_id"`
	Partitions        int32    `json:"partitions"`
	ReplicationFactor int32    `json:"replication_factor"`
	Notes             []string `json:"notes"`
}

// descriptionShape is `moldau topic describe`.
type descriptionShape struct {
	Topic             string            `json:"topic"`
	TopicID           string            `json:"topic_id"`
	ReplicationFactor int32             `json:"replication_factor"`
	CreatedMs         int64             `json:"created_ms"`
	MinISR            int32             `json:"min_isr"`
	Configs           map[string]string `json:"configs"`
	Partitions        []partitionShape  `json:"partitions"`
}

// partitionShape is one partition as metadata and leader have it. The offsets are null where the leader could not be asked.
type partitionShape struct {
	Topic          string  `json:"topic"`
	TopicID        string  `json:"topic_id"`
	Partition      int32   `json:"partition"`
	Leader         int32   `json:"leader"`
	LeaderEpoch    int32   `json:"leader_epoch"`
	PartitionEpoch int32   `json:"partition_epoch"`
	Replicas       []int32 `json:"replicas"`
	ISR            []int32 `json:"isr"`
	ELR            []int32 `json:"elr"`
	Adding         []int32 `json:"adding"`
	Removing       []int32 `json:"removing"`
	LastLeader     int32   `json:"last_leader"`
	LogStartOffset *int64  `json:"log_start_offset"`
	LogEndOffset   *int64  `json:"log_end_offset"`
	FlushedOffset  *int64  `json:"flushed_offset"`
	HighWatermark  *int64  `json:"high_watermark"`
	SizeBytes      *int64  `json:"size_bytes"`
	Offline        string  `json:"offline"`
}

func viewTopics(topics []*moldauv1.TopicListing) view {
	shapes := []topicShape{}
	v := view{tables: []table{{columns: []column{col("TOPIC"), col("PARTITIONS"), col("REPLICAS"), wide("TOPIC-ID"), wide("CREATED")}}}}
	for _, t := range topics {
		shapes = append(shapes, topicShape{t.GetTopic(), t.GetTopicId(), t.GetPartitions(), t.GetReplicationFactor(), t.GetCreatedMs()})
		v.names = append(v.names, t.GetTopic())
		v.tables[0].rows = append(v.tables[0].rows, []string{t.GetTopic(), number(t.GetPartitions()), number(t.GetReplicationFactor()), t.GetTopicId(), moment(t.GetCreatedMs())})
	}
	v.value = shapes
	return v
}

func viewCreated(t *moldauv1.CreateTopicResponse) view {
	shape := createdShape{t.GetTopic(), t.GetTopicId(), t.GetPartitions(), t.GetReplicationFactor(), list(t.GetNotes())}
	return view{
		tables: []table{{
			columns: []column{col("TOPIC"), col("PARTITIONS"), col("REPLICAS"), wide("TOPIC-ID")},
			rows:    [][]string{{shape.Topic, number(shape.Partitions), number(shape.ReplicationFactor), shape.TopicID}},
		}},
		names: []string{shape.Topic},
		value: shape,
	}
}

func describeTopic(t *moldauv1.TopicDescription) descriptionShape {
	s := descriptionShape{
		Topic: t.GetTopic(), TopicID: t.GetTopicId(), ReplicationFactor: t.GetReplicationFactor(), CreatedMs: t.GetCreatedMs(), MinISR: t.GetMinIsr(),
		Configs: map[string]string{}, Partitions: []partitionShape{},
	}
	for _, c := range t.GetConfigs() {
		s.Configs[c.GetKey()] = c.GetValue()
	}
	for _, p := range t.GetPartitions() {
		s.Partitions = append(s.Partitions, describePartition(t, p))
	}
	return s
}

func describePartition(t *moldauv1.TopicDescription, p *moldauv1.PartitionDescription) partitionShape {
	s := partitionShape{
		Topic: t.GetTopic(), TopicID: t.GetTopicId(), Partition: p.GetPartition(), Leader: p.GetLeader(), LeaderEpoch: p.GetLeaderEpoch(),
		PartitionEpoch: p.GetPartitionEpoch(), Replicas: list(p.GetReplicas()), ISR: list(p.GetIsr()), ELR: list(p.GetElr()),
		Adding: list(p.GetAdding()), Removing: list(p.GetRemoving()), LastLeader: p.GetLastLeader(),
	}
	if st := p.GetStatus(); st != nil {
		s.LogStartOffset, s.LogEndOffset, s.FlushedOffset = &st.LogStartOffset, &st.LogEndOffset, &st.FlushedOffset
		s.HighWatermark, s.SizeBytes, s.Offline = &st.HighWatermark, &st.SizeBytes, st.GetOffline()
	}
	return s
}

// viewTopic shows one topic in full.
func viewTopic(t *moldauv1.TopicDescription) view {
	s := describeTopic(t)
	v := view{
		fields: []field{
			{"topic", s.Topic}, {"topic id", s.TopicID}, {"partitions", strconv.Itoa(len(s.Partitions))}, {"replicas", number(s.ReplicationFactor)},
			{"min isr", number(s.MinISR)}, {"created", moment(s.CreatedMs)},
		},
		names: []string{s.Topic},
		value: s,
	}
	for _, c := range t.GetConfigs() {
		v.fields = append(v.fields, field{"config", c.GetKey() + "=" + c.GetValue()})
	}
	v.tables = []table{partitionTable(s.Partitions)}
	v.tables[0].columns, v.tables[0].rows = v.tables[0].columns[1:], withoutFirst(v.tables[0].rows)
	return v
}

func withoutFirst(rows [][]string) [][]string {
	for i := range rows {
		rows[i] = rows[i][1:]
	}
	return rows
}

// viewSeveralTopics shows topics one after another; the document is a list.
func viewSeveralTopics(topics []*moldauv1.TopicDescription) view {
	shapes := []descriptionShape{}
	var v view
	for _, t := range topics {
		one := viewTopic(t)
		shapes = append(shapes, one.value.(descriptionShape))
		v.names = append(v.names, one.names...)
		v.tables = append(v.tables, table{title: t.GetTopic(), columns: one.tables[0].columns, rows: one.tables[0].rows})
	}
	v.value = shapes
	return v
}

func viewPartitions(shapes []partitionShape) view {
	v := view{tables: []table{partitionTable(shapes)}, value: shapes}
	for _, s := range shapes {
		v.names = append(v.names, fmt.Sprintf("%s:%d", s.Topic, s.Partition))
	}
	return v
}

func partitionTable(shapes []partitionShape) table {
	t := table{columns: []column{
		col("TOPIC"), col("PARTITION"), col("LEADER"), wide("EPOCH"), col("REPLICAS"), col("ISR"), wide("ELR"), col("LOG-START"), col("HIGH-WATERMARK"),
		wide("LOG-END"), wide("FLUSHED"), col("SIZE"), wide("ADDING"), wide("REMOVING"), wide("OFFLINE"),
	}}
	for _, s := range shapes {
		leader := "none"
		if s.Leader >= 0 {
			leader = number(s.Leader)
		}
		size := ""
		if s.SizeBytes != nil {
			size = bytesText(*s.SizeBytes)
		}
		t.rows = append(t.rows, []string{
			s.Topic, number(s.Partition), leader, number(s.LeaderEpoch), ids(s.Replicas), ids(s.ISR), ids(s.ELR), maybe(s.LogStartOffset), maybe(s.HighWatermark),
			maybe(s.LogEndOffset), maybe(s.FlushedOffset), size, ids(s.Adding), ids(s.Removing), s.Offline,
		})
	}
	return t
}

// Small words of every view.

func number[N ~int32 | ~int64 | ~int](n N) string { return strconv.FormatInt(int64(n), 10) }

func maybe(n *int64) string {
	if n == nil {
		return ""
	}
	return number(*n)
}

// list makes a nil slice an empty one, so that JSON has [] and not null.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func ids(brokers []int32) string {
	words := make([]string, len(brokers))
	for i, b := range brokers {
		words[i] = number(b)
	}
	return strings.Join(words, ",")
}

// moment prints milliseconds as UTC, "" when there is none.
func moment(ms int64) string {
	if ms <= 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// bytesText prints a size with a unit, rounded.
func bytesText(n int64) string {
	value, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for value >= 1024 && len(units) > 1 {
		value, units = value/1024, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
