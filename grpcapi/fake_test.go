package grpcapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
	"github.com/moldau-log/moldau/internal/meter"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/segment"
)

// fakeCluster is brokers behind real gRPC doors over one shared memory: logs never diverge, elections are a change of the image. It keeps the
// rules that clients rely on: sequences, fencing by epoch, redirects.
type fakeCluster struct {
	t  testing.TB
	fs *vfs.Mem

	mu      sync.Mutex // guards what follows
	image   *cluster.Image
	index   uint64
	logs    map[cluster.TopicPartition]*fakeLog
	nextID  record.ProducerID
	changed chan struct{} // closed and replaced whenever image or logs change
	brokers []*fakeBroker
	// produceFault, when not nil, may answer a request before (applied false) or after it is appended, or never (drop).
	produceFault func(b *fakeBroker, req *broker.ProduceRequest) fault
}

// fault is what befalls one produce request.
type fault struct {
	code  cluster.Code // refuse with it
	after bool         // but append first
	drop  bool         // never answer
}

type fakeLog struct {
	log       *segment.Log
	producers map[record.ProducerID]*fakeProducer
}

type fakeProducer struct {
	next   record.Sequence
	recent map[record.Sequence]record.Offset
}

type fakeBroker struct {
	c      *fakeCluster
	id     cluster.BrokerID
	door   *Server
	groups *consumergroup.Coordinator
	meters *meter.Set
	served chan error
}

func newFakeCluster(t testing.TB, n int) *fakeCluster {
	t.Helper()
	c := &fakeCluster{t: t, fs: vfs.NewMem(), image: cluster.EmptyImage(), logs: map[cluster.TopicPartition]*fakeLog{}, changed: make(chan struct{})}
	groupLog := &fakeGroupLog{}
	c.change(func(txn *cluster.Txn) {
		txn.SetCluster(newID(), 1)
		for i := range cluster.ShardID(cluster.ShardCount) {
			txn.PutShard(i, cluster.Shard{Leader: cluster.BrokerID(int(i) % n), Epoch: 1})
		}
	})
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		b := &fakeBroker{c: c, id: cluster.BrokerID(i), meters: meter.NewSet(), served: make(chan error, 1)}
		b.startGroups(t, groupLog, n)
		b.door = newServer(Config{Reflection: true}, b, b.groups, b.meters, slog.New(slog.DiscardHandler))
		host, port, _ := net.SplitHostPort(l.Addr().String())
		p, _ := strconv.Atoi(port)
		c.change(func(txn *cluster.Txn) {
			txn.PutBroker(&cluster.Broker{ID: b.id, Epoch: 1, Listeners: []cluster.Listener{{Name: "grpc", Host: host, Port: int32(p)}}})
		})
		c.brokers = append(c.brokers, b)
		go func() { b.served <- b.door.Serve(l) }()
	}
	t.Cleanup(c.close)
	return c
}

func (b *fakeBroker) startGroups(t testing.TB, log *fakeGroupLog, n int) {
	t.Helper()
	cfg := consumergroup.DefaultConfig()
	cfg.Broker = b.id
	var err error
	b.groups, err = consumergroup.Open(cfg, consumergroup.Ports{
		Log: log, Topics: func() consumergroup.Topics { return b.Image() }, LeaseValid: func() bool { return true },
		NewMemberID: rand.Text, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	var led []consumergroup.ShardLead
	for i := range cluster.ShardID(cluster.ShardCount) {
		if int(i)%n == int(b.id) {
			led = append(led, consumergroup.ShardLead{Shard: i, Epoch: 1})
		}
	}
	b.groups.ShardsChanged(led)
}

func (c *fakeCluster) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, b := range c.brokers {
		if err := b.door.Stop(ctx); err != nil {
			c.t.Error(err)
		}
		if err := <-b.served; err != nil {
			c.t.Error(err)
		}
		b.groups.Close()
	}
}

func newID() (id cluster.UUID) {
	rand.Read(id[:])
	return id
}

// change commits a change of the image.
func (c *fakeCluster) change(f func(*cluster.Txn)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changeLocked(f)
}

func (c *fakeCluster) changeLocked(f func(*cluster.Txn)) {
	txn := c.image.Txn()
	f(txn)
	c.index++
	c.image = txn.Commit(c.index)
	c.wakeLocked()
	for _, b := range c.brokers {
		b.groups.TopicsChanged()
	}
}

func (c *fakeCluster) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *fakeCluster) endpoints() []string {
	var out []string
	for _, b := range c.brokers {
		out = append(out, b.door.endpoint(context.Background(), b.id))
	}
	return out
}

