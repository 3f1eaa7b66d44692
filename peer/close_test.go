package peer

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
	"github.com/moldau-log/moldau/internal/sendfile"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/segment"
)

// What segment hands out is what the sending side takes, with its file.
var (
	_ fetcher.Range  = segment.Slice{}
	_ sendfile.Filed = segment.Slice{}
)

// Close ends every kind of stream in both directions and leaves no goroutine.
func TestCloseLeavesNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	a, b := start(t, identity(0, clusterA)), start(t, identity(1, clusterA))
	a.knows(b)
	inHandler := make(chan struct{}, 1)
	b.SetHandlers(Handlers{
		Control: func(ctx context.Context, _ controller.Request) (controller.Response, error) {
			inHandler <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
		Replication: func(_ cluster.BrokerID, _ cluster.BrokerEpoch, s fetcher.LeaderStream) {
			for {
				if _, err := s.Recv(); err != nil {
					return
				}
			}
		},
	})
	layerA, layerB := a.StreamLayer(a.Addr().String()), b.StreamLayer(b.Addr().String())
	accepted := accepting(layerB)
	dialRaft(t, layerA, layerB)
	within(t, "a raft stream", accepted)
	stream, err := a.DialReplication(withTimeout(t), 1, 5)
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan error, 1)
	go func() {
		_, err := a.Call(context.Background(), b.endpoint(), controller.ProbeRequest{})
		called <- err
	}()
	within(t, "the handler", inHandler)

	a.Close()
	if got, err := stream.Recv(); err == nil {
		t.Errorf("a closed peer's stream receives %+v", got)
	}
	stream.Close() // its user's part
	if err := within(t, "the call", called); !errors.Is(err, ErrLost) {
		t.Errorf("the call that was out ends with %v", err)
	}
	b.Close()
	eventually(t, "every goroutine has ended", func() bool { return runtime.NumGoroutine() <= before })
	if a.Stats().Connections != 0 || b.Stats().Connections != 0 {
		t.Errorf("%d and %d connections are left", a.Stats().Connections, b.Stats().Connections)
	}
	if _, err := a.Call(withTimeout(t), b.endpoint(), controller.ProbeRequest{}); !errors.Is(err, controller.ErrNotSent) {
		t.Errorf("a call on a closed peer: %v", err)
	}
	if _, err := a.DialReplication(withTimeout(t), 1, 5); err == nil {
		t.Error("a closed peer dials")
	}
	if a.Close() != nil {
		t.Error("a second close fails")
	}
}

// A health check that connects and hangs up is no stranger, and writes nothing to the log.
func TestHangUpIsSilent(t *testing.T) {
	n := start(t, identity(0, clusterA))
	conn, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	eventually(t, "it is counted", func() bool { return n.Stats().Refused == 1 })
	if n.log.String() != "" || n.Stats().Strange != 0 {
		t.Errorf("log is %q, %d strangers", n.log.String(), n.Stats().Strange)
	}
}
