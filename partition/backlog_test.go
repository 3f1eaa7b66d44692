package partition

import (
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
)

// TestLargeTopicKeepsNoNewsBack: one Reconcile creates a bounded number of replicas. A change of another partition that comes while the rest waits is told at once, what is
// no longer wanted is not created, and in the end everything wanted is there.
func TestLargeTopicKeepsNoNewsBack(t *testing.T) {
	const n = 3*createPass + 5
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1)
	big := func(p int) cluster.TopicPartition {
		return cluster.TopicPartition{Topic: cluster.TopicID{77}, Partition: int32(p)}
	}
	k.change(func(txn *cluster.Txn) {
		txn.PutTopic(&cluster.Topic{ID: cluster.TopicID{77}, Name: "big", Partitions: n, ReplicationFactor: 1})
		for p := range n {
			txn.PutPartition(big(p), &cluster.Partition{
				Replicas: []cluster.BrokerID{1}, Directories: []cluster.DirectoryID{testDirectory}, ISR: []cluster.BrokerID{1}, Leader: 1, PartitionEpoch: 1,
			})
		}
	})
	reconcile := func() bool { return k.manager.Reconcile(cluster.Diff(cluster.EmptyImage(), k.image), k.epoch) }
	count := func() (have int) {
		for tp := range k.manager.All() {
			if tp.Topic == big(0).Topic {
				have++
			}
		}
		return have
	}
	if more := reconcile(); !more || count() != createPass {
		t.Fatalf("the first call: %d replicas, more: %v; want %d and more", count(), more, createPass)
	}
	// Meanwhile another partition gets a new leader epoch, and the last partition of the big topic goes away.
	old, _ := k.image.Partition(testTP)
	next := old.Clone()
	next.LeaderEpoch++
	next.PartitionEpoch++
	k.change(func(txn *cluster.Txn) {
		txn.PutPartition(testTP, next)
		txn.DeletePartition(big(n - 1))
	})
	more := reconcile()
	if !more || count() != 2*createPass {
		t.Errorf("the second call: %d replicas, more: %v; want %d and more", count(), more, 2*createPass)
	}
	if r, ok := k.manager.Get(testTP); !ok || r.Status().LeaderEpoch != next.LeaderEpoch {
		t.Error("the other partition has not heard of its leader epoch")
	}
	for calls := 0; more; calls++ {
		if calls > n {
			t.Fatal("it never ends")
		}
		more = reconcile()
	}
	if count() != n-1 {
		t.Errorf("%d replicas in the end, want %d", count(), n-1)
	}
	if _, ok := k.manager.Get(big(n - 1)); ok {
		t.Error("a replica was created that is not wanted any more")
	}
}
