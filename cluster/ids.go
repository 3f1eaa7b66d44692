package cluster

import (
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/moldau-log/moldau/record"
)

// BrokerID is the number an operator gives to a broker. It stays the same when the machine, the address or the disk changes.
type BrokerID int32

// NoBroker stands for "no broker": a partition without a leader.
const NoBroker BrokerID = -1

// BrokerEpoch is one registration of a broker with the controller: the index of the Raft entry that registered it. It keeps a
// restarted broker out of an ISR proposal that was made for its previous life.
type BrokerEpoch int64

// NoBrokerEpoch is the epoch of a broker that has not been registered.
const NoBrokerEpoch BrokerEpoch = -1

// PartitionEpoch is the compare-and-set version of a partition's metadata. It rises with every change of leader, ISR, ELR,
// replicas, log start or effective min.insync.replicas, and fences every ISR proposal.
type PartitionEpoch int32

// ControllerTerm is the Raft term. It is never called an epoch.
type ControllerTerm uint64

// ShardID numbers a coordinator shard, 0 to ShardCount-1.
type ShardID int32

// ShardCount is the number of coordinator shards. A group hashes to a shard, so the number never changes in the life of a cluster.
const ShardCount = 64

// ShardEpoch counts the leading brokers of one coordinator shard.
type ShardEpoch int32

// UUID is a random 128-bit identifier. The zero value stands for "none".
type UUID [16]byte

// TopicID names a topic for ever: a topic deleted and created again under the same name has another id.
type TopicID = UUID

// DirectoryID names one data directory of one broker. A wiped disk has another one.
type DirectoryID = UUID

// IncarnationID names one run of a broker process.
type IncarnationID = UUID

// ClusterID names a cluster. It is chosen by the first committed metadata command.
type ClusterID = UUID

// IsZero reports whether u names nothing.
func (u UUID) IsZero() bool { return u == UUID{} }

// DrawUUID makes a UUID of what random, such as rand.Read, fills in. It is never zero, and its printed form does not begin with '-': command lines would take it
// for a flag, and Kafka avoids those too.
func DrawUUID(random func([]byte) (int, error)) UUID {
	for {
		var u UUID
		_, _ = random(u[:]) // crypto/rand never fails
		if !u.IsZero() && u.String()[0] != '-' {
			return u
		}
	}
}

// String gives the 22-character unpadded URL-safe base64 form, the form in which Kafka's tools print ids.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// errUUID reports text that is no 22-character base64 id.
var errUUID = errors.New("cluster: not a 22-character base64 id")

// ParseUUID reads the form that String gives.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(u) {
		return u, fmt.Errorf("%w: %q", errUUID, s)
	}
	copy(u[:], b)
	return u, nil
}

// TopicPartition is the key of a partition: topic id, never the name, so that a re-created topic is never taken for the old one.
type TopicPartition struct {
	Topic     TopicID
	Partition int32
}

// String gives "topicID-partition", the name of the partition's directory.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// Compare orders by topic id, then partition.
func (tp TopicPartition) Compare(o TopicPartition) int {
	for i := range tp.Topic {
		if d := int(tp.Topic[i]) - int(o.Topic[i]); d != 0 {
			return d
		}
	}
	return int(tp.Partition) - int(o.Partition)
}

// EpochEnd is an answer to "where does this leader epoch end in your log?".
type EpochEnd struct {
	Epoch record.LeaderEpoch
	End   record.Offset
}
