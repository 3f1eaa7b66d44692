package peer

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/replication/session"
)

func TestReplicationFramesGolden(t *testing.T) {
	const topic = "07000000000000000000000000000000"
	for want, b := range map[string][]byte{
		"00000039" + "01" + "00000005" + topic + "00000003" + "00000004" + "0000000000000064" + "ffffffff" + "0000000000000032" + "0000000000000001": appendUp(nil, session.Subscribe{ID: 5, Partition: tpA, LeaderEpoch: 4, LogEnd: 100, LastEpoch: -1, Flushed: 50, LogStart: 1}),
		"00000005" + "02" + "00000005": appendUp(nil, session.Unsubscribe{ID: 5}),
		"0000001d" + "03" + "00000005" + "0000000000000064" + "0000000000000032" + "0000000000000001":                          appendUp(nil, session.Ack{ID: 5, LogEnd: 100, Flushed: 50, LogStart: 1}),
		"0000001f" + "10" + "00000005" + "0000000000000009" + "0000000000000001" + "0000000000000007" + "6262":                 append(appendDataHead(nil, session.Data{ID: 5, HighWatermark: 9, LogStart: 1, First: 7}, 2), "bb"...),
		"00000022" + "11" + "00000005" + "0000000b" + "00000008" + "01" + "00000007" + "0000000000000050" + "0000000000000002": appendRefused(nil, session.Refused{ID: 5, Code: cluster.CodeFencedLeaderEpoch, LeaderEpoch: 8, Diverged: true, Divergence: cluster.EpochEnd{Epoch: 7, End: 80}, LogStart: 2}),
		"00000001" + "00": replicationPingFrame(),
	} {
		if got := hex.EncodeToString(b); got != want {
			t.Errorf("on the wire\n%s, want\n%s", got, want)
		}
	}
}

// streams connects a follower's end and a leader's end over loopback.
func streams(t testing.TB, edit ...func(*Config)) (fetcher.FollowerStream, fetcher.LeaderStream) {
	t.Helper()
	a, b := start(t, identity(0, clusterA), edit...), start(t, identity(1, clusterA), edit...)
	a.knows(b)
	got := make(chan fetcher.LeaderStream, 1)
	b.SetHandlers(Handlers{Replication: func(follower cluster.BrokerID, epoch cluster.BrokerEpoch, s fetcher.LeaderStream) {
		if follower != 0 || epoch != 42 {
			t.Errorf("follower is %d in epoch %d", follower, epoch)
		}
		got <- s
		<-b.ctx.Done()
	}})
	f, err := a.DialReplication(withTimeout(t), 1, 42)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, within(t, "the leader's end", got)
}

