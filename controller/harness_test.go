package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// patience bounds every wait of these tests; none of them waits that long unless it fails.
const patience = 20 * time.Second

// testNet joins the controllers of one test: Raft streams over pipes and calls as function calls, both with the identity check of the peer port's hello.
type testNet struct {
	mu    sync.Mutex
	hosts map[string]*testHost // by host:port
	cut   map[string]bool      // hosts that nobody reaches and that reach nobody
}

func newTestNet() *testNet { return &testNet{hosts: map[string]*testHost{}, cut: map[string]bool{}} }

// testHost is one running broker on the net. It implements StreamLayer and LeaderCall.
type testHost struct {
	net     *testNet
	address string
	server  string
	accept  chan net.Conn
	done    chan struct{}
	once    sync.Once

	mu    sync.Mutex
	serve func(context.Context, Request) (Response, error)
	conns map[net.Conn]struct{}
}

var errRefused = fmt.Errorf("test: dial: %w (%w)", syscall.ECONNREFUSED, ErrNotSent)

func (n *testNet) listen(address, server string) *testHost {
	h := &testHost{net: n, address: address, server: server, accept: make(chan net.Conn, 16), done: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	n.mu.Lock()
	n.hosts[address] = h
	n.mu.Unlock()
	return h
}

// reach finds the host at an address if the two see each other and it is the one that is expected there.
func (n *testNet) reach(from *testHost, address, server string) (*testHost, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, ok := n.hosts[address]
	if !ok || n.cut[address] || n.cut[from.address] || (server != "" && server != h.server) {
		return nil, errRefused
	}
	return h, nil
}

func (n *testNet) isolate(address string) {
	n.mu.Lock()
	n.cut[address] = true
	h := n.hosts[address]
	n.mu.Unlock()
	if h != nil {
		h.dropConns()
	}
}

func (n *testNet) heal(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cut, address)
}

func (h *testHost) Accept() (net.Conn, error) {
	select {
	case c := <-h.accept:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *testHost) Close() error {
	h.once.Do(func() {
		close(h.done)
		h.net.mu.Lock()
		if h.net.hosts[h.address] == h {
			delete(h.net.hosts, h.address)
		}
		h.net.mu.Unlock()
		h.dropConns()
	})
	return nil
}

func (h *testHost) Addr() net.Addr { return namedAddr(h.address) }

func (h *testHost) Dial(address raft.ServerAddress, _ time.Duration) (net.Conn, error) {
	to := splitServerAddress(address)
	target, err := h.net.reach(h, to.Address, to.Server)
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	h.keep(near, far)
	target.keep(near, far)
	select {
	case target.accept <- far:
		return near, nil
	case <-target.done:
		return nil, errRefused
	}
}

func (h *testHost) keep(conns ...net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range conns {
		h.conns[c] = struct{}{}
	}
}

func (h *testHost) dropConns() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.conns {
		_ = c.Close()
		delete(h.conns, c)
	}
}

func (h *testHost) Call(ctx context.Context, to Endpoint, request Request) (Response, error) {
	target, err := h.net.reach(h, to.Address, to.Server)
	if err != nil {
		return nil, err
	}
	target.mu.Lock()
	serve := target.serve
	target.mu.Unlock()
	if serve == nil {
		return nil, errRefused
	}
	response, err := serve(ctx, request)
	if _, err2 := h.net.reach(h, to.Address, to.Server); err2 != nil {
		return nil, errors.New("test: connection lost")
	}
	return response, err
}

// testBroker is a broker of a test cluster: its directory outlives its runs.
type testBroker struct {
	t      *testing.T
	net    *testNet
	cfg    Config
	c      *Controller
	host   *testHost
	failed chan error // capacity 1: what Fatal was given
}

// testCluster makes brokers 0 to n-1 that name each other as seeds. They are not started.
func testCluster(t *testing.T, n int) (*testNet, []*testBroker) {
	t.Helper()
	network := newTestNet()
	var seeds []string
	for id := range n {
		seeds = append(seeds, fmt.Sprintf("broker-%d:9093", id))
	}
	var brokers []*testBroker
	for id := range n {
		b := newTestBroker(t, network, cluster.BrokerID(id))
		if n > 1 {
			b.cfg.Seeds, b.cfg.BootstrapExpect = seeds, int32(n)
		}
		brokers = append(brokers, b)
	}
	return network, brokers
}

func newTestBroker(t *testing.T, network *testNet, id cluster.BrokerID) *testBroker {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Broker, cfg.Directory = id, newUUID()
	cfg.Dir = filepath.Join(t.TempDir(), "raft")
	cfg.Address = fmt.Sprintf("broker-%d:9093", id)
	cfg.VoterStabilization = 200 * time.Millisecond
	b := &testBroker{t: t, net: network, cfg: cfg}
	t.Cleanup(b.stop)
	return b
}

// open opens the controller without starting it.
func (b *testBroker) open() error {
	b.failed = make(chan error, 1)
	b.host = b.net.listen(b.cfg.Address, string(serverID(b.cfg.Broker, b.cfg.Directory)))
	c, err := Open(b.cfg, Ports{
		Streams: b.host, Calls: b.host, Log: testLog(),
		Fatal: func(err error) { b.failed <- err },
	})
	if err != nil {
		_ = b.host.Close()
		b.host = nil
		return err
	}
	b.c = c
	b.host.mu.Lock()
	b.host.serve = c.Serve
	b.host.mu.Unlock()
	return nil
}

