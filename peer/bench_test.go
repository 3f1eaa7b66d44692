package peer

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/replication/session"
)

// benchSource has batches of one size without end, from a file in the page cache.
type benchSource struct {
	e2eLog
	file  *os.File
	batch int
	burst int // batches per read at most
	total record.Offset
}

func (s *benchSource) Subscribe(_ cluster.BrokerID, _ cluster.BrokerEpoch, sub session.Subscribe, sink fetcher.Sink) {
	sink.Accepted(sub.ID, s)
}

func (s *benchSource) Ack(cluster.BrokerID, cluster.BrokerEpoch, cluster.TopicPartition, record.LeaderEpoch, session.Ack) {
}

func (s *benchSource) ReadReplica(from record.Offset, limit int) (fetcher.Range, record.Offset, record.Offset, record.Offset, error) {
	n := min(record.Offset(min(max(limit/s.batch, 1), s.burst)), s.total-from)
	if n <= 0 {
		return nil, from, from, 0, nil
	}
	return &benchRange{mappedRange{fileRange{f: s.file, n: int(n) * s.batch}}}, from + n, from, 0, nil
}

// benchRange does not zero the bytes it appends.
type benchRange struct{ mappedRange }

func (r *benchRange) AppendTo(dst []byte) ([]byte, error) {
	at := len(dst)
	dst = dst[:at+r.n]
	_, err := io.ReadFull(io.NewSectionReader(r.f, r.at, int64(r.n)), dst[at:])
	return dst, err
}

// benchTarget takes everything and acknowledges it.
type benchTarget struct {
	f     *fetcher.Fetcher
	batch int

	mu    sync.Mutex // guards the rest
	ends  map[cluster.TopicPartition]record.Offset
	left  int
	ended chan struct{}
}

func (b *benchTarget) Data(p cluster.TopicPartition, epoch record.LeaderEpoch, d session.Data, recycle func()) bool {
	n := len(d.Bytes) / b.batch
	recycle()
	b.mu.Lock()
	b.ends[p] += record.Offset(n)
	end := b.ends[p]
	b.left -= n
	done := n > 0 && b.left <= 0 && b.left+n > 0
	b.mu.Unlock()
	b.f.Ack(p, epoch, session.Ack{LogEnd: end, Flushed: end})
	if done {
		close(b.ended)
	}
	return true
}

func (b *benchTarget) Refused(cluster.TopicPartition, record.LeaderEpoch, session.Refused) {}
func (b *benchTarget) Lost(cluster.TopicPartition, record.LeaderEpoch)                     {}
func (b *benchTarget) Position(cluster.TopicPartition, record.LeaderEpoch) (fetcher.Position, bool) {
	return fetcher.Position{LastEpoch: record.NoEpoch}, true
}

// BenchmarkReplication moves batches from one broker's file to another's Target over loopback; an operation is one batch. 53,800 bytes are 500 records of 100.
// window=one has a single read under way, which is what a follower that pulls with one request in flight gets at best (docs/adr).
func BenchmarkReplication(b *testing.B) {
	one := func(size int) session.Limits {
		return session.Limits{StreamCredit: size, PartitionCredit: size, MaxSend: size, MaxSubscriptions: 10}
	}
	for _, c := range []struct {
		batch, burst int
		window       string
		limits       session.Limits
	}{
		{1_000, 1, "8MiB", session.Limits{}},
		{1_000, 1, "one", one(1_000)},
		{1_000, 500, "8MiB", session.Limits{}},
		{53_800, 1, "8MiB", session.Limits{}},
		{53_800, 1, "one", one(53_800)},
		{53_800, 9, "8MiB", session.Limits{}},
		{53_800, 9, "one", one(9 * 53_800)},
		{517_000, 1, "8MiB", session.Limits{}},
	} {
		b.Run(fmt.Sprintf("batch=%d/burst=%d/window=%s", c.batch, c.burst, c.window), func(b *testing.B) {
			const parts = 6
			file, _ := randomFile(b, c.batch*c.burst)
			source := &benchSource{file: file, batch: c.batch, burst: c.burst, total: record.Offset((b.N + parts - 1) / parts)}
			target := &benchTarget{batch: c.batch, ends: map[cluster.TopicPartition]record.Offset{}, left: int(source.total) * parts, ended: make(chan struct{})}
			from, to := start(b, identity(0, clusterA)), start(b, identity(1, clusterA))
			from.knows(to)
			quiet := slog.New(slog.DiscardHandler)
			to.SetHandlers(Handlers{Replication: fetcher.NewSender(fetcher.SenderConfig{Source: source, Limits: c.limits, Log: quiet}).Serve})
			target.f = fetcher.New(fetcher.Config{Transport: from, Target: target, Log: quiet})
			b.Cleanup(target.f.Close)
			b.SetBytes(int64(c.batch))
			b.ReportAllocs()
			b.ResetTimer()
			target.f.SetEpoch(1)
			for i := range parts {
				target.f.Follow(cluster.TopicPartition{Partition: int32(i)}, 1, 1)
			}
			<-target.ended
		})
	}
}

// BenchmarkCall is one control round trip at a time over loopback.
func BenchmarkCall(b *testing.B) {
	a, to := start(b, identity(0, clusterA)), start(b, identity(1, clusterA))
	a.knows(to)
	to.serveAll()
	payload := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Forward(b.Context(), 1, 1, payload); err != nil {
			b.Fatal(err)
		}
	}
}
