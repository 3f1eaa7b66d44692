package partition

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/segment"
)

// patience bounds every wait of a test for another goroutine.
const patience = 10 * time.Second

// fakeClock is a clock that tests move.
type fakeClock struct {
	mono atomic.Int64
	wall atomic.Int64
}

func newClock() *fakeClock {
	c := &fakeClock{}
	c.mono.Store(int64(time.Hour))
	c.wall.Store(1_700_000_000_000)
	return c
}

func (c *fakeClock) Now() time.Duration { return time.Duration(c.mono.Load()) }
func (c *fakeClock) WallMs() int64      { return c.wall.Load() }

func (c *fakeClock) pass(d time.Duration) {
	c.mono.Add(int64(d))
	c.wall.Add(d.Milliseconds())
}

// fakeOutputs remembers what partitions ask for.
type fakeOutputs struct {
	mu        sync.Mutex // guards the rest
	news      chan struct{}
	subscribe []cluster.TopicPartition
	acks      []Progress
	alters    []cluster.ISRChange
	offline   []error
	online    []cluster.TopicPartition
	removed   []cluster.Tombstone
	parked    []string
}

func newOutputs() *fakeOutputs { return &fakeOutputs{news: make(chan struct{}, 1)} }

func (o *fakeOutputs) note(f func()) {
	o.mu.Lock()
	f()
	o.mu.Unlock()
	select {
	case o.news <- struct{}{}:
	default:
	}
}

func (o *fakeOutputs) Subscribe(tp cluster.TopicPartition, _ cluster.BrokerID, _ record.LeaderEpoch) {
	o.note(func() { o.subscribe = append(o.subscribe, tp) })
}
func (o *fakeOutputs) Unsubscribe(cluster.TopicPartition, record.LeaderEpoch) {}
func (o *fakeOutputs) Ack(_ cluster.TopicPartition, _ record.LeaderEpoch, p Progress) {
	o.note(func() { o.acks = append(o.acks, p) })
}
func (o *fakeOutputs) Alter(c cluster.ISRChange) { o.note(func() { o.alters = append(o.alters, c) }) }
func (o *fakeOutputs) Offline(_ cluster.TopicPartition, reason error) {
	o.note(func() { o.offline = append(o.offline, reason) })
}
func (o *fakeOutputs) Online(tp cluster.TopicPartition) {
	o.note(func() { o.online = append(o.online, tp) })
}
func (o *fakeOutputs) Removed(t []cluster.Tombstone) {
	o.note(func() { o.removed = append(o.removed, t...) })
}
func (o *fakeOutputs) Parked(d []string) { o.note(func() { o.parked = append(o.parked, d...) }) }

// await waits until ok holds of the outputs.
func (o *fakeOutputs) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		o.mu.Lock()
		done := ok()
		o.mu.Unlock()
		if done {
			return
		}
		select {
		case <-o.news:
		case <-deadline:
			t.Fatalf("no %s within %s", what, patience)
		}
	}
}

var (
	testTopic     = cluster.TopicID{7}
	testTP        = cluster.TopicPartition{Topic: testTopic, Partition: 0}
	testDirectory = cluster.DirectoryID{9}
	testCluster   = cluster.ClusterID{5}
)

// kit is a manager on a file system in memory, with the metadata of a small cluster of which it is broker 1.
type kit struct {
	t       testing.TB
	fs      vfs.FS
	clock   *fakeClock
	outputs *fakeOutputs
	manager *Manager
	image   *cluster.Image
	index   uint64
	epoch   cluster.BrokerEpoch
	options Options
}

// newKit starts a manager without any partition, with options that set may change.
func newKit(t testing.TB, fs vfs.FS, set ...func(*Options)) *kit {
	t.Helper()
	return newKitAt(t, fs, "data", set...)
}

