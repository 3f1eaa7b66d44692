package partition

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/replication/session"
)

// town is three brokers in one process: real managers, fetchers and senders, pipes for sockets, and a controller that decides at once.
type town struct {
	t     testing.TB
	nodes map[cluster.BrokerID]*townNode

	mu    sync.Mutex // guards the metadata
	image *cluster.Image
	index uint64
	news  chan struct{} // capacity 1
	done  chan struct{}
	group sync.WaitGroup
	// offline, if set, takes what brokers report of failed replicas; without it such a report fails the test.
	offline func(n *townNode, reason error)
}

// townNode is one broker.
type townNode struct {
	town    *town
	id      cluster.BrokerID
	epoch   cluster.BrokerEpoch
	disk    *vfs.Mem
	manager *Manager
	fetcher *fetcher.Fetcher
	sender  *fetcher.Sender
	dead    atomic.Bool // its network is gone

	mu    sync.Mutex // guards pipes
	pipes []*pipe    // from its followers
}

func newTown(t testing.TB, n int) *town {
	w := &town{t: t, nodes: map[cluster.BrokerID]*townNode{}, image: cluster.EmptyImage(), news: make(chan struct{}, 1), done: make(chan struct{})}
	w.change(func(txn *cluster.Txn) { txn.SetCluster(testCluster, 0) })
	p := &cluster.Partition{Leader: 1, LeaderEpoch: 1, PartitionEpoch: 1}
	for id := cluster.BrokerID(1); id <= cluster.BrokerID(n); id++ {
		w.change(func(txn *cluster.Txn) {
			txn.PutBroker(&cluster.Broker{ID: id, Epoch: cluster.BrokerEpoch(w.index + 1), Directory: cluster.DirectoryID{byte(id)}})
		})
		p.Replicas, p.ISR, p.Directories = append(p.Replicas, id), append(p.ISR, id), append(p.Directories, cluster.DirectoryID{byte(id)})
		w.nodes[id] = w.start(id, cluster.BrokerEpoch(w.index), vfs.NewMem())
	}
	w.change(func(txn *cluster.Txn) {
		txn.PutTopic(&cluster.Topic{ID: testTopic, Name: "t", Partitions: 1, ReplicationFactor: int16(n)})
		txn.PutPartition(testTP, p)
	})
	w.group.Go(w.publish)
	t.Cleanup(w.close)
	return w
}

func (w *town) start(id cluster.BrokerID, epoch cluster.BrokerEpoch, disk *vfs.Mem) *townNode {
	n := &townNode{town: w, id: id, epoch: epoch, disk: disk}
	var err error
	n.manager, err = NewManager(Options{FS: n.disk, Root: "data", Broker: id, Directory: cluster.DirectoryID{byte(id)}, Outputs: n})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := n.manager.Load(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	n.fetcher = fetcher.New(fetcher.Config{
		Transport: n, Target: n.manager, Log: quiet(),
		Redial:      session.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond},
		Resubscribe: session.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond},
	})
	n.fetcher.SetEpoch(epoch)
	n.sender = fetcher.NewSender(fetcher.SenderConfig{Source: n.manager, Log: quiet()})
	return n
}

func (w *town) close() {
	close(w.done)
	for _, n := range w.all() {
		n.fetcher.Close() // which ends the streams
	}
	w.group.Wait()
	for _, n := range w.all() {
		if err := n.manager.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// change commits metadata.
func (w *town) change(f func(txn *cluster.Txn)) {
	txn := w.image.Txn()
	f(txn)
	w.index++
	w.image = txn.Commit(w.index)
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// publish hands the newest metadata to every broker.
func (w *town) publish() {
	for {
		select {
		case <-w.done:
			return
		case <-w.news:
		}
		w.mu.Lock()
		image := w.image
		w.mu.Unlock()
		for _, n := range w.all() {
			n.manager.Contact(n.manager.options.Clock.Now() + time.Hour)
			n.manager.Reconcile(cluster.Diff(cluster.EmptyImage(), image), n.epoch)
		}
	}
}

// edit changes the partition.
func (w *town) edit(f func(p *cluster.Partition) bool) cluster.ItemResult {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, _ := w.image.Partition(testTP)
	p := old.Clone()
	if !f(p) {
		return cluster.ItemResult{Code: cluster.CodeStalePartitionEpoch, Partition: old}
	}
	p.PartitionEpoch++
	w.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, p) })
	return cluster.ItemResult{Partition: p}
}

