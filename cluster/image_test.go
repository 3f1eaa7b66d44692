package cluster

import (
	"fmt"
	"slices"
	"testing"
)

func id(n byte) UUID { return UUID{0: n, 15: n} }

func part(leader BrokerID) *Partition {
	return &Partition{Replicas: []BrokerID{1, 2, 3}, ISR: []BrokerID{1, 2, 3}, Leader: leader, Directories: []DirectoryID{id(1), id(2), id(3)}}
}

// sample has two topics ("b" with the lower id), two brokers, a tombstone and a cluster default.
func sample() *Image {
	t := EmptyImage().Txn()
	t.SetCluster(id(9), 1000)
	t.PutTopic(&Topic{ID: id(2), Name: "a.x", Partitions: 2, ReplicationFactor: 3})
	t.PutTopic(&Topic{ID: id(1), Name: "b", Partitions: 1, ReplicationFactor: 3})
	t.PutPartition(TopicPartition{id(2), 1}, part(2))
	t.PutPartition(TopicPartition{id(2), 0}, part(1))
	t.PutPartition(TopicPartition{id(1), 0}, part(3))
	t.PutBroker(&Broker{ID: 2, Epoch: 7, Directory: id(2)})
	t.PutBroker(&Broker{ID: 1, Epoch: 6, Directory: id(1), Fenced: true})
	t.PutTombstone(Tombstone{Partition: TopicPartition{id(5), 0}, Directory: id(2)})
	t.PutShard(3, Shard{Leader: 2, Epoch: 1})
	return t.Commit(10)
}

func TestImageReadsInOrder(t *testing.T) {
	i := sample()
	var got []string
	for topic := range i.Topics() {
		got = append(got, topic.Name)
	}
	for tp := range i.AllPartitions() {
		got = append(got, fmt.Sprint(tp.Topic[0], "/", tp.Partition))
	}
	for n, p := range i.PartitionsOf(id(2)) {
		got = append(got, fmt.Sprint("p", n, " leader ", p.Leader))
	}
	for b := range i.Brokers() {
		got = append(got, fmt.Sprint("broker ", b.ID))
	}
	for s := range i.TombstonesIn(id(2)) {
		got = append(got, "tombstone "+s.Partition.String())
	}
	for range i.TombstonesIn(id(3)) {
		t.Fatal("a tombstone of another directory")
	}
	want := []string{"a.x", "b", "1/0", "2/0", "2/1", "p0 leader 1", "p1 leader 2", "broker 1", "broker 2", "tombstone " + TopicPartition{id(5), 0}.String()}
	if !slices.Equal(got, want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
	if i.Index() != 10 || i.TopicCount() != 2 || i.PartitionCount() != 3 || i.BrokerCount() != 2 || i.Shard(3).Leader != 2 || i.Shard(4).Leader != NoBroker {
		t.Fatalf("counts: %d %d %d %d %+v", i.Index(), i.TopicCount(), i.PartitionCount(), i.BrokerCount(), i.Shard(3))
	}
	if i.Eligible(1) || !i.Eligible(2) || i.Eligible(3) {
		t.Fatal("eligible: only broker 2 is registered and not fenced")
	}
	if p, _ := i.Partition(TopicPartition{id(2), 0}); !i.Holds(p, 2) || i.Holds(p, 3) {
		t.Fatal("holds: broker 2 has the directory of the partition, broker 3 is not registered")
	}
}

func TestImageIsImmutable(t *testing.T) {
	old := sample()
	txn := old.Txn()
	txn.PutPartition(TopicPartition{id(2), 0}, part(NoBroker))
	txn.PutShard(3, Shard{Leader: 1, Epoch: 2})
	mid := txn.Image()
	txn.PutShard(3, Shard{Leader: NoBroker, Epoch: 3})
	topic, _ := old.Topic(id(1))
	txn.DeleteTopic(topic)
	txn.DeletePartition(TopicPartition{id(1), 0})
	now := txn.Commit(11)

	for _, c := range []struct {
		name   string
		img    *Image
		leader BrokerID
		shard  BrokerID
		topics int
	}{{"old", old, 1, 2, 2}, {"mid", mid, NoBroker, 1, 2}, {"new", now, NoBroker, NoBroker, 1}} {
		p, _ := c.img.Partition(TopicPartition{id(2), 0})
		if p.Leader != c.leader || c.img.Shard(3).Leader != c.shard || c.img.TopicCount() != c.topics {
			t.Errorf("%s: leader %d shard %d topics %d", c.name, p.Leader, c.img.Shard(3).Leader, c.img.TopicCount())
		}
	}
	if _, ok := now.TopicByName("b"); ok {
		t.Error("a deleted topic is found by name")
	}
	if _, taken := now.CollidingName("b"); taken {
		t.Error("a deleted topic still blocks its name")
	}
}

// collect prints a delta.
func collect(d *Delta) []string {
	var out []string
	for c := range d.Topics() {
		out = append(out, fmt.Sprint("topic ", c.Key[0], c.Old != nil, c.New != nil))
	}
	for c := range d.Partitions() {
		out = append(out, fmt.Sprint("partition ", c.Key.Topic[0], "/", c.Key.Partition, " ", c.Old != nil, c.New != nil))
	}
	for c := range d.Brokers() {
		out = append(out, fmt.Sprint("broker ", c.Key, c.Old != nil, c.New != nil))
	}
	for c := range d.Shards() {
		out = append(out, fmt.Sprint("shard ", c.Key, " ", c.Old.Leader, "->", c.New.Leader))
	}
	for c := range d.Configs() {
		out = append(out, fmt.Sprint("config ", c.Key.Kind, " ", c.Key.Name, " ", len(c.Old), "->", len(c.New)))
	}
	for c := range d.Tombstones() {
		out = append(out, fmt.Sprint("tombstone ", c.Key.Directory[0], c.Old != Tombstone{}, c.New != Tombstone{}))
	}
	return out
}

func TestDiff(t *testing.T) {
	old := sample()
	txn := old.Txn()
	txn.PutTopic(&Topic{ID: id(4), Name: "new", Partitions: 1})
	txn.PutPartition(TopicPartition{id(4), 0}, part(1))
	txn.PutPartition(TopicPartition{id(2), 1}, part(3))
	gone, _ := old.Topic(id(1))
	txn.DeleteTopic(gone)
	txn.DeletePartition(TopicPartition{id(1), 0})
	txn.PutBroker(&Broker{ID: 1, Epoch: 6, Directory: id(1)})
	txn.PutShard(3, Shard{Leader: 1, Epoch: 2})
	txn.PutConfigs(ConfigResource{Kind: ConfigClusterDefault}, Configs{{"num.partitions", "3"}})
	txn.DeleteTombstone(Tombstone{Partition: TopicPartition{id(5), 0}, Directory: id(2)})
	d := Diff(old, txn.Commit(12))
	want := []string{
		"topic 1 true false", "topic 4 false true",
		"partition 1/0 true false", "partition 2/1 true true", "partition 4/0 false true",
		"broker 1 true true", "shard 3 2->1", "config cluster  0->1", "tombstone 2 true false",
	}
	if got := collect(d); !slices.Equal(got, want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
	if d.Empty() {
		t.Fatal("a delta with changes calls itself empty")
	}
	if next := old.Txn().Commit(13); !Diff(old, next).Empty() || Diff(old, next).New.Index() != 13 {
		t.Fatal("an index alone is no change")
	}
}
