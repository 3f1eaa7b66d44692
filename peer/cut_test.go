package peer

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moldau-log/moldau/controller"
)

// tap is a TCP relay that can stop carrying bytes in one direction without closing anything, as a one-way network fault does.
type tap struct {
	net.Listener
	cutUp, cutDown atomic.Bool
	wg             sync.WaitGroup
}

func newTap(t *testing.T, to string) *tap {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{Listener: l}
	ctx, cancel := context.WithCancel(context.Background())
	p.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			context.AfterFunc(ctx, func() { in.Close(); out.Close() })
			p.wg.Go(func() { relay(out, in, &p.cutUp) })
			p.wg.Go(func() { relay(in, out, &p.cutDown) })
		}
	})
	t.Cleanup(func() { l.Close(); cancel(); p.wg.Wait() })
	return p
}

// relay copies until the source ends, and swallows what comes while cut. The end of a cut direction is not passed on either.
func relay(to, from net.Conn, cut *atomic.Bool) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if !cut.Load() && n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if !cut.Load() {
				to.Close()
			}
			return
		}
	}
}

// Case 48: when bytes get lost in one direction only, both ends give the connection up, although one of them still hears the other.
func TestCase48_OneWayCutIsNoticedByBothEnds(t *testing.T) {
	for name, cut := range map[string]func(*tap){
		"requests are lost": func(p *tap) { p.cutUp.Store(true) },
		"answers are lost":  func(p *tap) { p.cutDown.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			short := func(c *Config) { c.timing = quick }
			a, b := start(t, identity(0, clusterA), short), start(t, identity(1, clusterA), short)
			entered, ended := make(chan struct{}), make(chan error, 1)
			b.serveControl(func(ctx context.Context, _ controller.Request) (controller.Response, error) {
				close(entered)
				<-ctx.Done()
				ended <- ctx.Err()
				return nil, ctx.Err()
			})
			p := newTap(t, b.Addr().String())
			to := controller.Endpoint{Address: p.Addr().String(), Server: b.identity().Server()}
			called := make(chan error, 1)
			go func() {
				_, err := a.Call(context.Background(), to, controller.ProposeRequest{})
				called <- err
			}()
			within(t, "the request", entered)
			cut(p)
			if err := within(t, "the caller", called); !errors.Is(err, ErrLost) {
				t.Errorf("the caller ends with %v", err)
			}
			if err := within(t, "the handler", ended); !errors.Is(err, context.Canceled) {
				t.Errorf("the handler ends with %v", err)
			}
			eventually(t, "both have dropped the connection", func() bool {
				return a.Stats().Connections == 0 && b.Stats().Connections == 0
			})
		})
	}
}

// An idle connection lives on pings alone: the reader outlasts several times the silence that would end it.
func TestIdleConnectionLivesOnPings(t *testing.T) {
	near, far := net.Pipe()
	cfg := Config{MaxFrame: 1 << 10, timing: quick}
	a, b := newFramed(near, cfg), newFramed(far, cfg)
	defer a.close()
	defer b.close()
	go b.receive() // takes a's pings
	pings := make(chan struct{})
	go func() {
		// a hears nothing but b's pings until the late request.
		kind, id, body, err := a.receive()
		if kind != frameRequest || id != 7 || string(body) != "late" || err != nil {
			t.Errorf("received %d %d %q %v", kind, id, body, err)
		}
		close(pings)
	}()
	begun := time.Now()
	eventually(t, "the silence would have ended it thrice", func() bool { return time.Since(begun) > 3*quick.dead })
	if err := b.send(frameRequest, 7, nil, []byte("late")); err != nil {
		t.Error(err)
	}
	within(t, "the late request", pings)
}
