package controller

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// Bounds of the Raft transport.
const (
	raftConnections = 3               // pooled per peer
	raftTimeout     = 3 * time.Second // per request; a snapshot gets more, by its size
)

// serverID is the Raft identity of a broker with a data directory: a wiped broker is a new server.
func serverID(broker cluster.BrokerID, dir cluster.DirectoryID) raft.ServerID {
	return raft.ServerID(fmt.Sprintf("%d-%s", broker, dir))
}

// parseServerID undoes serverID.
func parseServerID(id raft.ServerID) (cluster.BrokerID, cluster.DirectoryID, error) {
	broker, dir, ok := strings.Cut(string(id), "-")
	if !ok {
		return cluster.NoBroker, cluster.DirectoryID{}, fmt.Errorf("controller: Raft server %q: not <broker id>-<directory id>", id)
	}
	n, err := strconv.ParseInt(broker, 10, 32)
	if err != nil {
		return cluster.NoBroker, cluster.DirectoryID{}, fmt.Errorf("controller: Raft server %q: %w", id, err)
	}
	uuid, err := cluster.ParseUUID(dir)
	if err != nil {
		return cluster.NoBroker, cluster.DirectoryID{}, fmt.Errorf("controller: Raft server %q: %w", id, err)
	}
	return cluster.BrokerID(n), uuid, nil
}

// serverAddress joins a server and where it is: a dialler names the server that it expects there.
func serverAddress(id raft.ServerID, address string) raft.ServerAddress {
	return raft.ServerAddress(string(id) + "@" + address)
}

// splitServerAddress undoes serverAddress.
func splitServerAddress(a raft.ServerAddress) Endpoint {
	server, address, ok := strings.Cut(string(a), "@")
	if !ok {
		return Endpoint{Address: string(a)}
	}
	return Endpoint{Address: address, Server: server}
}

// addressBook resolves Raft servers to addresses: what a seed answered under, until the broker registers again; then its registered address. A server of
// which neither is known is dialled as Raft's configuration says. So a broker may change its address, and a cluster whose brokers have all moved finds
// itself again through its seeds.
type addressBook struct {
	self  raft.ServerID
	own   string
	board *board
	// lastIndex is the last index of the local log: registrations above it are news.
	lastIndex func() uint64

	mu    sync.Mutex // guards heard
	heard map[raft.ServerID]heardAddress
}

// heardAddress is where a server answered, and the end of the local log at that time. Registrations up to there may be older, whether applied yet or not.
type heardAddress struct {
	address string
	after   uint64
}

// registered returns the broker's registration if it is that of the server.
func (b *addressBook) registered(id raft.ServerID) (*cluster.Broker, bool) {
	broker, dir, err := parseServerID(id)
	if err != nil {
		return nil, false
	}
	registered, ok := b.board.image.Load().Broker(broker)
	return registered, ok && registered.Directory == dir
}

// hear notes where a server answered.
func (b *addressBook) hear(id raft.ServerID, address string) {
	after := max(b.lastIndex(), b.board.applied.Load())
	b.mu.Lock()
	b.heard[id] = heardAddress{address, after}
	b.mu.Unlock()
}

// ServerAddr implements raft.ServerAddressProvider. An error makes Raft use the address of its configuration.
func (b *addressBook) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if id == b.self {
		return serverAddress(id, b.own), nil
	}
	b.mu.Lock()
	heard, ok := b.heard[id]
	b.mu.Unlock()
	registered, known := b.registered(id)
	switch {
	case known && (!ok || uint64(registered.Epoch) > heard.after):
		return serverAddress(id, registered.PeerAddress), nil
	case ok:
		return serverAddress(id, heard.address), nil
	}
	return "", fmt.Errorf("controller: Raft server %q has no known address", id)
}

// transport is Raft's network transport with one addition: a lone voter is told to stand for election at once, as if its leader had handed over. It waits for
// nobody, so it needs no shorter timeouts, and Raft need not be restarted with longer ones when a second voter comes.
type transport struct {
	*raft.NetworkTransport
	rpcs chan raft.RPC
	stop chan struct{}
	once sync.Once
	done chan struct{}
}

// newTransport builds the transport over streams; refused is told the server whose peer port refused a connection.
func newTransport(streams StreamLayer, self raft.ServerAddress, book *addressBook, log hclog.Logger, refused func(raft.ServerID)) *transport {
	t := &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			ServerAddressProvider:   book,
			Logger:                  log,
			Stream:                  namedStreams{streams, self, refused},
			MaxPool:                 raftConnections,
			Timeout:                 raftTimeout,
			MsgpackUseNewTimeFormat: true,
			// No pipelining: when a follower refuses an append, as one does whose store fails, hashicorp/raft's pipeline can block for ever on a send that nobody
			// waits for. The leader goes on sending heartbeats, so nothing else would end it, and the follower gets no entry until the controller moves
			// (hashicorp/raft issue 612). Without it the entries that came meanwhile go with the next request, up to raftEntriesMax.
			MaxRPCsInFlight: 1,
		}),
		rpcs: make(chan raft.RPC),
		stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	go t.relay()
	return t
}

// relay hands incoming requests on to Raft.
func (t *transport) relay() {
	defer close(t.done)
	for {
		select {
		case rpc := <-t.NetworkTransport.Consumer():
			select {
			case t.rpcs <- rpc:
			case <-t.stop:
				return
			}
		case <-t.stop:
			return
		}
	}
}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC { return t.rpcs }

// electNow makes Raft stand for election without waiting for a leader. It is for a lone voter, and for the first election of a cluster.
func (t *transport) electNow() {
	request := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}
	select {
	case t.rpcs <- raft.RPC{Command: request, RespChan: make(chan raft.RPCResponse, 1)}:
	case <-t.stop:
	}
}

// Close implements raft.WithClose.
func (t *transport) Close() error {
	t.once.Do(func() { close(t.stop) })
	<-t.done
	return t.NetworkTransport.Close()
}

// namedStreams makes the local address the one that others dial, with the server id in it, and watches for refused connections.
type namedStreams struct {
	StreamLayer
	self    raft.ServerAddress
	refused func(raft.ServerID)
}

// Dial implements raft.StreamLayer.
func (s namedStreams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := s.StreamLayer.Dial(address, timeout)
	if errors.Is(err, syscall.ECONNREFUSED) {
		s.refused(raft.ServerID(splitServerAddress(address).Server))
	}
	return conn, err
}

// Addr implements net.Listener.
func (s namedStreams) Addr() net.Addr { return namedAddr(s.self) }

type namedAddr string

func (namedAddr) Network() string  { return "moldau-peer" }
func (a namedAddr) String() string { return string(a) }
