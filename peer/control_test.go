package peer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
	"github.com/moldau-log/moldau/replication/fetcher"
)

// serveAll takes every stream type and does nothing with it.
func (n *node) serveAll() {
	layer := n.StreamLayer(n.Addr().String())
	go func() {
		for {
			if _, err := layer.Accept(); err != nil {
				return
			}
		}
	}()
	for !n.raft.Load().ready.Load() {
		runtime.Gosched()
	}
	n.SetHandlers(Handlers{
		Control: func(context.Context, controller.Request) (controller.Response, error) {
			return controller.Redirect{}, nil
		},
		Replication: func(_ cluster.BrokerID, _ cluster.BrokerEpoch, s fetcher.LeaderStream) { s.Recv() },
		Forward: func(_ context.Context, _ cluster.BrokerID, _ uint8, b []byte) ([]byte, error) {
			return b, nil
		},
	})
}

// serveControl answers control requests with f.
func (n *node) serveControl(f ControlHandler) { n.SetHandlers(Handlers{Control: f}) }

var tpA = cluster.TopicPartition{Topic: cluster.UUID{7}, Partition: 3}

func TestEveryControlMessageTravels(t *testing.T) {
	state := &cluster.Partition{
		Replicas: []cluster.BrokerID{1, 2, 3}, Directories: []cluster.DirectoryID{{1}, {2}, {3}}, Adding: []cluster.BrokerID{3},
		Removing: []cluster.BrokerID{1}, ISR: []cluster.BrokerID{1, 2}, ELR: []cluster.BrokerID{3}, Leader: 2, LeaderEpoch: 8,
		PartitionEpoch: 11, LogStart: 90, LastLeader: 1, UncleanLast: true,
	}
	a, b := start(t, identity(0, clusterA)), start(t, identity(1, clusterA))
	for i, c := range []struct {
		req controller.Request
		res controller.Response
	}{
		{controller.ProbeRequest{From: 3, Directory: cluster.UUID{4}, BootstrapExpect: 5},
			controller.ProbeResponse{Broker: 1, Directory: cluster.UUID{2}, Cluster: clusterA, Bootstrapped: true, RaftRuns: true, BootstrapExpect: 3, LeaderAddress: "h:1", LeaderServer: "1-x"}},
		{controller.JoinRequest{Broker: 1, Directory: cluster.UUID{2}, Address: "host:9093", Cluster: clusterA},
			controller.JoinResponse{Code: cluster.CodeDuplicateBroker, Message: "there is one", Cluster: clusterA}},
		{controller.ProposeRequest{Command: []byte("command")},
			controller.ProposeResponse{Result: cluster.Result{Index: 9, Code: cluster.CodeNone, Message: "m", BrokerEpoch: 7, FirstProducerID: 1000,
				Items: []cluster.ItemResult{{Code: cluster.CodeStalePartitionEpoch}, {Partition: state}, {NextSequence: 44}, {Partition: &cluster.Partition{Leader: cluster.NoBroker}}}}}},
		{controller.HeartbeatRequest{Broker: 1, Epoch: 2, Applied: 3, WantDrain: true, Offline: []cluster.TopicPartition{tpA}, Refusing: []cluster.BrokerID{2, 4},
			Online: []cluster.TopicPartition{tpA, tpA}},
			controller.HeartbeatResponse{Code: cluster.CodeStaleBrokerEpoch, Fenced: true, MayShutDown: true}},
		{controller.HeartbeatRequest{}, controller.Redirect{Address: "h:9", Server: "2-y"}},
	} {
		arrived := make(chan controller.Request, 1)
		b.serveControl(func(_ context.Context, req controller.Request) (controller.Response, error) {
			arrived <- req
			return c.res, nil
		})
		res, err := a.Call(withTimeout(t), b.endpoint(), c.req)
		got := within(t, "the request", arrived)
		if err != nil || !reflect.DeepEqual(got, c.req) || !reflect.DeepEqual(res, c.res) {
			t.Errorf("%d: %+v arrived as %+v, answer %+v as %+v, %v", i, c.req, got, c.res, res, err)
		}
	}
	if n := b.Stats().Accepted; n != 1 {
		t.Errorf("five calls took %d connections, want 1", n)
	}
}