func TestEveryReplicationFrameTravels(t *testing.T) {
	f, l := streams(t)
	ups := []session.Up{
		session.Subscribe{ID: 1, Partition: tpA, LeaderEpoch: 4, LogEnd: 100, LastEpoch: 3, Flushed: 50, LogStart: 1},
		session.Ack{ID: 1, LogEnd: 101, Flushed: 51, LogStart: 2},
		session.Unsubscribe{ID: 1},
	}
	if err := f.Send(ups); err != nil {
		t.Fatal(err)
	}
	for _, want := range ups {
		if got, err := l.Recv(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	refused := session.Refused{ID: 2, Code: cluster.CodeOffsetOutOfRange, LeaderEpoch: 4, Diverged: true, Divergence: cluster.EpochEnd{Epoch: 3, End: 9}, LogStart: 7}
	empty := session.Data{ID: 3, HighWatermark: 10, LogStart: 2, First: 11}
	if err := errors.Join(l.SendData(empty, nil), l.SendRefused(refused), l.Flush()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []session.Down{empty, refused} {
		if got, err := f.Recv(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

// fileRange is a stretch of a file, written to a socket the way segment.Slice is.
type fileRange struct {
	f    *os.File
	at   int64
	n    int
	lies int // so many bytes are missing
}

func (r fileRange) Len() int { return r.n }
func (r fileRange) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, io.NewSectionReader(r.f, r.at, int64(r.n-r.lies)))
}
func (r fileRange) AppendTo(dst []byte) ([]byte, error) {
	at := len(dst)
	dst = append(dst, make([]byte, r.n-r.lies)...)
	_, err := r.f.ReadAt(dst[at:], r.at)
	return dst, err
}
func (r fileRange) Release() {}

// mappedRange is a fileRange that also tells its file, as segment.Slice does.
type mappedRange struct{ fileRange }

func (r mappedRange) File() (*os.File, int64, bool) { return r.f, r.at, true }
func (r mappedRange) Intact() error                 { return nil }

// randomFile returns a file of n random bytes and its content.
func randomFile(t testing.TB, n int) (*os.File, []byte) {
	t.Helper()
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return f, b
}

// Ranges of every size arrive whole and in order, whether gathered or sent from the file, with small frames between them.
func TestRangesOfEverySizeArrive(t *testing.T) {
	t.Run("copied", func(t *testing.T) {
		rangesArrive(t, func(f *os.File, at int64, n int) fetcher.Range { return fileRange{f: f, at: at, n: n} })
	})
	t.Run("from the file", func(t *testing.T) {
		rangesArrive(t, func(f *os.File, at int64, n int) fetcher.Range {
			return mappedRange{fileRange{f: f, at: at, n: n}}
		})
	})
}

func rangesArrive(t *testing.T, stretch func(f *os.File, at int64, n int) fetcher.Range, edit ...func(*Config)) {
	f, l := streams(t, edit...)
	file, content := randomFile(t, 6<<20)
	sizes := []int{1, 33, 4095, 4096, 4097, 53_800, gatherMax - 1, gatherMax, gatherMax + 1, gatherBuf, 1 << 20, 4<<20 + 5, 100, 0, 7}
	sent := make(chan error, 1)
	go func() {
		for i, n := range sizes {
			if err := l.SendData(session.Data{ID: session.SubscriptionID(i), First: record.Offset(n)}, stretch(file, int64(i), n)); err != nil {
				sent <- err
				return
			}
			if err := l.SendRefused(session.Refused{ID: session.SubscriptionID(i)}); err != nil {
				sent <- err
				return
			}
		}
		sent <- l.Flush()
	}()
	for i, n := range sizes {
		down, err := f.Recv()
		if err != nil {
			t.Fatal(err)
		}
		d := down.(session.Data)
		if d.ID != session.SubscriptionID(i) || len(d.Bytes) != n || !bytes.Equal(d.Bytes, content[i:i+n]) {
			t.Errorf("frame %d of %d bytes arrives as %d with %d bytes", i, n, d.ID, len(d.Bytes))
		}
		f.Recycle(d.Bytes)
		if r, err := f.Recv(); err != nil || r.(session.Refused).ID != session.SubscriptionID(i) {
			t.Errorf("behind frame %d comes %+v, %v", i, r, err)
		}
	}
	if err := within(t, "the sender", sent); err != nil {
		t.Error(err)
	}
}

// A range that turns out shorter than it said (its segment was truncated) ends the stream: the follower must not take what follows for its rest.
func TestShortRangeEndsTheStream(t *testing.T) {
	file, _ := randomFile(t, 1<<20)
	for name, r := range map[string]fetcher.Range{
		"gathered":   fileRange{f: file, n: 1000, lies: 10},
		"copied":     fileRange{f: file, n: gatherMax * 2, lies: 10},
		"from file":  mappedRange{fileRange{f: file, at: 1<<20 - gatherMax*2 + 10, n: gatherMax * 2}},
		"all beyond": mappedRange{fileRange{f: file, at: 1 << 21, n: gatherMax * 2}},
	} {
		t.Run(name, func(t *testing.T) {
			f, l := streams(t)
			if err := l.SendData(session.Data{ID: 1}, r); err == nil {
				t.Error("a short range is no error")
			}
			if got, err := f.Recv(); err == nil {
				t.Errorf("the follower gets %+v", got)
			}
		})
	}
}

// Frames above their caps, and frames that make no sense, end the stream at either end without a large allocation.
func TestReplicationFrameCaps(t *testing.T) {
	small := func(c *Config) { c.MaxData = 1 << 16 }
	t.Run("sending", func(t *testing.T) {
		_, l := streams(t, small)
		file, _ := randomFile(t, 1<<17)
		if err := l.SendData(session.Data{}, fileRange{f: file, n: 1 << 17}); !errors.Is(err, errFrameTooLarge) {
			t.Errorf("got %v", err)
		}
	})
	for name, b := range map[string][]byte{
		"data above the cap":    {0x7f, 0xff, 0xff, 0xff, byte(frameData)},
		"data without its head": {0, 0, 0, 5, byte(frameData), 0, 0, 0, 1},
		"refused above the cap": {0, 1, 0, 0, byte(frameRefused)},
		"refused cut short":     {0, 0, 0, 2, byte(frameRefused), 0},
		"unknown type":          {0, 0, 0, 1, 99},
		"empty frame":           {0, 0, 0, 0, 0},
		"a follower's frame":    appendUp(nil, session.Ack{}),
	} {
		t.Run("follower: "+name, func(t *testing.T) {
			f, l := streams(t, small)
			l.(*leaderStream).conn.Write(b)
			if got, err := f.Recv(); err == nil {
				t.Errorf("got %+v", got)
			}
		})
	}
	for name, b := range map[string][]byte{
		"above the cap":       {0xff, 0xff, 0xff, 0xff, byte(frameAck)},
		"ack cut short":       {0, 0, 0, 2, byte(frameAck), 0},
		"unknown type":        {0, 0, 0, 1, 99},
		"a leader's frame":    appendRefused(nil, session.Refused{}),
		"subscribe cut short": append([]byte{0, 0, 0, 9, byte(frameSubscribe)}, make([]byte, 8)...),
	} {
		t.Run("leader: "+name, func(t *testing.T) {
			f, l := streams(t, small)
			f.(*followerStream).conn.Write(b)
			if got, err := l.Recv(); err == nil {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func FuzzReplicationFrames(f *testing.F) {
	f.Add(appendUp(nil, session.Subscribe{ID: 1, Partition: tpA})[4:])
	f.Add(appendUp(nil, session.Ack{ID: 1})[4:])
	f.Add(appendRefused(nil, session.Refused{ID: 1, Diverged: true})[4:])
	f.Add(appendDataHead(nil, session.Data{ID: 1, First: 3}, 0)[4:])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		if up, err := decodeUp(replicationFrame(b[0]), b[1:]); err == nil {
			again, err := decodeUp(replicationFrame(b[0]), appendUp(nil, up)[5:])
			if err != nil || again != up {
				t.Errorf("%+v reads back as %+v, %v", up, again, err)
			}
		}
		if r, err := decodeRefused(b[1:]); err == nil {
			if again, err := decodeRefused(appendRefused(nil, r)[5:]); err != nil || again != r {
				t.Errorf("%+v reads back as %+v, %v", r, again, err)
			}
		}
		if d, err := decodeDataHead(b[1:]); err == nil {
			if again, err := decodeDataHead(appendDataHead(nil, d, 0)[5:]); err != nil || !reflect.DeepEqual(again, d) {
				t.Errorf("%+v reads back as %+v, %v", d, again, err)
			}
		}
	})
}

func TestBufferPool(t *testing.T) {
	p := newBufferPool()
	for _, n := range []int{1, 4 << 10, 4<<10 + 1, 53_800, 4 << 20, 4<<20 + 1} {
		b := p.get(n)
		if len(b) != n {
			t.Errorf("a buffer of %d bytes has %d", n, len(b))
		}
		if n > 4<<10 && n <= 4<<20 && cap(b) > 2*n {
			t.Errorf("a buffer of %d bytes takes %d", n, cap(b))
		}
		p.put(b)
	}
	p.put(nil)
	p.put(make([]byte, 100))
	if b := p.get(100); cap(b) < 100 {
		t.Error("a foreign buffer is lent")
	}
}

// e2eBatch is the size of every batch of the end-to-end tests: its offset, then filler.
const e2eBatch = 1000

// e2eLog is a log of such batches, as leader (Source, Reader) and as follower (Target).
type e2eLog struct {
	mu        sync.Mutex // guards the rest
	ends      map[cluster.TopicPartition]record.Offset
	sinks     map[cluster.TopicPartition]e2eSub
	flushed   map[cluster.TopicPartition]record.Offset // highest acknowledged
	refuse    func() bool
	lost      int
	gaps      int
	fetcher   *fetcher.Fetcher
	delivered int64
}

type e2eSub struct {
	id   session.SubscriptionID
	sink fetcher.Sink
}

func newE2E() *e2eLog {
	return &e2eLog{ends: map[cluster.TopicPartition]record.Offset{}, sinks: map[cluster.TopicPartition]e2eSub{}, flushed: map[cluster.TopicPartition]record.Offset{}}
}

func (l *e2eLog) append(p cluster.TopicPartition, n int) {
	l.mu.Lock()
	l.ends[p] += record.Offset(n)
	s, ok := l.sinks[p]
	l.mu.Unlock()
	if ok {
		s.sink.Wake(s.id)
	}
}

func (l *e2eLog) Subscribe(_ cluster.BrokerID, _ cluster.BrokerEpoch, s session.Subscribe, sink fetcher.Sink) {
	l.mu.Lock()
	l.sinks[s.Partition] = e2eSub{id: s.ID, sink: sink}
	l.flushed[s.Partition] = s.Flushed
	l.mu.Unlock()
	sink.Accepted(s.ID, e2eReader{l: l, tp: s.Partition})
}

func (l *e2eLog) Unsubscribe(_ cluster.BrokerID, _ cluster.BrokerEpoch, p cluster.TopicPartition, id session.SubscriptionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sinks[p].id == id {
		delete(l.sinks, p)
	}
}

func (l *e2eLog) Ack(_ cluster.BrokerID, _ cluster.BrokerEpoch, p cluster.TopicPartition, _ record.LeaderEpoch, a session.Ack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushed[p] = a.Flushed
}

type e2eReader struct {
	l  *e2eLog
	tp cluster.TopicPartition
}

func (r e2eReader) ReadReplica(from record.Offset, limit int) (fetcher.Range, record.Offset, record.Offset, record.Offset, error) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	end := min(r.l.ends[r.tp], from+record.Offset(max(limit/e2eBatch, 1)))
	if end == from {
		return nil, from, from, 0, nil
	}
	return e2eRange{from: from, end: end}, end, from, 0, nil
}

type e2eRange struct{ from, end record.Offset }

func (r e2eRange) Len() int { return int(r.end-r.from) * e2eBatch }
func (r e2eRange) AppendTo(dst []byte) ([]byte, error) {
	for at := r.from; at < r.end; at++ {
		dst = binary.BigEndian.AppendUint64(dst, uint64(at))
		dst = append(dst, make([]byte, e2eBatch-8)...)
	}
	return dst, nil
}
func (r e2eRange) WriteTo(w io.Writer) (int64, error) {
	b, _ := r.AppendTo(nil)
	n, err := w.Write(b)
	return int64(n), err
}
func (r e2eRange) Release() {}

func (l *e2eLog) Data(p cluster.TopicPartition, epoch record.LeaderEpoch, d session.Data, recycle func()) bool {
	l.mu.Lock()
	if l.refuse != nil && l.refuse() {
		l.mu.Unlock()
		return false
	}
	if d.First != l.ends[p] {
		l.gaps++
	}
	for b := d.Bytes; len(b) > 0; b = b[e2eBatch:] {
		if record.Offset(binary.BigEndian.Uint64(b)) != l.ends[p] {
			l.gaps++
		}
		l.ends[p]++
	}
	end := l.ends[p]
	l.delivered += int64(len(d.Bytes))
	l.mu.Unlock()
	recycle()
	l.fetcher.Ack(p, epoch, session.Ack{LogEnd: end, Flushed: end})
	return true
}

func (l *e2eLog) Refused(cluster.TopicPartition, record.LeaderEpoch, session.Refused) {}

func (l *e2eLog) Lost(cluster.TopicPartition, record.LeaderEpoch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost++
}

func (l *e2eLog) Position(p cluster.TopicPartition, _ record.LeaderEpoch) (fetcher.Position, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fetcher.Position{LogEnd: l.ends[p], Flushed: l.ends[p], LastEpoch: record.NoEpoch}, true
}

func (l *e2eLog) end(p cluster.TopicPartition) record.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ends[p]
}

func (l *e2eLog) acked(p cluster.TopicPartition) record.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flushed[p]
}

// replicate connects a follower log to a leader log over two Peers; the tap between them can be cut.
func replicate(t testing.TB, leader, follower *e2eLog, limits session.Limits, edit ...func(*Config)) (via *tap, l *node) {
	t.Helper()
	a, b := start(t, identity(0, clusterA), edit...), start(t, identity(1, clusterA), edit...)
	if tt, ok := t.(*testing.T); ok {
		via = newTap(tt, b.Addr().String())
		to := b.endpoint()
		to.Address = via.Addr().String()
		a.book[1] = to
	} else {
		a.knows(b)
	}
	quiet := slog.New(slog.DiscardHandler)
	sender := fetcher.NewSender(fetcher.SenderConfig{Source: leader, Limits: limits, Log: quiet})
	b.SetHandlers(Handlers{Replication: sender.Serve})
	follower.fetcher = fetcher.New(fetcher.Config{Transport: a, Target: follower, Log: quiet})
	t.Cleanup(follower.fetcher.Close)
	follower.fetcher.SetEpoch(7)
	return via, b
}

// A thousand partitions replicate over one stream, through refusals of a full inbox, a broken connection and a cut one, without a gap, and every
// acknowledgement arrives in the end.
func TestReplicationEndToEnd(t *testing.T) {
	leader, follower := newE2E(), newE2E()
	rnd := rand.New(rand.NewPCG(1, 2))
	follower.refuse = func() bool { return rnd.IntN(200) == 0 }
	limits := session.Limits{StreamCredit: 1 << 20, PartitionCredit: 256 << 10, MaxSend: 100 << 10, MaxSubscriptions: 2000}
	via, b := replicate(t, leader, follower, limits, func(c *Config) { c.timing = quick })
	const parts = 1000
	part := func(i int) cluster.TopicPartition {
		return cluster.TopicPartition{Topic: cluster.UUID{1}, Partition: int32(i)}
	}
	for i := range parts {
		follower.fetcher.Follow(part(i), 1, 1)
	}
	traffic := func() {
		for range 3000 {
			leader.append(part(rnd.IntN(parts)), 1+rnd.IntN(20))
		}
	}
	converged := func() bool {
		for i := range parts {
			if end := leader.end(part(i)); follower.end(part(i)) != end || leader.acked(part(i)) != end {
				return false
			}
		}
		return true
	}
	traffic()
	eventually(t, "all is replicated and acknowledged", converged)

	b.dropAll()
	traffic()
	eventually(t, "all is replicated after a reconnect", converged)

	lost := func() int {
		follower.mu.Lock()
		defer follower.mu.Unlock()
		return follower.lost
	}
	before := lost()
	via.cutDown.Store(true)
	traffic()
	eventually(t, "the follower has noticed the cut", func() bool { return lost() > before })
	via.cutDown.Store(false)
	eventually(t, "all is replicated after the cut", converged)
	if follower.gaps != 0 {
		t.Errorf("%d frames did not continue where the log ended", follower.gaps)
	}
}

// dropAll breaks every connection of a node, as a restart of the network does.
func (n *node) dropAll() {
	n.Peer.mu.Lock()
	defer n.Peer.mu.Unlock()
	for c := range n.Peer.conns {
		c.Close()
	}
}
