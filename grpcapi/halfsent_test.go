package grpcapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moldau-log/moldau/internal/budget"
)

// h2 is a frame.
func h2(typ, flags byte, id uint32, payload []byte) []byte {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), typ, flags}
	return append(binary.BigEndian.AppendUint32(b, id), payload...)
}

// announce is the beginning of a message of so many bytes, of which some come.
func announce(size, come int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)), make([]byte, come)...)
}

// feed is a connection that has certain bytes to read, and then waits for more.
type feed struct {
	net.Conn
	in     chan []byte
	rest   []byte
	piece  int
	closed chan struct{}
}

func newFeed(piece int) *feed {
	f := &feed{in: make(chan []byte, 100), piece: piece, closed: make(chan struct{})}
	f.in <- make([]byte, prefaceSize)
	return f
}

func (f *feed) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		select {
		case f.rest = <-f.in:
		case <-f.closed:
			return 0, io.EOF
		}
	}
	n := copy(p[:min(len(p), f.piece)], f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func (f *feed) Write(p []byte) (int, error) { return len(p), nil }

func (f *feed) Close() error {
	select {
	case <-f.closed:
	default:
		close(f.closed)
	}
	return nil
}

// drain reads what there is.
func drain(t *testing.T, f *feed, w *watched) {
	t.Helper()
	for len(f.in) > 0 || len(f.rest) > 0 {
		if _, err := w.Read(make([]byte, 128<<10)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCase108_WhatIsNotWholeIsCounted: of every stream, however the frames are cut, until the message is whole or one side has ended the stream.
func TestCase108_WhatIsNotWholeIsCounted(t *testing.T) {
	for _, piece := range []int{1 << 20, 1000, 7, 1} {
		f := newFeed(piece)
		of := budget.New(1 << 20)
		w := newWatched(f, of, 1<<20)
		step := func(name string, want int, frames ...[]byte) {
			t.Helper()
			f.in <- bytes.Join(frames, nil)
			drain(t, f, w)
			if held := int(of.Held()); w.unfinished != want || held != max(want-freeUnfinished, 0) {
				t.Errorf("in pieces of %d: %s: %d are not whole, %d are held, want %d", piece, name, w.unfinished, held, want)
			}
		}
		step("settings", 0, h2(4, 0, 0, make([]byte, 18)))
		step("a message begins", 10000, h2(frameHeaders, 4, 1, make([]byte, 40)), h2(frameData, 0, 1, announce(30000, 10000)))
		step("another, on another stream", 90000, h2(frameHeaders, 4, 3, nil), h2(frameData, 0, 3, announce(100000, 80000)))
		step("the first is whole, and one begins", 80003, h2(frameData, 0, 1, append(make([]byte, 20000), announce(1000, 3)...)))
		step("a stream that is not known", 80003, h2(frameData, 0, 9, announce(1000, 999)))
		step("the client ends the second", 3, h2(frameReset, 0, 3, make([]byte, 4)))
		step("a third", 80003, h2(frameHeaders, 4, 5, nil), h2(frameData, 0, 5, announce(100000, 80000)))
		if _, err := w.Write(append(h2(frameData, 0, 5, make([]byte, 50)), h2(frameHeaders, 4|flagEndStream, 5, make([]byte, 30))...)); err != nil {
			t.Fatal(err)
		}
		step("the server has ended the third", 3, h2(frameData, 0, 5, make([]byte, 100)))
		step("the first ends", 0, h2(frameData, flagEndStream, 1, make([]byte, 997)))
		if len(w.streams) != 0 {
			t.Errorf("%d streams are left", len(w.streams))
		}
	}
}

// TestCase108_OneConnectionHasABound: it is closed above.
func TestCase108_OneConnectionHasABound(t *testing.T) {
	f := newFeed(1 << 20)
	w := newWatched(f, budget.New(1<<30), 1<<20)
	var err error
	for id := uint32(1); err == nil && id < 100; id += 2 {
		f.in <- append(h2(frameHeaders, 4, id, nil), h2(frameData, 0, id, announce(1<<20, 200<<10))...)
		for err == nil && len(f.in)+len(f.rest) > 0 {
			_, err = w.Read(make([]byte, 128<<10))
		}
	}
	if !errors.Is(err, errUnfinished) || len(w.streams) != 6 {
		t.Errorf("%v with %d streams", err, len(w.streams))
	}
	w.Close()
}

// TestCase108_WhoSendsHalvesGivesWay: a client that has sent halves and nothing since is closed when another finds no room, and not before.
func TestCase108_WhoSendsHalvesGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := budget.New(1 << 20)
		begin := func() (*feed, *watched) {
			f := newFeed(1 << 20)
			w := newWatched(f, of, 4<<20)
			f.in <- append(h2(frameHeaders, 4, 1, nil), h2(frameData, 0, 1, announce(2<<20, 900<<10))...)
			return f, w
		}
		ended := make([]chan error, 3)
		var feeds []*feed
		for i := range ended {
			f, w := begin()
			feeds = append(feeds, f)
			ended[i] = make(chan error, 1)
			go func() {
				for {
					if _, err := w.Read(make([]byte, 128<<10)); err != nil {
						ended[i] <- err
						return
					}
				}
			}()
			synctest.Wait()
			if i < 2 { // one fits, and one passes above
				time.Sleep(time.Hour)
				if len(ended[0])+len(ended[i]) != 0 {
					t.Error("somebody gives way without need")
				}
			}
		}
		time.Sleep(time.Minute)
		if len(ended[0]) != 1 || len(ended[2]) != 0 || of.Held() > 2<<20 {
			t.Errorf("%d %d %d have ended, %d bytes are held", len(ended[0]), len(ended[1]), len(ended[2]), of.Held())
		}
		for _, f := range feeds {
			f.Close()
		}
	})
}
