package cluster

import (
	"iter"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/moldau-log/moldau/record"
)

// Image is the cluster's metadata after one entry of the metadata log. It never changes: readers hold one without a lock for as long as
// they need a consistent view, and compare two with Diff. Everything reachable from it is to be treated as read-only.
type Image struct {
	index        uint64
	cluster      ClusterID
	createdMs    int64
	featureLevel int32
	nextProducer record.ProducerID

	topics     *iradix.Tree[*Topic]     // by id
	names      *iradix.Tree[*Topic]     // by name
	folded     *iradix.Tree[string]     // by name with '.' as '_': metrics of other systems fold them, so such names collide
	partitions *iradix.Tree[*Partition] // by topic id, partition
	brokers    *iradix.Tree[*Broker]    // by id
	configs    *iradix.Tree[Configs]    // brokers and the cluster default; a topic carries its own
	tombstones *iradix.Tree[Tombstone]  // by directory, topic id, partition
	shards     *[ShardCount]Shard
}

// EmptyImage is the metadata of a cluster before its first command: nothing, and every shard without a leader.
func EmptyImage() *Image {
	var shards [ShardCount]Shard
	for i := range shards {
		shards[i].Leader = NoBroker
	}
	return &Image{
		topics:     iradix.New[*Topic](),
		names:      iradix.New[*Topic](),
		folded:     iradix.New[string](),
		partitions: iradix.New[*Partition](),
		brokers:    iradix.New[*Broker](),
		configs:    iradix.New[Configs](),
		tombstones: iradix.New[Tombstone](),
		shards:     &shards,
	}
}

// Index is the index of the last applied entry of the metadata log, 0 before the first.
func (i *Image) Index() uint64 { return i.index }

// ClusterID is the id of the cluster, zero before InitCluster was applied.
func (i *Image) ClusterID() ClusterID { return i.cluster }

// CreatedMs is when the cluster was created, wall clock in milliseconds.
func (i *Image) CreatedMs() int64 { return i.createdMs }

// FeatureLevel is the finalized metadata feature level: nothing above it is ever proposed.
func (i *Image) FeatureLevel() int32 { return i.featureLevel }

// NextProducerID is the first producer id that no broker was given yet.
func (i *Image) NextProducerID() record.ProducerID { return i.nextProducer }

// Topic returns the topic of that id.
func (i *Image) Topic(id TopicID) (*Topic, bool) {
	k := topicKey(id)
	return i.topics.Get(k[:])
}

// TopicByName returns the topic of that name.
func (i *Image) TopicByName(name string) (*Topic, bool) { return i.names.Get([]byte(name)) }

// CollidingName returns the existing topic name that equals name or differs from it only in '.' against '_'.
func (i *Image) CollidingName(name string) (string, bool) { return i.folded.Get(foldName(name)) }

// TopicCount is the number of topics.
func (i *Image) TopicCount() int { return i.topics.Len() }

// Topics visits all topics in the order of their names.
func (i *Image) Topics() iter.Seq[*Topic] { return values(i.names) }

// Partition returns one partition.
func (i *Image) Partition(tp TopicPartition) (*Partition, bool) {
	k := partitionKey(tp)
	return i.partitions.Get(k[:])
}

// PartitionsOf visits the partitions of one topic in the order of their numbers.
func (i *Image) PartitionsOf(id TopicID) iter.Seq2[int32, *Partition] {
	return func(yield func(int32, *Partition) bool) {
		it := i.partitions.Root().Iterator()
		it.SeekPrefix(id[:])
		for k, p, ok := it.Next(); ok; k, p, ok = it.Next() {
			if !yield(parsePartitionKey(k).Partition, p) {
				return
			}
		}
	}
}

// AllPartitions visits every partition in the order of topic id and partition.
func (i *Image) AllPartitions() iter.Seq2[TopicPartition, *Partition] {
	return func(yield func(TopicPartition, *Partition) bool) {
		it := i.partitions.Root().Iterator()
		for k, p, ok := it.Next(); ok; k, p, ok = it.Next() {
			if !yield(parsePartitionKey(k), p) {
				return
			}
		}
	}
}

// PartitionCount is the number of partitions of all topics.
func (i *Image) PartitionCount() int { return i.partitions.Len() }

// Broker returns a registered broker.
func (i *Image) Broker(id BrokerID) (*Broker, bool) {
	k := brokerKey(id)
	return i.brokers.Get(k[:])
}

// Brokers visits the registered brokers in the order of their ids.
func (i *Image) Brokers() iter.Seq[*Broker] { return values(i.brokers) }

// BrokerCount is the number of registered brokers, fenced ones included.
func (i *Image) BrokerCount() int { return i.brokers.Len() }

// Eligible reports whether b is registered and may lead and join ISRs.
func (i *Image) Eligible(b BrokerID) bool {
	br, ok := i.Broker(b)
	return ok && br.Eligible()
}

// Holds reports whether b is registered with the data directory that p names for its copy: after a disk was wiped or swapped it does not, and the
// copy that p speaks of is gone.
func (i *Image) Holds(p *Partition, b BrokerID) bool {
	br, ok := i.Broker(b)
	return ok && p.Directory(b) == br.Directory
}

// Shard returns who coordinates a shard, and in which epoch. Its NextSequence is 0 here: the live one is part of the group state, which
// is outside the watched Image. It is the zero shard without leader for an id outside 0 to ShardCount-1.
func (i *Image) Shard(id ShardID) Shard {
	if id < 0 || id >= ShardCount {
		return Shard{Leader: NoBroker}
	}
	return i.shards[id]
}

// Configs returns the values that are set for a resource itself, without defaults.
func (i *Image) Configs(res ConfigResource) Configs {
	if res.Kind == ConfigTopic {
		t, ok := i.TopicByName(res.Name)
		if !ok {
			return nil
		}
		return t.Configs
	}
	c, _ := i.configs.Get(configKey(res))
	return c
}

// ConfigResources visits the broker resources and the cluster default that have values set, in the order of kind and name.
func (i *Image) ConfigResources() iter.Seq2[ConfigResource, Configs] {
	return func(yield func(ConfigResource, Configs) bool) {
		it := i.configs.Root().Iterator()
		for k, c, ok := it.Next(); ok; k, c, ok = it.Next() {
			if !yield(parseConfigKey(k), c) {
				return
			}
		}
	}
}

// Tombstones visits the marks of all replicas that are still to be removed from some directory.
func (i *Image) Tombstones() iter.Seq[Tombstone] { return values(i.tombstones) }

// TombstonesIn visits the marks of one directory.
func (i *Image) TombstonesIn(dir DirectoryID) iter.Seq[Tombstone] {
	return func(yield func(Tombstone) bool) {
		it := i.tombstones.Root().Iterator()
		it.SeekPrefix(dir[:])
		for _, t, ok := it.Next(); ok; _, t, ok = it.Next() {
			if !yield(t) {
				return
			}
		}
	}
}

// HasTombstone reports whether a replica is marked for removal.
func (i *Image) HasTombstone(t Tombstone) bool {
	k := tombstoneKey(t)
	_, ok := i.tombstones.Get(k[:])
	return ok
}

// values visits a tree's values in key order.
func values[T any](tree *iradix.Tree[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		it := tree.Root().Iterator()
		for _, v, ok := it.Next(); ok; _, v, ok = it.Next() {
			if !yield(v) {
				return
			}
		}
	}
}
