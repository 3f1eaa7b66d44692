package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/meter"
	"github.com/moldau-log/moldau/record"
)

// patience bounds every wait of a test for something that must happen.
const patience = 10 * time.Second

// fakeBroker answers what a test lets it answer. Methods that it does not have panic, which the door must survive.
type fakeBroker struct {
	Backend
	image atomic.Pointer[cluster.Image]

	mu        sync.Mutex // guards produced
	produced  []produced
	came      chan struct{} // one for each produced batch
	sent      atomic.Int64  // bytes of records that the door counts as sent
	onTopic   func()
	onProduce func()
	onFetch   func(ctx context.Context, req broker.FetchRequest) []broker.FetchedPartition
}

type produced struct {
	req  broker.ProduceRequest
	done func(broker.ProduceResult)
}

func newFakeBroker() *fakeBroker {
	tx := cluster.EmptyImage().Txn()
	tx.SetCluster(cluster.UUID{1}, 0)
	for id := range cluster.BrokerID(2) {
		tx.PutBroker(&cluster.Broker{ID: id, Listeners: []cluster.Listener{{Name: listenerName, Host: "broker.example", Port: 9092 + int32(id)}}})
	}
	topic := &cluster.Topic{ID: cluster.TopicID{9}, Name: "t", Partitions: 1, ReplicationFactor: 2}
	tx.PutTopic(topic)
	tx.PutPartition(cluster.TopicPartition{Topic: topic.ID}, &cluster.Partition{Replicas: []cluster.BrokerID{1, 0}, ISR: []cluster.BrokerID{1, 0}, Leader: 1, LeaderEpoch: 3})
	f := &fakeBroker{came: make(chan struct{}, 100)}
	f.image.Store(tx.Commit(1))
	return f
}

func (f *fakeBroker) ID() cluster.BrokerID                 { return 0 }
func (f *fakeBroker) Image() *cluster.Image                { return f.image.Load() }
func (f *fakeBroker) Controller() (cluster.BrokerID, bool) { return 1, true }

func (f *fakeBroker) Topic(_ context.Context, ref broker.TopicRef) (*cluster.Topic, error) {
	if f.onTopic != nil {
		f.onTopic()
	}
	t, ok := f.Image().Topic(ref.ID)
	if ref.ID.IsZero() {
		t, ok = f.Image().TopicByName(ref.Name)
	}
	if !ok {
		return nil, cluster.Refuse(cluster.CodeUnknownTopic, "no such topic")
	}
	return t, nil
}

func (f *fakeBroker) Produce(req broker.ProduceRequest, done func(broker.ProduceResult)) {
	if f.onProduce != nil {
		f.onProduce()
	}
	f.mu.Lock()
	f.produced = append(f.produced, produced{req, done})
	f.mu.Unlock()
	f.came <- struct{}{}
}

func (f *fakeBroker) batch(i int) produced {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.produced[i]
}

func (f *fakeBroker) Fetch(ctx context.Context, req broker.FetchRequest) []broker.FetchedPartition {
	return f.onFetch(ctx, req)
}

func (f *fakeBroker) CountFetched(_ cluster.TopicID, bytes int) { f.sent.Add(int64(bytes)) }

// logText is a log that a test reads.
type logText struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// door is a served door with a fake broker behind it.
type door struct {
	t      *testing.T
	s      *Server
	broker *fakeBroker
	log    *logText
	addr   string
}

func openDoor(t *testing.T, cfg Config) *door {
	t.Helper()
	f := newFakeBroker()
	return openDoorOf(t, cfg, f, f, nil)
}

// openDoorOf is openDoor for a backend that is made of a fake broker, and groups.
func openDoorOf(t *testing.T, cfg Config, f *fakeBroker, backend Backend, groups Groups) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return openDoorAt(t, l, cfg, f, backend, groups)
}

// openDoorAt is openDoorOf for a listener.
func openDoorAt(t *testing.T, l net.Listener, cfg Config, f *fakeBroker, backend Backend, groups Groups) *door {
	t.Helper()
	d := &door{t: t, broker: f, log: new(logText), addr: l.Addr().String()}
	d.s = newServer(cfg, backend, groups, meter.NewSet(), slog.New(slog.NewTextHandler(d.log, nil)))
	served := make(chan error, 1)
	go func() { served <- d.s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := d.s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return d
}

// client is a connection that speaks raw frames.
type client struct {
	t *testing.T
	net.Conn
	next int32
}

func (d *door) dial() *client {
	d.t.Helper()
	c, err := net.Dial("tcp", d.addr)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	return &client{t: d.t, Conn: c}
}

// Read and Write wait for as long as something moves: a test of many requests may take longer than one of them.
func (c *client) Read(b []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	return c.Conn.Read(b)
}

func (c *client) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		_ = c.SetWriteDeadline(time.Now().Add(patience))
		var m int
		m, err = c.Conn.Write(b[n:min(len(b), n+writeStep)])
		n += m
	}
	return n, err
}

// writeStep is how many bytes a client may take patience for.
const writeStep = 64 << 10

// send writes a request and returns its correlation id.
func (c *client) send(req kmsg.Request) int32 {
	c.t.Helper()
	c.next++
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test"))
	if _, err := c.Write(f.AppendRequest(nil, req, c.next)); err != nil {
		c.t.Fatal(err)
	}
	return c.next
}

// frame reads one answer: its correlation id and what follows.
func (c *client) frame() (int32, []byte) {
	c.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		c.t.Fatalf("read an answer: %v", err)
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		c.t.Fatalf("read an answer: %v", err)
	}
	return int32(binary.BigEndian.Uint32(body)), body[4:]
}

// answer reads the answer to a request.
func (c *client) answer(req kmsg.Request) (int32, kmsg.Response) {
	c.t.Helper()
	correlation, body := c.frame()
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && req.Key() != keyApiVersions {
		body = body[1:] // no tags
	}
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatalf("parse an answer: %v", err)
	}
	return correlation, resp
}

// closed waits for the other side to close.
func (c *client) closed() {
	c.t.Helper()
	if n, err := c.Read(make([]byte, 1)); err == nil {
		c.t.Fatalf("%d bytes came on a connection that should be closed", n)
	}
}

// waitFor looks until ok says yes.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, end := time.NewTicker(time.Millisecond), time.NewTimer(patience)
	defer tick.Stop()
	defer end.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("%s: never came", what)
		}
	}
}

// batchOf is a record batch with one record.
func batchOf(t testing.TB, value string) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{})
	b.Append(1, nil, []byte(value), nil)
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return batch.Bytes()
}

func produceRequest(t *testing.T, value string, acks int16) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, acks, 1000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "t"
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batchOf(t, value)
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	return req
}