// createTopic makes a topic whose partition p is led by broker p modulo n.
func (c *fakeCluster) createTopic(name string, partitions int32, configs ...cluster.ConfigEntry) cluster.TopicID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.createLocked(name, partitions, configs)
}

func (c *fakeCluster) createLocked(name string, partitions int32, configs cluster.Configs) cluster.TopicID {
	id := newID()
	c.changeLocked(func(txn *cluster.Txn) {
		txn.PutTopic(&cluster.Topic{ID: id, Name: name, Partitions: partitions, ReplicationFactor: int16(len(c.brokers)), Configs: configs, CreatedMs: 1})
		c.addPartitions(txn, id, name, 0, partitions)
	})
	return id
}

func (c *fakeCluster) addPartitions(txn *cluster.Txn, id cluster.TopicID, name string, from, to int32) {
	var replicas []cluster.BrokerID
	for i := range c.brokers {
		replicas = append(replicas, cluster.BrokerID(i))
	}
	for p := from; p < to; p++ {
		tp := cluster.TopicPartition{Topic: id, Partition: p}
		txn.PutPartition(tp, &cluster.Partition{
			Replicas: replicas, ISR: replicas, Leader: cluster.BrokerID(int(p) % len(c.brokers)), LeaderEpoch: 0, LastLeader: cluster.NoBroker,
		})
		log, _, err := segment.Open(c.fs, "/"+tp.String(), segment.Identity{TopicID: id, Topic: name, Partition: p}, segment.DefaultConfig())
		if err != nil {
			panic(err)
		}
		c.logs[tp] = &fakeLog{log: log, producers: map[record.ProducerID]*fakeProducer{}}
	}
}

// elect makes a broker the leader of a partition.
func (c *fakeCluster) elect(tp cluster.TopicPartition, leader cluster.BrokerID) {
	c.change(func(txn *cluster.Txn) {
		old, _ := txn.Partition(tp)
		p := old.Clone()
		p.LastLeader, p.Leader = p.Leader, leader
		p.LeaderEpoch++
		p.PartitionEpoch++
		txn.PutPartition(tp, p)
	})
}

// fakeGroupLog keeps group records of all shards.
type fakeGroupLog struct {
	mu      sync.Mutex
	index   uint64
	next    [cluster.ShardCount]int64
	records [cluster.ShardCount][]cluster.GroupRecord
}

func (f *fakeGroupLog) Append(_ context.Context, a cluster.GroupAppend) (cluster.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.index++
	res := cluster.Result{Index: f.index}
	for _, b := range a.Batches {
		item := cluster.ItemResult{}
		if b.Sequence != f.next[b.Shard] {
			item.Code = cluster.CodeStaleShardEpoch
		} else {
			f.next[b.Shard]++
			f.records[b.Shard] = append(f.records[b.Shard], b.Records...)
		}
		res.Items = append(res.Items, item)
	}
	return res, nil
}

func (f *fakeGroupLog) Load(_ context.Context, shard cluster.ShardID, _ uint64) (consumergroup.ShardContent, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return consumergroup.ShardContent{Epoch: 1, NextSequence: f.next[shard], Records: slices.Values(slices.Clone(f.records[shard]))}, nil
}

// What follows implements Backend.

func (b *fakeBroker) ID() cluster.BrokerID                 { return b.id }
func (b *fakeBroker) Ready() (bool, string)                { return true, "" }
func (b *fakeBroker) Controller() (cluster.BrokerID, bool) { return 0, true }
func (b *fakeBroker) Health(context.Context) broker.Health {
	return broker.Health{Healthy: true, Brokers: len(b.c.brokers)}
}
func (b *fakeBroker) Backup(_ context.Context, w io.Writer) error {
	for i := range 3 {
		if _, err := fmt.Fprintf(w, "%0*d", backupChunk-1, i); err != nil {
			return err
		}
	}
	return nil
}

func (b *fakeBroker) Image() *cluster.Image {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	return b.c.image
}

func (b *fakeBroker) find(ref broker.TopicRef) (*cluster.Topic, error) {
	t, ok := b.c.image.Topic(ref.ID)
	if ref.ID.IsZero() {
		t, ok = b.c.image.TopicByName(ref.Name)
	}
	if !ok {
		return nil, cluster.Refuse(cluster.CodeUnknownTopic, "no such topic")
	}
	return t, nil
}

