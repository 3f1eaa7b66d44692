package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moldau-log/moldau/internal/history"
)

// Recorder takes the events of a history. It may be called by many goroutines.
type Recorder interface{ Write(history.Event) }

// Where the brokers are, host:port of each.
type Addresses struct{ Kafka, GRPC []string }

// Load is the clients of a run.
type Load struct {
	At     Addresses
	seed   uint64
	rec    Recorder
	topics *Topics
	Counts *Counts

	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// New prepares a load on topics.
func New(at Addresses, seed uint64, rec Recorder, topics *Topics) *Load {
	l := &Load{At: at, seed: seed, rec: rec, topics: topics, Counts: newCounts()}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Go starts a client, f, under a name that no other has had; f returns soon after its context has ended.
func (l *Load) Go(name string, f func(context.Context, *Client)) {
	l.done.Go(func() { f(l.ctx, l.client(name)) })
}

// Stop ends every client and waits for them.
func (l *Load) Stop() {
	l.cancel()
	l.done.Wait()
}

// Client is what every client has: its name in the history, a source of chance, and the numbers of its operations.
type Client struct {
	*Load
	Name   string
	Random *rand.Rand
	ops    atomic.Int64
}

func (l *Load) client(name string) *Client {
	h := l.seed
	for _, b := range []byte(name) {
		h = h*1099511628211 + uint64(b)
	}
	return &Client{Load: l, Name: name, Random: rand.New(rand.NewPCG(l.seed, h))}
}

// Begin writes the invoke of an operation and gives its number.
func (c *Client) Begin(e history.Event) history.Event {
	e.Client, e.Op, e.Type, e.Time = c.Name, c.ops.Add(1), history.Invoke, history.Now()
	c.rec.Write(e)
	return e
}

// errNotSent is in the error of an operation that was certainly not done: no request was made for it.
var errNotSent = errors.New("load: not sent")

// End writes how an operation ended: ok, or info where err is not nil, because a failed call may have been carried out; fail where it was not sent.
func (c *Client) End(e history.Event, err error) {
	e.Time, e.Type = history.Now(), history.OK
	switch {
	case errors.Is(err, errNotSent):
		e.Type, e.Error = history.Fail, err.Error()
	case err != nil:
		e.Type, e.Error = history.Info, err.Error()
	}
	c.Counts.add(e, err)
	c.rec.Write(e)
}

// wait is a pause that ends with the context; it reports whether the context goes on.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Topics are the topics of a run and how many partitions each has by now.
type Topics struct {
	mu         sync.Mutex // guards what follows
	names      []string
	partitions map[string]int32
	quiet      map[string]bool
}

// NewTopics knows none.
func NewTopics() *Topics { return &Topics{partitions: map[string]int32{}, quiet: map[string]bool{}} }

// Set notes a topic with so many partitions.
func (t *Topics) Set(name string, partitions int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.partitions[name]; !ok {
		t.names = append(t.names, name)
	}
	t.partitions[name] = partitions
}

// SetQuiet is Set for a topic to which producers do not send.
func (t *Topics) SetQuiet(name string, partitions int32) {
	t.Set(name, partitions)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.quiet[name] = true
}

// Remove forgets a topic.
func (t *Topics) Remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names = slices.DeleteFunc(t.names, func(n string) bool { return n == name })
	delete(t.partitions, name)
}

// Names are the topics in the order in which they came.
func (t *Topics) Names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.names)
}

// Partitions is the number of a topic's partitions, 0 of an unknown topic.
func (t *Topics) Partitions(name string) int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.partitions[name]
}

// pick chooses a partition for a producer.
func (t *Topics) pick(r *rand.Rand) (string, int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	busy := slices.DeleteFunc(slices.Clone(t.names), func(n string) bool { return t.quiet[n] })
	name := busy[r.IntN(len(busy))]
	return name, r.Int32N(t.partitions[name])
}

func partitionName(topic string, p int32) string { return fmt.Sprintf("%s-%d", topic, p) }
