package cluster

import (
	"strings"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/moldau-log/moldau/record"
)

// Txn gathers changes to an Image and makes the next one of them. Reads through Image see the changes made so far. It belongs to one goroutine, and is
// of no use after Commit. Only controller/state makes Images; everybody else reads them.
type Txn struct {
	base *Image
	img  Image // the state so far, apart from the trees that have an open transaction below

	topics     *iradix.Txn[*Topic]
	names      *iradix.Txn[*Topic]
	folded     *iradix.Txn[string]
	partitions *iradix.Txn[*Partition]
	brokers    *iradix.Txn[*Broker]
	configs    *iradix.Txn[Configs]
	tombstones *iradix.Txn[Tombstone]
}

// Txn begins a transaction on top of i, which stays as it is.
func (i *Image) Txn() *Txn { return &Txn{base: i, img: *i} }

// edit opens a tree's transaction at its first change, so that an untouched tree keeps its root and Diff sees at once that it is equal.
func edit[T any](open **iradix.Txn[T], tree *iradix.Tree[T]) *iradix.Txn[T] {
	if *open == nil {
		*open = tree.Txn()
	}
	return *open
}

// settle puts a tree's changes into place.
func settle[T any](open **iradix.Txn[T], tree **iradix.Tree[T]) {
	if *open != nil {
		*tree = (*open).Commit()
		*open = nil
	}
}

// SetCluster sets the cluster's identity.
func (t *Txn) SetCluster(id ClusterID, createdMs int64) {
	t.img.cluster, t.img.createdMs = id, createdMs
}

// SetFeatureLevel sets the finalized metadata feature level.
func (t *Txn) SetFeatureLevel(level int32) { t.img.featureLevel = level }

// SetNextProducerID sets the first producer id that is still free.
func (t *Txn) SetNextProducerID(id record.ProducerID) { t.img.nextProducer = id }

// PutTopic adds or replaces a topic. A topic keeps its name for ever.
func (t *Txn) PutTopic(topic *Topic) {
	k := topicKey(topic.ID)
	edit(&t.topics, t.img.topics).Insert(k[:], topic)
	edit(&t.names, t.img.names).Insert([]byte(topic.Name), topic)
	fold := foldName(topic.Name)
	if _, ok := t.getFolded(fold); !ok {
		edit(&t.folded, t.img.folded).Insert(fold, topic.Name)
	}
}

func (t *Txn) getFolded(fold []byte) (string, bool) {
	if t.folded != nil {
		return t.folded.Get(fold)
	}
	return t.img.folded.Get(fold)
}

// DeleteTopic removes a topic; its partitions are removed by DeletePartition.
func (t *Txn) DeleteTopic(topic *Topic) {
	k := topicKey(topic.ID)
	edit(&t.topics, t.img.topics).Delete(k[:])
	edit(&t.names, t.img.names).Delete([]byte(topic.Name))
	edit(&t.folded, t.img.folded).Delete(foldName(topic.Name))
}

// PutPartition adds or replaces a partition. p must not be changed afterwards.
func (t *Txn) PutPartition(tp TopicPartition, p *Partition) {
	k := partitionKey(tp)
	edit(&t.partitions, t.img.partitions).Insert(k[:], p)
}

// DeletePartition removes a partition.
func (t *Txn) DeletePartition(tp TopicPartition) {
	k := partitionKey(tp)
	edit(&t.partitions, t.img.partitions).Delete(k[:])
}

// Partition reads a partition as changed so far.
func (t *Txn) Partition(tp TopicPartition) (*Partition, bool) {
	k := partitionKey(tp)
	if t.partitions != nil {
		return t.partitions.Get(k[:])
	}
	return t.img.partitions.Get(k[:])
}

// PutBroker adds or replaces a broker. b must not be changed afterwards.
func (t *Txn) PutBroker(b *Broker) {
	k := brokerKey(b.ID)
	edit(&t.brokers, t.img.brokers).Insert(k[:], b)
}

// DeleteBroker removes a broker.
func (t *Txn) DeleteBroker(id BrokerID) {
	k := brokerKey(id)
	edit(&t.brokers, t.img.brokers).Delete(k[:])
}

// PutShard replaces one shard. The id must be in range.
func (t *Txn) PutShard(id ShardID, s Shard) {
	if t.img.shards == t.base.shards {
		c := *t.base.shards
		t.img.shards = &c
	}
	t.img.shards[id] = s
}

// PutConfigs replaces the values set for a broker or the cluster default; none left removes the resource. A topic's configs are part of the topic.
func (t *Txn) PutConfigs(res ConfigResource, c Configs) {
	if len(c) == 0 {
		edit(&t.configs, t.img.configs).Delete(configKey(res))
		return
	}
	edit(&t.configs, t.img.configs).Insert(configKey(res), c)
}

// PutTombstone marks a replica for removal.
func (t *Txn) PutTombstone(s Tombstone) {
	k := tombstoneKey(s)
	edit(&t.tombstones, t.img.tombstones).Insert(k[:], s)
}

// DeleteTombstone takes a mark away and reports whether it was there.
func (t *Txn) DeleteTombstone(s Tombstone) bool {
	k := tombstoneKey(s)
	if t.tombstones == nil {
		if _, ok := t.img.tombstones.Get(k[:]); !ok {
			return false
		}
	}
	_, ok := edit(&t.tombstones, t.img.tombstones).Delete(k[:])
	return ok
}

// Broker reads a broker as changed so far.
func (t *Txn) Broker(id BrokerID) (*Broker, bool) {
	k := brokerKey(id)
	if t.brokers != nil {
		return t.brokers.Get(k[:])
	}
	return t.img.brokers.Get(k[:])
}

// Shard reads a shard as changed so far. The id must be in range.
func (t *Txn) Shard(id ShardID) Shard { return t.img.shards[id] }

// Image is the state with the changes made so far, under the index of the base.
func (t *Txn) Image() *Image {
	t.settle()
	img := t.img
	// The array is shared with the image just handed out: the next PutShard has to copy it again.
	t.base = &img
	return &img
}

// Commit returns the new Image, as of the entry index of the metadata log.
func (t *Txn) Commit(index uint64) *Image {
	t.settle()
	img := t.img
	img.index = index
	return &img
}

func (t *Txn) settle() {
	settle(&t.topics, &t.img.topics)
	settle(&t.names, &t.img.names)
	settle(&t.folded, &t.img.folded)
	settle(&t.partitions, &t.img.partitions)
	settle(&t.brokers, &t.img.brokers)
	settle(&t.configs, &t.img.configs)
	settle(&t.tombstones, &t.img.tombstones)
}

// foldName maps a topic name to the form in which '.' and '_' are one character.
func foldName(name string) []byte { return []byte(strings.ReplaceAll(name, ".", "_")) }