func (b *fakeBroker) Topic(_ context.Context, ref broker.TopicRef) (*cluster.Topic, error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	return b.find(ref)
}

// led finds the log of a partition that this broker leads. c.mu is held.
func (b *fakeBroker) led(ref broker.TopicRef, n int32, epoch record.LeaderEpoch) (*fakeLog, *cluster.Partition, cluster.TopicPartition, *cluster.Error) {
	t, err := b.find(ref)
	if err != nil {
		return nil, nil, cluster.TopicPartition{}, err.(*cluster.Error)
	}
	tp := cluster.TopicPartition{Topic: t.ID, Partition: n}
	p, ok := b.c.image.Partition(tp)
	if !ok {
		return nil, nil, tp, cluster.Refuse(cluster.CodeUnknownTopic, "no such partition")
	}
	hint := &cluster.Error{Code: cluster.CodeNotLeader, Leader: p.Leader, LeaderEpoch: int32(p.LeaderEpoch)}
	switch {
	case p.Leader != b.id:
		return nil, p, tp, hint
	case epoch != record.NoEpoch && epoch < p.LeaderEpoch:
		hint.Code = cluster.CodeFencedLeaderEpoch
		return nil, p, tp, hint
	case epoch > p.LeaderEpoch:
		hint.Code = cluster.CodeUnknownLeaderEpoch
		return nil, p, tp, hint
	}
	return b.c.logs[tp], p, tp, nil
}

func (b *fakeBroker) Produce(req broker.ProduceRequest, done func(broker.ProduceResult)) {
	b.c.mu.Lock()
	var f fault
	if b.c.produceFault != nil {
		f = b.c.produceFault(b, &req)
	}
	res := broker.ProduceResult{Code: f.code, BaseOffset: -1, LogStart: -1, Leader: cluster.NoBroker, LeaderEpoch: -1}
	if f.code == cluster.CodeNone || f.after {
		res = b.append(req)
		if f.after && res.Code == cluster.CodeNone {
			res = broker.ProduceResult{Code: f.code, BaseOffset: -1}
		}
	}
	b.c.mu.Unlock()
	if !f.drop {
		done(res)
	}
}

// append follows Kafka's rules of sequences. c.mu is held.
func (b *fakeBroker) append(req broker.ProduceRequest) broker.ProduceResult {
	l, p, _, refusal := b.led(req.Topic, req.Partition, req.LeaderEpoch)
	if refusal != nil {
		return broker.ProduceResult{Code: refusal.Code, BaseOffset: -1, LogStart: -1, Leader: refusal.Leader, LeaderEpoch: record.LeaderEpoch(refusal.LeaderEpoch)}
	}
	batch, err := record.Parse(req.Batch)
	if err != nil {
		return broker.ProduceResult{Code: cluster.CodeCorrupt}
	}
	if batch.HasProducer() {
		at, code := l.sequence(batch)
		if code != cluster.CodeNone || at >= 0 {
			return broker.ProduceResult{Code: code, BaseOffset: at}
		}
	}
	batch.Stamp(l.log.End(), p.LeaderEpoch)
	out, err := l.log.Append(time.Now().UnixMilli(), batch.Bytes())
	if err != nil {
		return broker.ProduceResult{Code: cluster.CodeStorage, Message: err.Error()}
	}
	if batch.HasProducer() {
		pr := l.producers[batch.ProducerID()]
		pr.next = batch.LastSequence().Next(1)
		pr.recent[batch.BaseSequence()] = out.FirstOffset
	}
	b.c.wakeLocked()
	return broker.ProduceResult{BaseOffset: out.FirstOffset, LogStart: l.log.Start(), LogAppendMs: -1}
}

func (l *fakeLog) sequence(batch record.Batch) (record.Offset, cluster.Code) {
	pr := l.producers[batch.ProducerID()]
	if pr == nil {
		if batch.BaseSequence() != 0 {
			return -1, cluster.CodeUnknownProducer
		}
		l.producers[batch.ProducerID()] = &fakeProducer{recent: map[record.Sequence]record.Offset{}}
		return -1, cluster.CodeNone
	}
	if at, ok := pr.recent[batch.BaseSequence()]; ok {
		return at, cluster.CodeNone
	}
	if batch.BaseSequence() != pr.next {
		return -1, cluster.CodeOutOfOrderSequence
	}
	return -1, cluster.CodeNone
}

func (b *fakeBroker) CountFetched(cluster.TopicID, int) {}

