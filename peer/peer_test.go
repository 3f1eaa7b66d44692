package peer

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
)

var (
	clusterA = cluster.UUID{0xaa, 1}
	clusterB = cluster.UUID{0xbb, 2}
)

// directory returns a directory id of its own for every broker and disk.
func directory(broker, disk byte) cluster.UUID { return cluster.UUID{0xd0, broker, disk} }

// node is a Peer under test with an identity that can change and a log that can be read.
type node struct {
	*Peer
	log *lockedBuffer

	mu   sync.Mutex // guards the two below
	self Identity
	book map[cluster.BrokerID]controller.Endpoint
}

// lockedBuffer takes log lines from any goroutine.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// identity is broker id on its first disk in a cluster.
func identity(id cluster.BrokerID, of cluster.ClusterID) Identity {
	return Identity{Broker: id, Directory: directory(byte(id), 0), Incarnation: cluster.UUID{1, byte(id)}, Cluster: of}
}

// quick is a timing with which a test of silence ends soon, and that a loaded machine still meets.
var quick = timing{handshake: 2 * time.Second, ping: 50 * time.Millisecond, dead: 400 * time.Millisecond, write: 2 * time.Second}

// start runs a Peer on a free loopback port until the test ends.
func start(t testing.TB, self Identity, edit ...func(*Config)) *node {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{log: new(lockedBuffer), self: self, book: map[cluster.BrokerID]controller.Endpoint{}}
	cfg := Config{
		Listener: l,
		Self:     n.identity,
		Resolve:  n.resolveBroker,
		Log:      slog.New(slog.NewTextHandler(n.log, nil)),
	}
	for _, e := range edit {
		e(&cfg)
	}
	if n.Peer, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

func (n *node) identity() Identity {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.self
}

func (n *node) setCluster(id cluster.ClusterID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.self.Cluster = id
}

func (n *node) resolveBroker(id cluster.BrokerID) (controller.Endpoint, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, ok := n.book[id]
	return e, ok
}

// knows puts another node into the address book.
func (n *node) knows(o *node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.book[o.identity().Broker] = o.endpoint()
}

func (n *node) endpoint() controller.Endpoint {
	return controller.Endpoint{Address: n.Addr().String(), Server: n.identity().Server()}
}

// within fails the test if a channel stays silent for long: the bound of every wait here.
func within[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("waited too long for %s", what)
		panic("unreachable")
	}
}

// eventually polls a condition that other goroutines bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited too long until %s", what)
		}
	}
}

func withTimeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// readToEnd returns what the other end still sends before it closes.
func readToEnd(t testing.TB, conn net.Conn) []byte {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	b, err := io.ReadAll(conn)
	if err, ok := err.(net.Error); ok && err.Timeout() {
		t.Fatal("the connection stays open")
	}
	return b
}