func testLog() *slog.Logger {
	if os.Getenv("MOLDAU_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}

func (b *testBroker) start() *testBroker {
	b.t.Helper()
	if err := b.open(); err != nil {
		b.t.Fatalf("open broker %d: %v", b.cfg.Broker, err)
	}
	b.c.Start()
	return b
}

// stop ends the broker without any hand-over; the others see its connections break.
func (b *testBroker) stop() {
	if b.c == nil {
		return
	}
	_ = b.host.Close()
	if err := b.c.Close(); err != nil {
		b.t.Errorf("close broker %d: %v", b.cfg.Broker, err)
	}
	b.c = nil
}

// wipe gives a stopped broker an empty disk.
func (b *testBroker) wipe() {
	b.t.Helper()
	if err := os.RemoveAll(b.cfg.Dir); err != nil {
		b.t.Fatal(err)
	}
	b.cfg.Directory, b.cfg.Cluster = newUUID(), cluster.ClusterID{}
}

func startAll(brokers []*testBroker) {
	for _, b := range brokers {
		b.start()
	}
}

func stopAll(brokers []*testBroker) {
	for _, b := range brokers {
		b.stop()
	}
}

func withPatience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// formed waits until the brokers know their cluster and returns its id, the same on all.
func formed(t *testing.T, brokers ...*testBroker) cluster.ClusterID {
	t.Helper()
	ctx := withPatience(t)
	var id cluster.ClusterID
	for _, b := range brokers {
		select {
		case <-b.c.Formed():
		case err := <-b.failed:
			t.Fatalf("broker %d failed: %v", b.cfg.Broker, err)
		case <-ctx.Done():
			t.Fatalf("broker %d did not form: %+v", b.cfg.Broker, b.c.Stats())
		}
		got := b.c.Image().ClusterID()
		if !id.IsZero() && got != id {
			t.Fatalf("broker %d is in cluster %s, others in %s", b.cfg.Broker, got, id)
		}
		id = got
	}
	return id
}

// leaderOf waits until one of the brokers leads.
func leaderOf(t *testing.T, brokers ...*testBroker) *testBroker {
	t.Helper()
	ctx := withPatience(t)
	for {
		var changed []<-chan struct{}
		for _, b := range brokers {
			changed = append(changed, b.c.leaderChanged())
			if b.c.lead.Load() != nil && b.c.IsLeader() {
				return b
			}
		}
		waitAny(ctx, changed)
		if ctx.Err() != nil {
			t.Fatal("no broker leads")
		}
	}
}

// waitAny waits for one of the channels.
func waitAny(ctx context.Context, channels []<-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	woken := make(chan struct{}, len(channels))
	for _, ch := range channels {
		go func() {
			select {
			case <-ch:
			case <-ctx.Done():
			}
			woken <- struct{}{}
		}()
	}
	select {
	case <-woken:
	case <-ctx.Done():
	}
}

func others(brokers []*testBroker, but *testBroker) []*testBroker {
	return slices.DeleteFunc(slices.Clone(brokers), func(b *testBroker) bool { return b == but })
}

// registration is a plausible RegisterBroker of a broker.
func (b *testBroker) registration() cluster.RegisterBroker {
	return cluster.RegisterBroker{
		Broker: cluster.Broker{
			ID: b.cfg.Broker, Directory: b.cfg.Directory, Incarnation: newUUID(), PeerAddress: b.cfg.Address, MinLevel: cluster.LevelFirst, MaxLevel: cluster.LevelNewest,
		},
		Cluster: b.cfg.Cluster, PreviousEpoch: cluster.NoBrokerEpoch,
	}
}

// propose proposes and requires success.
func (b *testBroker) propose(cmd cluster.Command) cluster.Result {
	b.t.Helper()
	result, err := b.c.Propose(withPatience(b.t), cmd)
	if err != nil {
		b.t.Fatalf("broker %d: propose %T: %v", b.cfg.Broker, cmd, err)
	}
	if result.Code != cluster.CodeNone {
		b.t.Fatalf("broker %d: propose %T: %s %s", b.cfg.Broker, cmd, result.Code, result.Message)
	}
	return result
}

// setConfig makes a change that every test can see. It does no harm twice, so an unknown outcome, as under a change of leader, is tried again.
func (b *testBroker) setConfig(key, value string) cluster.Result {
	b.t.Helper()
	ctx := withPatience(b.t)
	for {
		result, err := b.c.Propose(ctx, cluster.AlterConfigs{
			Resource: cluster.ConfigResource{Kind: cluster.ConfigClusterDefault},
			Ops:      []cluster.ConfigOp{{Key: key, Value: value}},
		})
		var refusal *cluster.Error
		switch {
		case err == nil && result.Code == cluster.CodeNone:
			return result
		case err == nil || ctx.Err() != nil || !errors.As(err, &refusal) || (refusal.Code != cluster.CodeTimedOut && refusal.Code != cluster.CodeNoController):
			b.t.Fatalf("broker %d: set %s: %s %s, %v", b.cfg.Broker, key, result.Code, result.Message, err)
		}
	}
}

// config reads what setConfig wrote.
func (b *testBroker) config(key string) string {
	v, _ := b.c.Image().Configs(cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}).Get(key)
	return v
}

// until watches the metadata until a condition on it holds.
func (b *testBroker) until(what string, ok func(*cluster.Image) bool) {
	b.t.Helper()
	ctx := withPatience(b.t)
	w := b.c.Watch()
	defer w.Stop()
	for !ok(b.c.Image()) {
		if _, err := w.Next(ctx); err != nil {
			b.t.Fatalf("broker %d never saw %s: %v", b.cfg.Broker, what, err)
		}
	}
}

// failure waits for what the broker gives to Fatal.
func (b *testBroker) failure() error {
	b.t.Helper()
	select {
	case err := <-b.failed:
		return err
	case <-withPatience(b.t).Done():
		b.t.Fatalf("broker %d did not stop", b.cfg.Broker)
		return nil
	}
}