// transfer elects another member of the ISR.
func (w *town) transfer(pick int) {
	w.edit(func(p *cluster.Partition) bool {
		p.Leader = p.ISR[pick%len(p.ISR)]
		p.LeaderEpoch++
		return true
	})
}

func (w *town) leader() *Runner {
	w.mu.Lock()
	p, _ := w.image.Partition(testTP)
	n := w.nodes[p.Leader]
	w.mu.Unlock()
	if n == nil {
		return nil
	}
	r, _ := n.manager.Get(testTP)
	return r
}

// all lists the brokers that run.
func (w *town) all() []*townNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*townNode
	for id := cluster.BrokerID(1); id <= 9; id++ {
		if n := w.nodes[id]; n != nil {
			all = append(all, n)
		}
	}
	return all
}

// powerCut takes brokers down at once, with everything that they have not synced, and starts them again under new registrations, fast enough that
// nobody has fenced them: what they led gets a new leader epoch in the same step, and they keep their places in the ISR, because everything
// acknowledged was flushed.
func (w *town) powerCut(rng *rand.Rand, ids ...cluster.BrokerID) {
	disks := map[cluster.BrokerID]*vfs.Mem{}
	for _, id := range ids {
		disks[id] = w.kill(id, rng)
	}
	for _, id := range ids {
		w.mu.Lock()
		w.change(func(txn *cluster.Txn) {
			txn.PutBroker(&cluster.Broker{ID: id, Epoch: cluster.BrokerEpoch(w.index + 1), Directory: cluster.DirectoryID{byte(id)}})
			old, _ := w.image.Partition(testTP)
			if p := old.Clone(); p.Leader == id {
				p.Leader = p.ISR[(slices.Index(p.ISR, id)+1)%len(p.ISR)]
				p.LeaderEpoch++
				p.PartitionEpoch++
				txn.PutPartition(testTP, p)
			}
		})
		w.nodes[id] = w.start(id, cluster.BrokerEpoch(w.index), disks[id])
		w.mu.Unlock()
	}
}

// kill ends a broker and returns what is left on its disk. Nothing is acknowledged after the picture of the disk is taken: the network goes first, then
// the runners, which mark and sync nothing on their way out.
func (w *town) kill(id cluster.BrokerID, rng *rand.Rand) *vfs.Mem {
	w.mu.Lock()
	n := w.nodes[id]
	delete(w.nodes, id)
	w.mu.Unlock()
	n.dead.Store(true)
	n.mu.Lock()
	for _, p := range n.pipes {
		_ = p.Close()
	}
	n.mu.Unlock()
	for _, r := range n.manager.sorted() {
		<-r.halt(func(p *Partition) error {
			p.Abandon()
			return nil
		})
	}
	disk := n.disk.Crash(rng)
	n.fetcher.Close()
	_ = n.manager.Close(context.Background())
	return disk
}

// The methods of Outputs.

func (n *townNode) Subscribe(tp cluster.TopicPartition, leader cluster.BrokerID, epoch record.LeaderEpoch) {
	n.fetcher.Follow(tp, leader, epoch)
}

func (n *townNode) Unsubscribe(tp cluster.TopicPartition, epoch record.LeaderEpoch) {
	n.fetcher.Unfollow(tp, epoch)
}

func (n *townNode) Ack(tp cluster.TopicPartition, epoch record.LeaderEpoch, p Progress) {
	n.fetcher.Ack(tp, epoch, session.Ack{LogEnd: p.LogEnd, Flushed: p.Flushed, LogStart: p.LogStart})
}

