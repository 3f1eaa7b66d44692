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
		if len(ended[0])+len(ended[1]) == 0 || len(ended[2]) != 0 || of.Held() > 2<<20 {
			t.Errorf("%d %d %d have ended, %d bytes are held", len(ended[0]), len(ended[1]), len(ended[2]), of.Held())
		}
		for _, f := range feeds {
			f.Close()
		}
	})
}

// half is the beginning of a message on a stream of its own.
func half(id uint32, size, come int) []byte {
	return append(h2(frameHeaders, 4, id, nil), h2(frameData, 0, id, announce(size, come))...)
}

// TestCase108_WhoEndsAConnectionSettlesIt: one that has passed above the limit and is closed, with nobody reading from it any more, lets the next one pass.
func TestCase108_WhoEndsAConnectionSettlesIt(t *testing.T) {
	for name, end := range map[string]func(w *watched){"Close": func(w *watched) { w.Close() }, "cut": (*watched).cut} {
		synctest.Test(t, func(t *testing.T) {
			of := budget.New(1 << 20)
			read := make([]byte, 2<<20)
			for i := range 5 {
				f := newFeed(2 << 20)
				w := newWatched(f, of, 4<<20)
				f.in <- half(1, 3<<20, 900<<10)
				done := make(chan error, 1)
				go func() {
					_, _ = w.Read(read)
					_, err := w.Read(read)
					done <- err
				}()
				synctest.Wait()
				if len(done) != 1 {
					t.Errorf("%s: number %d waits for ever", name, i)
					w.Close()
					continue
				}
				if err := <-done; err != nil {
					t.Errorf("%s: number %d: %v", name, i, err)
				}
				if i > 0 { // the first keeps the room filled
					end(w)
				}
			}
		})
	}
}

// TestCase108_ATakeThatEndsWithItsConnectionSettles: the reading goroutine is told that it may pass at the moment that its connection is closed.
func TestCase108_ATakeThatEndsWithItsConnectionSettles(t *testing.T) {
	of := budget.New(1 << 20)
	w := newWatched(newFeed(1), of, 4<<20)
	of.Force(1 << 20)
	w.end()
	if err := w.growth.Take(t.Context(), 1<<20); err != nil {
		t.Fatal(err)
	}
	w.took(1 << 20)
	next := of.Growth()
	if err := next.Take(t.Context(), 1); err != nil || of.Held() != 1<<20+1 {
		t.Errorf("%v, %d are held", err, of.Held())
	}
}

// TestCase108_WhatTheServerRefusesComesBackAtOnce: the client may send nothing more, and not wait for anything.
func TestCase108_WhatTheServerRefusesComesBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := budget.New(1 << 20)
		f := newFeed(2 << 20)
		w := newWatched(f, of, 4<<20)
		f.in <- half(1, 3<<20, 900<<10)
		go func() {
			for {
				if _, err := w.Read(make([]byte, 2<<20)); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		if of.Held() == 0 {
			t.Error("nothing is held")
		}
		if _, err := w.Write(h2(frameReset, 0, 1, make([]byte, 4))); err != nil || of.Held() != 0 {
			t.Errorf("%v, %d are held of a stream that has ended", err, of.Held())
		}
		w.Close()
	})
}

// TestCase108_WhoSendsSlowlyComesToItsEnd: while others wait for room, a client that sends what it has announced, slowly, is not closed, and one that sends nothing is.
func TestCase108_WhoSendsSlowlyComesToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := budget.New(1 << 20)
		start := func() (*feed, *watched, chan error) {
			f := newFeed(2 << 20)
			w := newWatched(f, of, 4<<20)
			f.in <- half(1, 2500<<10, 500<<10)
			done := make(chan error, 1)
			go func() {
				for {
					if _, err := w.Read(make([]byte, 2<<20)); err != nil {
						done <- err
						return
					}
				}
			}()
			synctest.Wait()
			return f, w, done
		}
		slow, w, slowEnd := start()
		silent, _, silentEnd := start()
		last, _, lastEnd := start() // passes above
		for range 20 {              // 100 KiB a second
			time.Sleep(time.Second)
			slow.in <- h2(frameData, 0, 1, make([]byte, 100<<10))
		}
		synctest.Wait()
		if len(slowEnd) != 0 || w.unfinished != 0 {
			t.Errorf("the slow one: %d closed, %d bytes are not whole", len(slowEnd), w.unfinished)
		}
		if len(silentEnd)+len(lastEnd) == 0 {
			t.Error("of the silent ones none was closed")
		}
		slow.Close()
		silent.Close()
		last.Close()
	})
}
