package cluster

import "github.com/moldau-log/moldau/record"

// SnapshotRecord is one piece of the whole metadata state, groups included, as a snapshot lists it. The set is closed. A snapshot is one
// SnapshotHeader, the rest in a fixed order of kinds and in key order within a kind, and one SnapshotEnd.
type SnapshotRecord interface{ snapshotRecord() }

// SnapshotHeader opens a snapshot.
type SnapshotHeader struct {
	Index          uint64
	Cluster        ClusterID
	CreatedMs      int64
	FeatureLevel   int32
	NextProducerID record.ProducerID
	Shards         [ShardCount]Shard
}

// SnapshotBroker is a registered broker.
type SnapshotBroker struct{ Broker *Broker }

// SnapshotTopic is a topic.
type SnapshotTopic struct{ Topic *Topic }

// SnapshotPartition is a partition; its topic came before.
type SnapshotPartition struct {
	Key       TopicPartition
	Partition *Partition
}

// SnapshotConfigs are the configs of a broker or the cluster default.
type SnapshotConfigs struct {
	Resource ConfigResource
	Configs  Configs
}

// SnapshotTombstone is a tombstone.
type SnapshotTombstone struct{ Tombstone Tombstone }

// SnapshotGroup is the state of a group.
type SnapshotGroup struct{ Group *GroupState }

// SnapshotOffsets are the committed offsets of one group in one topic, by rising partition. Its group came before.
type SnapshotOffsets struct {
	Group   string
	Topic   TopicID
	Offsets []PartitionOffset
}

// PartitionOffset is a committed offset with the number of its partition.
type PartitionOffset struct {
	Partition int32
	Committed CommittedOffset
}

// SnapshotEnd closes a snapshot: without it, or with another count of the records before it, the snapshot is torn.
type SnapshotEnd struct{ Records uint64 }

func (SnapshotHeader) snapshotRecord()    {}
func (SnapshotBroker) snapshotRecord()    {}
func (SnapshotTopic) snapshotRecord()     {}
func (SnapshotPartition) snapshotRecord() {}
func (SnapshotConfigs) snapshotRecord()   {}
func (SnapshotTombstone) snapshotRecord() {}
func (SnapshotGroup) snapshotRecord()     {}
func (SnapshotOffsets) snapshotRecord()   {}
func (SnapshotEnd) snapshotRecord()       {}