func (b *fakeBroker) Fetch(ctx context.Context, req broker.FetchRequest) []broker.FetchedPartition {
	timer := time.NewTimer(req.MaxWait)
	defer timer.Stop()
	for {
		b.c.mu.Lock()
		out, news := b.read(req)
		changed := b.c.changed
		b.c.mu.Unlock()
		if news {
			return out
		}
		select {
		case <-changed:
		case <-timer.C:
			return out
		case <-ctx.Done():
			return out
		}
	}
}

func (b *fakeBroker) read(req broker.FetchRequest) (out []broker.FetchedPartition, news bool) {
	for _, p := range req.Partitions {
		l, meta, tp, refusal := b.led(p.Topic, p.Partition, p.LeaderEpoch)
		f := broker.FetchedPartition{Topic: tp.Topic, HighWatermark: -1, LogStart: -1, Leader: cluster.NoBroker, LeaderEpoch: -1}
		switch {
		case refusal != nil:
			f.Code, f.Leader, f.LeaderEpoch = refusal.Code, refusal.Leader, record.LeaderEpoch(refusal.LeaderEpoch)
		case p.Offset < l.log.Start() || p.Offset > l.log.End():
			f.Code = cluster.CodeOffsetOutOfRange
		default:
			f.HighWatermark, f.LogStart, f.Leader, f.LeaderEpoch = l.log.End(), l.log.Start(), b.id, meta.LeaderEpoch
			if p.Offset < l.log.End() {
				s, err := l.log.View().Read(p.Offset, p.MaxBytes, l.log.End())
				if err != nil {
					f.Code = cluster.CodeStorage
				} else {
					f.Slice = &s
				}
			}
		}
		news = news || f.Code != cluster.CodeNone || f.Slice != nil
		out = append(out, f)
	}
	return out, news
}

func (b *fakeBroker) ListOffsets(_ context.Context, queries []broker.OffsetQuery) []broker.OffsetAnswer {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	var out []broker.OffsetAnswer
	for _, q := range queries {
		l, p, _, refusal := b.led(q.Topic, q.Partition, q.LeaderEpoch)
		if refusal != nil {
			out = append(out, broker.OffsetAnswer{Code: refusal.Code, Offset: -1, Timestamp: -1, Leader: refusal.Leader, LeaderEpoch: record.LeaderEpoch(refusal.LeaderEpoch)})
			continue
		}
		a := broker.OffsetAnswer{Offset: l.log.End(), Timestamp: -1, Leader: b.id, LeaderEpoch: p.LeaderEpoch}
		switch {
		case q.Timestamp == broker.EarliestTimestamp:
			a.Offset = l.log.Start()
		case q.Timestamp >= 0:
			offset, ts, found, err := l.log.View().OffsetForTimestamp(context.Background(), q.Timestamp, l.log.End(), nil)
			if a.Offset, a.Timestamp = offset, ts; !found || err != nil {
				a.Offset, a.Timestamp = -1, -1
			}
		}
		out = append(out, a)
	}
	return out
}

func (b *fakeBroker) InitProducerID(context.Context) (record.ProducerID, record.ProducerEpoch, error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.c.nextID++
	return b.c.nextID, 0, nil
}

func (b *fakeBroker) CreateTopic(_ context.Context, spec broker.TopicSpec) (broker.CreatedTopic, error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if _, ok := b.c.image.TopicByName(spec.Name); ok {
		return broker.CreatedTopic{}, cluster.Refuse(cluster.CodeTopicExists, "topic "+spec.Name+" is there")
	}
	if spec.Partitions < 0 {
		spec.Partitions = 6
	}
	id := b.c.createLocked(spec.Name, spec.Partitions, spec.Configs)
	t, _ := b.c.image.Topic(id)
	return broker.CreatedTopic{Topic: *t, Notes: []string{"a note"}}, nil
}

func (b *fakeBroker) DeleteTopic(_ context.Context, ref broker.TopicRef) error {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	t, err := b.find(ref)
	if err != nil {
		return err
	}
	b.c.changeLocked(func(txn *cluster.Txn) {
		for p := range t.Partitions {
			txn.DeletePartition(cluster.TopicPartition{Topic: t.ID, Partition: p})
		}
		txn.DeleteTopic(t)
	})
	return nil
}