// newKitAt is newKit with a data directory of its own.
func newKitAt(t testing.TB, fs vfs.FS, root string, set ...func(*Options)) *kit {
	t.Helper()
	k := &kit{t: t, fs: fs, clock: newClock(), image: cluster.EmptyImage()}
	k.options = Options{FS: fs, Root: root, Broker: 1, Directory: testDirectory, Clock: k.clock, MaintainEvery: time.Hour}
	for _, f := range set {
		f(&k.options)
	}
	k.change(func(txn *cluster.Txn) { txn.SetCluster(testCluster, 0) })
	k.start()
	t.Cleanup(func() { _ = k.manager.Close(context.Background()) })
	return k
}

// start runs a manager over what is on disk, registered anew.
func (k *kit) start() LoadReport {
	k.t.Helper()
	k.outputs = newOutputs()
	k.options.Outputs = k.outputs
	var err error
	k.manager, err = NewManager(k.options)
	k.check(err)
	report, err := k.manager.Load(context.Background())
	k.check(err)
	k.manager.Contact(k.clock.Now() + time.Hour)
	k.register(1)
	return report
}

// restart replaces the manager after a crash, of which fs is what is left, and registers it.
func (k *kit) restart(fs vfs.FS) LoadReport {
	k.t.Helper()
	k.abandon()
	k.fs, k.options.FS = fs, fs
	return k.start()
}

// abandon lets go of everything without any mark, as a crash does.
func (k *kit) abandon() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = k.manager.Close(ctx)
}

func (k *kit) check(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// change makes the next image.
func (k *kit) change(f func(txn *cluster.Txn)) {
	txn := k.image.Txn()
	f(txn)
	k.index++
	k.image = txn.Commit(k.index)
}

// register gives a broker a new broker epoch.
func (k *kit) register(id cluster.BrokerID) {
	k.change(func(txn *cluster.Txn) {
		txn.PutBroker(&cluster.Broker{ID: id, Epoch: cluster.BrokerEpoch(k.index + 1), Directory: directoryOf(id)})
	})
	if id == 1 {
		k.epoch = cluster.BrokerEpoch(k.index)
	}
}

func directoryOf(id cluster.BrokerID) cluster.DirectoryID {
	if id == 1 {
		return testDirectory
	}
	return cluster.DirectoryID{byte(id), 1}
}

// topic creates the test topic with one partition on brokers 1 to n, led by leader.
func (k *kit) topic(n int, leader cluster.BrokerID, configs ...cluster.ConfigEntry) *Runner {
	k.t.Helper()
	k.put(testTP, n, leader, 1, configs...)
	k.reconcile()
	r, ok := k.manager.Get(testTP)
	if !ok {
		k.t.Fatal("no replica after Reconcile")
	}
	return r
}

// put writes a topic of one partition into the metadata.
func (k *kit) put(tp cluster.TopicPartition, n int, leader cluster.BrokerID, epoch record.LeaderEpoch, configs ...cluster.ConfigEntry) {
	p := &cluster.Partition{Leader: leader, LeaderEpoch: epoch, PartitionEpoch: cluster.PartitionEpoch(k.index + 1)}
	for i := range n {
		id := cluster.BrokerID(i + 1)
		if _, ok := k.image.Broker(id); !ok {
			k.register(id)
		}
		p.Replicas = append(p.Replicas, id)
		p.ISR = append(p.ISR, id)
		p.Directories = append(p.Directories, directoryOf(id))
	}
	k.change(func(txn *cluster.Txn) {
		txn.PutTopic(&cluster.Topic{ID: tp.Topic, Name: fmt.Sprintf("t%d", tp.Topic[0]), Partitions: 1, ReplicationFactor: int16(n), Configs: configs})
		txn.PutPartition(tp, p)
	})
}

// elect begins a leader epoch.
func (k *kit) elect(leader cluster.BrokerID) {
	old, _ := k.image.Partition(testTP)
	p := old.Clone()
	p.Leader = leader
	p.LeaderEpoch++
	p.PartitionEpoch++
	k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, p) })
	k.reconcile()
}

