package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAssignment_ToABrokerThatIsNotThere is an invalid assignment, whatever is assigned.
func TestAssignment_ToABrokerThatIsNotThere(t *testing.T) {
	b := start(t)
	nowhere := []int32{42}

	create := kmsg.NewPtrCreateTopicsRequest()
	topic, replicas := kmsg.NewCreateTopicsRequestTopic(), kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor, replicas.Replicas = "new", -1, -1, nowhere
	topic.ReplicaAssignment = append(topic.ReplicaAssignment, replicas)
	create.Topics = append(create.Topics, topic)

	grow := kmsg.NewPtrCreatePartitionsRequest()
	grown, added := kmsg.NewCreatePartitionsRequestTopic(), kmsg.NewCreatePartitionsRequestTopicAssignment()
	grown.Topic, grown.Count, added.Replicas = "t", 2, nowhere
	grown.Assignment = append(grown.Assignment, added)
	grow.Topics = append(grow.Topics, grown)

	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	moved, partition := kmsg.NewAlterPartitionAssignmentsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	moved.Topic, partition.Replicas = "t", nowhere
	moved.Partitions = append(moved.Partitions, partition)
	move.Topics = append(move.Topics, moved)

	for what, code := range map[string]int16{
		"CreateTopics":                ask[*kmsg.CreateTopicsResponse](b, create).Topics[0].ErrorCode,
		"CreatePartitions":            ask[*kmsg.CreatePartitionsResponse](b, grow).Topics[0].ErrorCode,
		"AlterPartitionReassignments": ask[*kmsg.AlterPartitionAssignmentsResponse](b, move).Topics[0].Partitions[0].ErrorCode,
	} {
		if err := kerr.ErrorForCode(code); err != kerr.InvalidReplicaAssignment {
			t.Errorf("%s: %v, want %v", what, err, kerr.InvalidReplicaAssignment)
		}
	}
}