func (b *fakeBroker) AddPartitions(_ context.Context, ref broker.TopicRef, total int32, _ [][]cluster.BrokerID) error {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	t, err := b.find(ref)
	if err != nil {
		return err
	}
	b.c.changeLocked(func(txn *cluster.Txn) {
		grown := *t
		grown.Partitions = total
		txn.PutTopic(&grown)
		b.c.addPartitions(txn, t.ID, t.Name, t.Partitions, total)
	})
	return nil
}

func (b *fakeBroker) AlterConfigs(_ context.Context, res cluster.ConfigResource, ops []cluster.ConfigOp, _ bool) ([]string, error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	t, err := b.find(broker.TopicRef{Name: res.Name})
	if err != nil {
		return nil, err
	}
	altered, err := t.Configs.Alter(res.Kind, ops)
	if err != nil {
		return nil, err
	}
	b.c.changeLocked(func(txn *cluster.Txn) {
		changed := *t
		changed.Configs = altered
		txn.PutTopic(&changed)
	})
	return []string{"noted"}, nil
}

func (b *fakeBroker) DescribeConfigs(_ context.Context, res cluster.ConfigResource) ([]cluster.EffectiveConfig, error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	t, err := b.find(broker.TopicRef{Name: res.Name})
	if err != nil {
		return nil, err
	}
	return b.c.image.DescribeTopicConfig(t), nil
}

func (b *fakeBroker) DeleteRecords(_ context.Context, ref broker.TopicRef, n int32, before record.Offset) (record.Offset, error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	t, err := b.find(ref)
	if err != nil {
		return -1, err
	}
	l := b.c.logs[cluster.TopicPartition{Topic: t.ID, Partition: n}]
	if before < 0 {
		before = l.log.End()
	}
	err = l.log.MoveStart(before)
	return l.log.Start(), err
}

func (b *fakeBroker) Reassign(_ context.Context, ref broker.TopicRef, n int32, replicas []cluster.BrokerID) error {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	t, err := b.find(ref)
	if err != nil {
		return err
	}
	b.c.changeLocked(func(txn *cluster.Txn) {
		tp := cluster.TopicPartition{Topic: t.ID, Partition: n}
		old, _ := txn.Partition(tp)
		p := old.Clone()
		p.Adding = replicas
		txn.PutPartition(tp, p)
	})
	return nil
}

func (b *fakeBroker) ElectLeaders(_ context.Context, tps []cluster.TopicPartition, _ bool) ([]cluster.ItemResult, error) {
	out := make([]cluster.ItemResult, len(tps))
	for i, tp := range tps {
		if p, _ := b.Image().Partition(tp); p.Leader == p.Replicas[0] {
			out[i].Code = cluster.CodeElectionNotNeeded
			continue
		}
		b.c.elect(tp, 0)
	}
	return out, nil
}

func (b *fakeBroker) UnregisterBroker(context.Context, cluster.BrokerID) error {
	return cluster.Refuse(cluster.CodeUnknownBroker, "no such broker")
}

func (b *fakeBroker) PartitionStatus(_ context.Context, tps []cluster.TopicPartition) []broker.PartitionStatus {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	var out []broker.PartitionStatus
	for _, tp := range tps {
		st := broker.PartitionStatus{Partition: tp, LogStart: -1, HighWatermark: -1}
		if l := b.c.logs[tp]; l != nil {
			st = broker.PartitionStatus{Partition: tp, Leading: true, LogStart: l.log.Start(), LogEnd: l.log.End(), Flushed: l.log.End(), HighWatermark: l.log.End(), SizeBytes: l.log.Size()}
		}
		out = append(out, st)
	}
	return out
}

func (b *fakeBroker) Coordinator(group string) (cluster.BrokerID, error) {
	if err := cluster.ParseGroupID(group); err != nil {
		return cluster.NoBroker, err
	}
	return b.Image().Shard(cluster.ShardOf(group)).Leader, nil
}

// values reads everything of a partition's log, as "offset=value".
func (c *fakeCluster) values(tp cluster.TopicPartition) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.logs[tp].log
	var out []string
	for at := l.Start(); at < l.End(); {
		s, err := l.View().Read(at, 1<<20, l.End())
		if err != nil {
			c.t.Fatal(err)
		}
		bytes, err := s.AppendTo(nil)
		s.Release()
		err = cmp.Or(err, record.Split(bytes, func(b record.Batch) error {
			for r, err := range b.All(1 << 20) {
				if err != nil {
					return err
				}
				out = append(out, string(r.Value))
			}
			at = b.NextOffset()
			return nil
		}))
		if err != nil {
			c.t.Fatal(err)
		}
	}
	return out
}

var errTest = errors.New("test")