// trimmed commits a log start, without telling the broker yet.
func (k *kit) trimmed(to record.Offset) {
	old, _ := k.image.Partition(testTP)
	p := old.Clone()
	p.LogStart, p.PartitionEpoch = to, p.PartitionEpoch+1
	k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, p) })
}

func (k *kit) reconcile() { k.manager.Reconcile(cluster.Diff(cluster.EmptyImage(), k.image), k.epoch) }

// runner is the test partition's.
func (k *kit) runner() *Runner {
	k.t.Helper()
	r, ok := k.manager.Get(testTP)
	if !ok {
		k.t.Fatal("no replica")
	}
	return r
}

// call produces a batch and returns the channel that gets the answer.
func call(r *Runner, batch []byte, acks Acks, deadline time.Duration) <-chan ProduceResult {
	answer := make(chan ProduceResult, 1)
	r.Produce(ProduceRequest{LeaderEpoch: record.NoEpoch, Batch: batch, Acks: acks, Deadline: deadline},
		NewCompletion(func(res ProduceResult) { answer <- res }))
	return answer
}

// produce is call and the answer.
func (k *kit) produce(batch []byte, acks Acks) ProduceResult {
	k.t.Helper()
	return k.answer(call(k.runner(), batch, acks, k.clock.Now()+time.Minute))
}

func (k *kit) answer(answer <-chan ProduceResult) ProduceResult {
	k.t.Helper()
	select {
	case res := <-answer:
		return res
	case <-time.After(patience):
		k.t.Fatal("no answer")
		return ProduceResult{}
	}
}

// checkProduced compares an answer.
func (k *kit) checkProduced(res ProduceResult, code cluster.Code, base record.Offset) {
	k.t.Helper()
	if res.Code != code || res.BaseOffset != base {
		k.t.Errorf("produced: %s at %d (%s), want %s at %d", res.Code, res.BaseOffset, res.Message, code, base)
	}
}

// sent is a batch as a producer sends it.
type sent struct {
	id      record.ProducerID
	epoch   record.ProducerEpoch
	seq     record.Sequence
	values  []string
	ts      int64
	txn     bool
	padding int
}

func (s sent) bytes(t testing.TB) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{ProducerID: s.id, ProducerEpoch: s.epoch, BaseSequence: s.seq, Transactional: s.txn})
	for _, v := range s.values {
		b.Append(max(s.ts, 1), nil, append([]byte(v), make([]byte, s.padding)...), nil)
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return batch.Bytes()
}

// values reads everything below the watermark.
func (k *kit) values() []string {
	k.t.Helper()
	var out []string
	r := k.runner()
	for at := record.Offset(r.Status().LogStart); ; {
		res := r.Read(ReadRequest{Offset: at, MaxBytes: 1 << 20, LeaderEpoch: record.NoEpoch, LastEpoch: record.NoEpoch, Follower: true})
		if res.Code != cluster.CodeNone {
			k.t.Fatalf("read at %d: %s: %v", at, res.Code, res.Err)
		}
		if res.Slice.Len() == 0 {
			return out
		}
		out, at = appendValues(k.t, out, res.Slice)
	}
}

func appendValues(t testing.TB, out []string, s segment.Slice) ([]string, record.Offset) {
	t.Helper()
	defer s.Release()
	b, err := s.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	var end record.Offset
	err = record.Split(b, func(b record.Batch) error {
		end = b.NextOffset()
		for r, err := range b.All(1 << 20) {
			if err != nil {
				return err
			}
			out = append(out, strings.TrimRight(string(r.Value), "\x00"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, end
}

func (k *kit) checkValues(want ...string) {
	k.t.Helper()
	if got := k.values(); !slices.Equal(got, want) {
		k.t.Errorf("values are %q, want %q", got, want)
	}
}