func (n *townNode) Alter(c cluster.ISRChange) {
	n.town.group.Go(func() {
		res := n.town.edit(func(p *cluster.Partition) bool {
			if p.PartitionEpoch != c.PartitionEpoch || p.LeaderEpoch != c.LeaderEpoch {
				return false
			}
			p.ISR = nil
			for _, m := range c.ISR {
				p.ISR = append(p.ISR, m.Broker)
			}
			return true
		})
		n.manager.AlterResult(c, res)
	})
}

func (n *townNode) Offline(_ cluster.TopicPartition, reason error) {
	if n.town.offline != nil {
		n.town.offline(n, reason)
		return
	}
	n.town.t.Errorf("broker %d: offline: %v", n.id, reason)
}
func (n *townNode) Removed([]cluster.Tombstone)   {}
func (n *townNode) Online(cluster.TopicPartition) {}
func (n *townNode) Parked([]string)               {}

// DialReplication implements fetcher.Transport with a pair of channels.
func (n *townNode) DialReplication(_ context.Context, to cluster.BrokerID, epoch cluster.BrokerEpoch) (fetcher.FollowerStream, error) {
	n.town.mu.Lock()
	peer := n.town.nodes[to]
	n.town.mu.Unlock()
	if peer == nil || peer.dead.Load() || n.dead.Load() {
		return nil, errPipe
	}
	p := &pipe{up: make(chan session.Up, 64), down: make(chan session.Down, 64), closed: make(chan struct{})}
	peer.mu.Lock()
	peer.pipes = append(peer.pipes, p)
	peer.mu.Unlock()
	n.town.group.Go(func() { peer.sender.Serve(n.id, epoch, leaderEnd{p, peer}) })
	return followerEnd{p}, nil
}

// pipe is a stream in memory.
type pipe struct {
	up     chan session.Up
	down   chan session.Down
	closed chan struct{}
	once   sync.Once
}

var errPipe = errors.New("pipe closed")

func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

type followerEnd struct{ *pipe }

func (e followerEnd) Send(frames []session.Up) error {
	for _, f := range frames {
		select {
		case e.up <- f:
		case <-e.closed:
			return errPipe
		}
	}
	return nil
}

func (e followerEnd) Recv() (session.Down, error) {
	select {
	case d := <-e.down:
		return d, nil
	case <-e.closed:
		return nil, errPipe
	}
}

func (e followerEnd) Recycle(buf []byte) { clear(buf) } // whoever still reads it is found out

type leaderEnd struct {
	*pipe
	node *townNode
}

func (e leaderEnd) Recv() (session.Up, error) {
	select {
	case u := <-e.up:
		return u, nil
	case <-e.closed:
		return nil, errPipe
	}
}

func (e leaderEnd) SendData(d session.Data, r fetcher.Range) error {
	if r != nil {
		var err error
		if d.Bytes, err = r.AppendTo(nil); err != nil {
			return err
		}
	}
	return e.push(d)
}

func (e leaderEnd) SendRefused(r session.Refused) error { return e.push(r) }
func (e leaderEnd) Flush() error                        { return nil }

func (e leaderEnd) push(d session.Down) error {
	if e.node.dead.Load() {
		return errPipe
	}
	select {
	case e.down <- d:
		return nil
	case <-e.closed:
		return errPipe
	}
}