func TestControlRefusalsTravel(t *testing.T) {
	a, b := start(t, identity(0, clusterA)), start(t, identity(1, clusterA))
	refusal := &cluster.Error{Code: cluster.CodeNotController, Message: "ask 2", Leader: 2, LeaderEpoch: 4, Endpoint: "h:9093"}
	for _, c := range []struct {
		err  error
		want *cluster.Error
	}{
		{fmt.Errorf("controller: %w", refusal), refusal},
		{errors.New("disk on fire"), &cluster.Error{Code: cluster.CodeUnknown, Message: "disk on fire", Leader: -1, LeaderEpoch: -1}},
		{context.DeadlineExceeded, &cluster.Error{Code: cluster.CodeTimedOut, Message: "context deadline exceeded", Leader: -1, LeaderEpoch: -1}},
	} {
		b.serveControl(func(context.Context, controller.Request) (controller.Response, error) { return nil, c.err })
		_, err := a.Call(withTimeout(t), b.endpoint(), controller.ProposeRequest{})
		var got *cluster.Error
		if !errors.As(err, &got) || *got != *c.want {
			t.Errorf("%v arrives as %v", c.err, err)
		}
	}
}

// Requests on one connection overtake each other: a slow one holds up nobody.
func TestControlCallsAreMultiplexed(t *testing.T) {
	a, b := start(t, identity(0, clusterA)), start(t, identity(1, clusterA))
	release := make(chan struct{})
	b.serveControl(func(ctx context.Context, req controller.Request) (controller.Response, error) {
		if string(req.(controller.ProposeRequest).Command) == "slow" {
			<-release
		}
		return controller.Redirect{Address: string(req.(controller.ProposeRequest).Command)}, nil
	})
	slow := make(chan error, 1)
	go func() {
		_, err := a.Call(context.Background(), b.endpoint(), controller.ProposeRequest{Command: []byte("slow")})
		slow <- err
	}()
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			want := fmt.Sprint(i)
			res, err := a.Call(withTimeout(t), b.endpoint(), controller.ProposeRequest{Command: []byte(want)})
			if err != nil || res != (controller.Redirect{Address: want}) {
				t.Errorf("call %d: %v, %v", i, res, err)
			}
		})
	}
	wg.Wait()
	close(release)
	if err := within(t, "the slow call", slow); err != nil {
		t.Error(err)
	}
	if n := b.Stats().Accepted; n != 1 {
		t.Errorf("the calls took %d connections, want 1", n)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	a, b := start(t, identity(0, clusterA)), start(t, identity(1, clusterA))
	served := make(chan error, 1)
	b.serveControl(func(ctx context.Context, _ controller.Request) (controller.Response, error) {
		_, hasDeadline := ctx.Deadline()
		if !hasDeadline {
			t.Error("the handler's context has no deadline")
		}
		<-ctx.Done()
		served <- ctx.Err()
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := a.Call(ctx, b.endpoint(), controller.ProposeRequest{}); err == nil {
		t.Error("a call without answer succeeds")
	}
	if err := within(t, "the handler's context", served); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the handler ends with %v", err)
	}
}

// A restarted broker is reached again by the next call, and the call that was out fails with ErrLost.
func TestCallReconnects(t *testing.T) {
	a := start(t, identity(0, clusterA))
	b := start(t, identity(1, clusterA))
	to := b.endpoint()
	out := make(chan struct{})
	b.serveControl(func(ctx context.Context, req controller.Request) (controller.Response, error) {
		close(out)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	lost := make(chan error, 1)
	go func() {
		_, err := a.Call(context.Background(), to, controller.ProposeRequest{})
		lost <- err
	}()
	within(t, "the request", out)
	b.Close()
	if err := within(t, "the lost call", lost); !errors.Is(err, ErrLost) {
		t.Errorf("the call that was out ends with %v, want ErrLost", err)
	}
	if _, err := a.Call(withTimeout(t), to, controller.ProposeRequest{}); err == nil {
		t.Error("a call to a stopped broker succeeds")
	}
	again := start(t, identity(1, clusterA), func(c *Config) {
		c.Listener.Close()
		c.Listener, c.ListenAddr = nil, to.Address
	})
	again.serveAll()
	if _, err := a.Call(withTimeout(t), to, controller.ProposeRequest{}); err != nil {
		t.Errorf("call after the restart: %v", err)
	}
}

// A broker without a cluster may probe and join, and is taken as a full member by the first call after it knows its cluster.
func TestCase45_EmptyBrokerMayOnlyProbeAndJoin(t *testing.T) {
	a, b := start(t, identity(0, cluster.UUID{})), start(t, identity(1, clusterA))
	b.serveAll()
	for _, req := range []controller.Request{controller.ProbeRequest{}, controller.JoinRequest{}} {
		if _, err := a.Call(withTimeout(t), b.endpoint(), req); err != nil {
			t.Errorf("%T: %v", req, err)
		}
	}
	for _, req := range []controller.Request{controller.ProposeRequest{}, controller.HeartbeatRequest{}} {
		_, err := a.Call(withTimeout(t), b.endpoint(), req)
		var refused *cluster.Error
		if !errors.As(err, &refused) || refused.Code != cluster.CodeWrongCluster {
			t.Errorf("%T: %v", req, err)
		}
	}
	a.setCluster(clusterA)
	if _, err := a.Call(withTimeout(t), b.endpoint(), controller.HeartbeatRequest{}); err != nil {
		t.Errorf("after joining: %v", err)
	}
	b.setCluster(clusterB)
	_, err := a.Call(withTimeout(t), b.endpoint(), controller.HeartbeatRequest{})
	var refused *cluster.Error
	if !errors.As(err, &refused) || refused.Code != cluster.CodeWrongCluster {
		t.Errorf("the acceptor has changed its cluster: %v", err)
	}
}

func TestFrameCapHoldsBothWays(t *testing.T) {
	small := func(c *Config) { c.MaxFrame = 4096 }
	a, b := start(t, identity(0, clusterA), small), start(t, identity(1, clusterA), small)
	a.knows(b)
	b.SetHandlers(Handlers{Forward: func(_ context.Context, _ cluster.BrokerID, kind uint8, _ []byte) ([]byte, error) {
		return make([]byte, 5000), nil
	}})
	if _, err := a.Forward(withTimeout(t), 1, 1, make([]byte, 5000)); !errors.Is(err, errFrameTooLarge) {
		t.Errorf("request above the cap: %v", err)
	}
	var refused *cluster.Error
	if _, err := a.Forward(withTimeout(t), 1, 1, nil); !errors.As(err, &refused) {
		t.Errorf("answer above the cap: %v", err)
	}
	// An end that does not keep to the cap is closed.
	wide := start(t, identity(2, clusterA))
	wide.knows(b)
	if _, err := wide.Forward(withTimeout(t), 1, 1, make([]byte, 5000)); err == nil {
		t.Error("a frame above the receiver's cap is served")
	}
}

func TestForwardCarriesKindSenderAndBytes(t *testing.T) {
	a, b := start(t, identity(0, clusterA)), start(t, identity(1, clusterA))
	b.SetHandlers(Handlers{Forward: func(_ context.Context, from cluster.BrokerID, kind uint8, payload []byte) ([]byte, error) {
		return fmt.Appendf(nil, "%d %d %s", from, kind, payload), nil
	}})
	if _, err := a.Forward(withTimeout(t), 1, 9, nil); err == nil {
		t.Error("a broker without address is reached")
	}
	a.knows(b)
	got, err := a.Forward(withTimeout(t), 1, 9, []byte("body"))
	if err != nil || string(got) != "0 9 body" {
		t.Errorf("got %q, %v", got, err)
	}
}

func FuzzControl(f *testing.F) {
	for _, req := range []controller.Request{controller.ProbeRequest{}, controller.JoinRequest{Address: "a"}, controller.HeartbeatRequest{Refusing: []cluster.BrokerID{1}}} {
		what, b, _ := encodeRequest(req)
		f.Add(what, b)
	}
	what, b, _ := encodeResponse(controller.ProposeResponse{Result: cluster.Result{Items: []cluster.ItemResult{{Partition: &cluster.Partition{ISR: []cluster.BrokerID{1}}}}}})
	f.Add(what, b)
	f.Fuzz(func(t *testing.T, what uint8, b []byte) {
		if req, err := decodeRequest(what, b); err == nil {
			what2, b2, err := encodeRequest(req)
			again, err2 := decodeRequest(what2, b2)
			if err != nil || err2 != nil || !reflect.DeepEqual(again, req) {
				t.Errorf("%+v reads back as %+v", req, again)
			}
		}
		if res, err := decodeResponse(what, b); err == nil {
			what2, b2, err := encodeResponse(res)
			again, err2 := decodeResponse(what2, b2)
			if err != nil || err2 != nil || !reflect.DeepEqual(again, res) {
				t.Errorf("%+v reads back as %+v", res, again)
			}
		}
		decodeFailure(b)
	})
}

// The controller proposes again only what certainly was not taken: ErrNotSent must be true, and must come whenever it is.
func TestNotSentMeansThatNobodyActed(t *testing.T) {
	a, b := start(t, identity(0, clusterA)), start(t, identity(1, clusterA))
	call := func(to controller.Endpoint, req controller.Request) error {
		_, err := a.Call(withTimeout(t), to, req)
		return err
	}
	if err := call(b.endpoint(), controller.ProposeRequest{}); !errors.Is(err, controller.ErrNotSent) {
		t.Errorf("refused hello: %v", err)
	}
	b.serveControl(func(context.Context, controller.Request) (controller.Response, error) {
		return nil, cluster.Refuse(cluster.CodeWrongCluster, "by the handler")
	})
	if err := call(b.endpoint(), controller.ProposeRequest{}); errors.Is(err, controller.ErrNotSent) {
		t.Errorf("refusal of the handler: %v", err)
	}
	b.setCluster(clusterB)
	var refused *cluster.Error
	if err := call(b.endpoint(), controller.ProposeRequest{}); !errors.Is(err, controller.ErrNotSent) || !errors.As(err, &refused) || refused.Code != cluster.CodeWrongCluster {
		t.Errorf("declined before the handler: %v", err)
	}
	b.setCluster(clusterA)
	b.SetHandlers(Handlers{})
	if err := call(b.endpoint(), controller.ProposeRequest{}); !errors.Is(err, controller.ErrNotSent) {
		t.Errorf("no handler any more: %v", err)
	}
	if err := call(b.endpoint(), controller.ProposeRequest{Command: make([]byte, 17<<20)}); !errors.Is(err, controller.ErrNotSent) {
		t.Errorf("above the cap: %v", err)
	}
	to := b.endpoint()
	b.Close()
	if err := call(to, controller.ProposeRequest{}); !errors.Is(err, controller.ErrNotSent) && !errors.Is(err, ErrLost) {
		t.Errorf("nobody there: %v", err)
	}
	if err := call(to, controller.ProposeRequest{}); !errors.Is(err, controller.ErrNotSent) {
		t.Errorf("nobody there, dialled anew: %v", err)
	}
}

// TestHeartbeat_OfAnEarlierVersion: a broker that does not report which replicas work again keeps its session.
func TestHeartbeat_OfAnEarlierVersion(t *testing.T) {
	want := controller.HeartbeatRequest{Broker: 1, Epoch: 2, Applied: 3, Offline: []cluster.TopicPartition{tpA}, Refusing: []cluster.BrokerID{2}}
	what, b, err := encodeRequest(want)
	if err != nil {
		t.Fatal(err)
	}
	for cut, ok := range map[int]bool{0: true, 4: true, 3: false, 5: false} {
		got, err := decodeRequest(what, b[:len(b)-cut])
		if (err == nil) != ok || ok && !reflect.DeepEqual(got, want) {
			t.Errorf("%d bytes less: %+v, %v", cut, got, err)
		}
	}
}
