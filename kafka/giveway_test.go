package kafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moldau-log/moldau/internal/budget"
)

// readRequest gives one end of a pipe to a frame reader, and returns the other and what the reader makes of a request. The connection holds no other request.
func readRequest(t *testing.T, held *budget.Budget) (net.Conn, <-chan error) {
	near, far := net.Pipe()
	t.Cleanup(func() { far.Close() })
	r := frameReader{
		net: &readSide{net: near}, in: bufio.NewReaderSize(near, readBuffer), max: 100 << 20, idle: time.Hour, step: time.Minute, buffers: new(buffers), ctx: t.Context(), held: held,
		alone: func(int) bool { return true },
	}
	done := make(chan error, 1)
	go func() {
		defer near.Close()
		n, err := r.size()
		if err == nil {
			_, err = r.body(n)
		}
		done <- err
	}()
	return far, done
}

// announce sends the length of a request, and so many bytes of it.
func announce(c net.Conn, n, sent int) error {
	_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(n)), make([]byte, sent)...))
	return err
}

// Requests that are announced and not finished hold all that there is for requests. A small request gets through at once, whatever they hold; a large one gets
// through when those have had their time, which they have only as long as nobody else finds no room.
func TestCase108_UnfinishedRequestsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := budget.New(4 << 20)
		var unfinished []<-chan error
		for range 4 { // each has room for the megabyte that has begun
			far, done := readRequest(t, held)
			go func() { _ = announce(far, 90<<20, 600<<10) }()
			unfinished = append(unfinished, done)
		}
		synctest.Wait()
		if held.Held() < 4<<20 {
			t.Fatalf("%d bytes are held", held.Held())
		}
		far, small := readRequest(t, held)
		go func() { _ = announce(far, readBuffer, readBuffer) }()
		synctest.Wait()
		if len(small) == 0 {
			t.Error("a small request waits for those that are not finished")
		}
		time.Sleep(20 * time.Second) // the steps are longer
		if len(unfinished[0])+len(unfinished[1])+len(unfinished[2])+len(unfinished[3]) > 0 {
			t.Error("an unfinished request was given up without need")
		}
		far, large := readRequest(t, held)
		start := time.Now()
		go func() { _ = announce(far, 1<<20, 1<<20) }()
		if err := <-large; err != nil || time.Since(start) > 10*time.Second {
			t.Errorf("a large request: %v after %v", err, time.Since(start))
		}
		synctest.Wait()
		var slow errGaveWay
		ended := 0
		for _, u := range unfinished {
			select {
			case err := <-u:
				ended++
				if !errors.As(err, &slow) {
					t.Errorf("an unfinished request ends with %v", err)
				}
			default:
			}
		}
		if ended == 0 || ended == len(unfinished) {
			t.Errorf("%d unfinished requests have given way", ended)
		}
	})
}

// Answers that their clients do not take hold all that there is for answers. Who finds no room gets it when those have had their time.
func TestCase108_UnreadAnswersGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := budget.New(1000)
		near, far := net.Pipe()
		defer far.Close()
		c := &conn{s: &Server{cfg: DefaultConfig()}, net: near}
		c.ctx, c.cancel = context.WithCancel(t.Context())
		shared.Force(1000)
		s := &slot{encoded: make([]byte, 1<<20), shares: shared, share: 1000, written: make(chan struct{})}
		sent := make(chan error, 1)
		go func() {
			_, err := c.send(bufio.NewWriterSize(near, writeBuffer), nil, s)
			s.unshare()
			sent <- err
		}()
		if _, err := io.CopyN(io.Discard, far, 1000); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := shared.Take(t.Context(), 500); err != nil || time.Since(start) > 10*time.Second {
			t.Errorf("room: %v after %v", err, time.Since(start))
		}
		if err := <-sent; err == nil {
			t.Error("the answer was sent, and nobody has read it")
		}
	})
}
