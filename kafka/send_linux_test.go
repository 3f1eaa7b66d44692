package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/segment"
)

// What becomes of an answer with records while it is on its way: real files, real sockets, and ranges that are larger than what the sockets hold, so that the send
// is under way for as long as the client does not read.

// sentBytes is the size of the range that these tests send. The sockets hold less: the client has a small read buffer.
const sentBytes = 8 << 20

// sending is a door over a log whose first segment holds more than sentBytes. Every fetch gets a range of that from the start.
type sending struct {
	*door
	log  *segment.Log
	dir  string
	want []byte // the bytes of the range
}

func openSending(t *testing.T, cfg Config) *sending {
	t.Helper()
	s := &sending{door: openDoor(t, cfg), dir: t.TempDir() + "/log"}
	var err error
	if s.log, _, err = segment.Open(vfs.OS{}, s.dir, segment.Identity{Topic: "t"}, segment.DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.log.Close() })
	r := rand.NewChaCha8([32]byte{1})
	for len(s.want) < sentBytes {
		s.want = append(s.want, s.append(r)...)
	}
	s.broker.onFetch = func(context.Context, broker.FetchRequest) []broker.FetchedPartition {
		v := s.log.View()
		slice, err := v.Read(v.Start(), len(s.want), v.End())
		if err != nil || slice.Len() != len(s.want) {
			t.Errorf("read: %d bytes, %v", slice.Len(), err)
		}
		return []broker.FetchedPartition{{Slice: &slice}}
	}
	return s
}

// append writes a batch of a megabyte at the end of the log and returns its bytes.
func (s *sending) append(r io.Reader) []byte {
	s.t.Helper()
	value := make([]byte, 1<<20-200)
	_, _ = r.Read(value) // a random source gives everything
	b := record.NewBuilder(record.BuilderOptions{})
	b.Append(1, nil, value, nil)
	batch, err := b.Build()
	if err != nil {
		s.t.Fatal(err)
	}
	raw := batch.Bytes()
	binary.BigEndian.PutUint64(raw, uint64(s.log.End()))
	binary.BigEndian.PutUint32(raw[12:], 1)
	if _, err := s.log.Append(1, raw); err != nil {
		s.t.Fatal(err)
	}
	return raw
}

// begin asks and reads the start of the answer, a thousand bytes; rest is how much there is to come.
func (s *sending) begin() (c *client, rest int) {
	s.t.Helper()
	c = s.dial()
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	c.send(oneTopicFetch(13, 0, -1))
	head := make([]byte, 4+1000)
	if _, err := io.ReadFull(c, head); err != nil {
		s.t.Fatal(err)
	}
	return c, int(binary.BigEndian.Uint32(head)) - 1000
}

// rest reads what begin has left of an answer, or as much of it as comes.
func (s *sending) rest(c *client, rest int) []byte {
	got, _ := io.ReadAll(io.LimitReader(c, int64(rest)))
	return got
}

// wantRest wants the rest of an answer as it is stored.
func (s *sending) wantRest(c *client, rest int) {
	s.t.Helper()
	const tags = 3 // of the partition, the topic and the answer
	if got := s.rest(c, rest); len(got) != rest || !bytes.HasSuffix(s.want, got[:rest-tags]) {
		s.t.Errorf("%d of %d bytes came, or others", len(got), rest)
	}
}

// gone waits until the door has no connection any more.
func (s *sending) gone() {
	s.t.Helper()
	waitFor(s.t, "the end of all connections", func() bool {
		s.s.mu.Lock()
		defer s.s.mu.Unlock()
		return len(s.s.conns) == 0
	})
}

// deletedFiles are the files of the log that are deleted and still held open by this process.
func (s *sending) deletedFiles() (out []string) {
	s.t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		name, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && strings.HasPrefix(name, s.dir) && strings.HasSuffix(name, " (deleted)") {
			out = append(out, name)
		}
	}
	return out
}

// dropAll deletes the segment that is sent, as retention does.
func (s *sending) dropAll() {
	s.t.Helper()
	cfg := segment.DefaultConfig()
	cfg.SegmentBytes = 1 << 20
	s.log.SetConfig(cfg)
	s.append(rand.NewChaCha8([32]byte{2})) // the next segment
	if err := s.log.MoveStart(s.log.End()); err != nil {
		s.t.Fatal(err)
	}
}