// townProducer is an idempotent producer with one batch in flight, which tries again until it is told that the batch is in.
func (w *town) producer(id record.ProducerID, n int, acked chan<- struct{}) (values []string, offsets []record.Offset) {
	for seq := range n {
		value := fmt.Sprintf("%d/%d", id, seq)
		for {
			batch := sent{id: id, seq: record.Sequence(seq), values: []string{value}}.bytes(w.t)
			r := w.leader()
			if r == nil {
				continue // it is about to be there
			}
			answer := <-call(r, batch, AcksISR, r.manager.options.Clock.Now()+2*time.Second)
			if answer.Code == cluster.CodeNone {
				values, offsets = append(values, value), append(offsets, answer.BaseOffset)
				acked <- struct{}{}
				break
			}
			switch answer.Code {
			case cluster.CodeNotLeader, cluster.CodeTimedOut, cluster.CodeNotEnoughReplicas, cluster.CodeNotEnoughReplicasAfter,
				cluster.CodeShuttingDown:
			default:
				w.t.Errorf("producer %d, sequence %d: %s", id, seq, answer.Code)
				return values, offsets
			}
		}
	}
	return values, offsets
}

func TestCase62_LeadershipTransfersUnderIdempotentLoad(t *testing.T) {
	w := newTown(t, 3)
	rng := rand.New(rand.NewPCG(1, 2))
	w.load(400, 10, func() { w.transfer(rng.IntN(3)) })
}

func TestCase60_PowerCutsUnderIdempotentLoad(t *testing.T) {
	w := newTown(t, 3)
	rng := rand.New(rand.NewPCG(3, 4))
	w.load(300, 25, func() {
		var ids []cluster.BrokerID
		for _, i := range rng.Perm(3)[:1+rng.IntN(3)] {
			ids = append(ids, cluster.BrokerID(i+1))
		}
		w.powerCut(rng, ids...)
	})
}

// load runs three producers of each records, disturbs them after every so many acknowledgements, and checks that nothing was lost, doubled or put
// out of order, and that the replicas end identical.
func (w *town) load(each, acksPerFault int, fault func()) {
	t := w.t
	const producers = 3
	acked := make(chan struct{}, producers*each)
	var group sync.WaitGroup
	values, offsets := make([][]string, producers), make([][]record.Offset, producers)
	for i := range producers {
		group.Go(func() { values[i], offsets[i] = w.producer(record.ProducerID(i+1), each, acked) })
	}
	go func() {
		group.Wait()
		close(acked)
	}()
	count := 0
	for range acked {
		if count++; count%acksPerFault == 0 {
			fault()
		}
	}
	w.converge(producers * each)
	got := w.read(w.leader())
	for i := range producers {
		if !slices.IsSorted(offsets[i]) {
			t.Errorf("producer %d got offsets out of order: %v", i+1, offsets[i])
		}
		for j, v := range values[i] {
			if o := offsets[i][j]; got[o] != v {
				t.Errorf("%s was acknowledged at %d, where %q is", v, o, got[o])
			}
		}
	}
	if len(got) != producers*each {
		t.Errorf("%d records for %d sent", len(got), producers*each)
	}
	for _, n := range w.all() {
		r, _ := n.manager.Get(testTP)
		if other := w.read(r); !slices.Equal(other, got) {
			t.Errorf("broker %d holds something else: %d records", n.id, len(other))
		}
	}
}

// converge waits until every replica has the whole log below its watermark.
func (w *town) converge(records int) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		behind := 0
		for _, n := range w.all() {
			if r, ok := n.manager.Get(testTP); !ok || r.Status().HighWatermark < record.Offset(records) {
				behind++
			}
		}
		if behind == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, n := range w.all() {
				r, _ := n.manager.Get(testTP)
				w.t.Errorf("broker %d: %+v", n.id, r.Status())
			}
			w.t.Fatal("the replicas do not converge")
		}
	}
}

// read returns every value below a replica's watermark.
func (w *town) read(r *Runner) []string {
	var out []string
	for at := record.Offset(0); ; {
		res := r.Read(ReadRequest{Offset: at, MaxBytes: 1 << 20, LeaderEpoch: record.NoEpoch, LastEpoch: record.NoEpoch, Follower: true})
		if res.Code != cluster.CodeNone {
			w.t.Fatalf("read at %d: %s", at, res.Code)
		}
		if res.Slice.Len() == 0 {
			return out
		}
		out, at = appendValues(w.t, out, res.Slice)
	}
}
