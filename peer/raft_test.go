package peer

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

func TestRaftAddress(t *testing.T) {
	for address, want := range map[string]struct {
		host, server string
		ok           bool
	}{
		"1-abc@host:9093":   {"host:9093", "1-abc", true},
		"1-abc@[::1]:9093":  {"[::1]:9093", "1-abc", true},
		"host:9093":         {},
		"@host:9093":        {},
		"1-abc@":            {},
		"10-a-b_c@h.x:9093": {"h.x:9093", "10-a-b_c", true},
	} {
		got, err := SplitRaftAddress(address)
		if (err == nil) != want.ok || got.Address != want.host || got.Server != want.server {
			t.Errorf("%s: %+v, %v", address, got, err)
		}
		if want.ok && JoinRaftAddress(got.Server, got.Address) != address {
			t.Errorf("%s does not come back", address)
		}
	}
}

// raftNode runs hashicorp/raft in memory over a node's stream layer.
func raftNode(t *testing.T, n *node) (*raft.Raft, raft.Server) {
	t.Helper()
	cfg := raft.DefaultConfig()
	cfg.LocalID = raft.ServerID(n.identity().Server())
	cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaderLeaseTimeout = 200*time.Millisecond, 200*time.Millisecond, 100*time.Millisecond
	cfg.LogOutput = io.Discard
	layer := n.StreamLayer(n.Addr().String())
	transport := raft.NewNetworkTransport(layer, 2, time.Second, io.Discard)
	store := raft.NewInmemStore()
	r, err := raft.NewRaft(cfg, &raft.MockFSM{}, store, store, raft.NewInmemSnapshotStore(), transport)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Shutdown().Error()
		transport.Close()
	})
	return r, raft.Server{ID: cfg.LocalID, Address: raft.ServerAddress(layer.Addr().String())}
}

// Two nodes elect, replicate, and go on after one of them has restarted its Raft on the same port, as a change of the voter count does.
func TestRaftElectsOverTheStreamLayer(t *testing.T) {
	a, b := start(t, identity(0, cluster.UUID{})), start(t, identity(1, cluster.UUID{}))
	ra, sa := raftNode(t, a)
	rb, sb := raftNode(t, b)
	if err := ra.BootstrapCluster(raft.Configuration{Servers: []raft.Server{sa, sb}}).Error(); err != nil {
		t.Fatal(err)
	}
	leader := func() *raft.Raft {
		var found *raft.Raft
		eventually(t, "a leader is elected", func() bool {
			for _, r := range []*raft.Raft{ra, rb} {
				if r.State() == raft.Leader {
					found = r
				}
			}
			return found != nil
		})
		return found
	}
	apply := func() {
		eventually(t, "an entry is committed", func() bool { return leader().Apply([]byte("x"), time.Second).Error() == nil })
	}
	apply()
	eventually(t, "both have applied it", func() bool { return ra.AppliedIndex() > 0 && ra.AppliedIndex() == rb.AppliedIndex() })

	rb.Shutdown().Error()
	rb, _ = raftNode(t, b)
	apply()
	eventually(t, "the restarted one has caught up", func() bool { return rb.AppliedIndex() == ra.AppliedIndex() })
}

// Closing a layer ends its streams, refuses new ones, and leaves the port to the next layer.
func TestRaftLayerClose(t *testing.T) {
	a, b := start(t, identity(0, clusterA)), start(t, identity(1, clusterA))
	layerA, layerB := a.StreamLayer(a.Addr().String()), b.StreamLayer(b.Addr().String())
	var refused *RefusedError
	if _, err := layerA.Dial(raft.ServerAddress(layerB.Addr().String()), 10*time.Second); !errors.As(err, &refused) || refused.Refusal != RefusedNotReady {
		t.Errorf("dial to a layer that nobody accepts on: %v", err)
	}
	accepted := accepting(layerB)
	out := dialRaft(t, layerA, layerB)
	in := within(t, "the accepted stream", accepted)
	go in.Write([]byte("hello"))
	var five [5]byte
	if _, err := io.ReadFull(out, five[:]); err != nil || string(five[:]) != "hello" {
		t.Errorf("read %q, %v", five, err)
	}
	layerB.Close()
	readToEnd(t, out)
	if _, err := layerB.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	if _, err := layerA.Dial(raft.ServerAddress(layerB.Addr().String()), 10*time.Second); !errors.As(err, &refused) || refused.Refusal != RefusedNotReady {
		t.Errorf("dial to a broker without Raft: %v", err)
	}
	out.Close()
	next := b.StreamLayer(b.Addr().String())
	accepted = accepting(next)
	dialRaft(t, layerA, next)
	within(t, "a stream of the next layer", accepted)
}

// accepting takes streams off a layer until it is closed.
func accepting(l net.Listener) <-chan net.Conn {
	out := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			out <- c
		}
	}()
	return out
}

// dialRaft dials until somebody accepts.
func dialRaft(t *testing.T, from, to raft.StreamLayer) net.Conn {
	t.Helper()
	var c net.Conn
	eventually(t, "the layer accepts", func() (ok bool) {
		var err error
		c, err = from.Dial(raft.ServerAddress(to.Addr().String()), 10*time.Second)
		return err == nil
	})
	return c
}