func TestFetch_BytesAreCountedWhenTheyAreSent(t *testing.T) {
	s := openSending(t, Config{})
	c, rest := s.begin()
	if n := s.broker.sent.Load(); n != 0 {
		t.Errorf("%d bytes are counted while the client does not read", n)
	}
	s.wantRest(c, rest)
	waitFor(t, "the count", func() bool { return s.broker.sent.Load() == int64(len(s.want)) })
}

// The file is cut while it is sent: the promised length cannot be kept, so the connection ends. What has come is what was stored, never what was written later.
func TestCase150_TruncationDuringASendEndsTheConnection(t *testing.T) {
	s := openSending(t, Config{})
	c, rest := s.begin()
	if err := s.log.TruncateTo(1); err != nil {
		t.Fatal(err)
	}
	s.append(rand.NewChaCha8([32]byte{3}))
	got := s.rest(c, rest)
	if len(got) >= rest {
		t.Fatal("the whole answer came out of a log that was cut")
	}
	from := bytes.Index(s.want, got[:100])
	for i, b := range got {
		if b != s.want[from+i] && b != 0 { // the kernel clears the rest of the page in which a file is cut
			t.Fatalf("byte %d of the answer is %#x, stored was %#x", i, b, s.want[from+i])
		}
	}
	s.gone()
	if n := s.broker.sent.Load(); n != 0 {
		t.Errorf("%d bytes count as sent", n)
	}
	if log := s.door.log.String(); strings.Contains(log, "panic") {
		t.Errorf("logged:\n%s", log)
	}
}

// Retention deletes the segment while it is sent: the reader gets all of it, and the file goes when the send is over.
func TestCase100_RetentionDuringASend(t *testing.T) {
	s := openSending(t, Config{})
	c, rest := s.begin()
	s.dropAll()
	if s.log.Start() != s.log.End() || len(s.deletedFiles()) != 1 {
		t.Fatalf("deleted and open: %v", s.deletedFiles())
	}
	s.wantRest(c, rest)
	waitFor(t, "the file to close", func() bool { return len(s.deletedFiles()) == 0 })
}

// Clients that go away in the middle, or stop reading for longer than the idle time, hold neither file nor connection.
func TestFetch_AnInterruptedSendHoldsNothing(t *testing.T) {
	for name, x := range map[string]struct {
		cfg       Config
		interrupt func(*client)
	}{
		"close": {Config{}, func(c *client) { c.Close() }},
		"reset": {Config{}, func(c *client) {
			_ = c.Conn.(*net.TCPConn).SetLinger(0)
			c.Close()
		}},
		"half close":    {Config{}, func(c *client) { _ = c.Conn.(*net.TCPConn).CloseWrite(); c.Close() }},
		"never reading": {Config{IdleTimeout: time.Second}, func(*client) {}}, // long enough for a busy machine to send a request
	} {
		s := openSending(t, x.cfg)
		for range 20 {
			c, _ := s.begin()
			x.interrupt(c)
		}
		s.gone()
		s.dropAll()
		if left := s.deletedFiles(); len(left) != 0 {
			t.Errorf("%s: still open: %v", name, left)
		}
		if n := s.broker.sent.Load(); n != 0 {
			t.Errorf("%s: %d bytes count as sent", name, n)
		}
	}
}

// What the kernel holds of an answer whose client does not read is bounded: it is memory that nothing here counts, and while it drains a slow client seems to stand still. The
// door gives the send up after the idle time, and what the kernel has by then still comes (case 108).
func TestCase108_TheKernelHoldsLittleOfAnAnswer(t *testing.T) {
	s := openSending(t, Config{IdleTimeout: time.Second}) // long enough for a busy machine to send a request
	c, rest := s.begin()
	s.gone()
	const most = 1 << 20 // what is unsent, and what this client's own kernel has taken
	if got := len(s.rest(c, rest)); got > most {
		t.Errorf("the kernel had taken %d bytes of an answer of %d", got, rest)
	}
}
