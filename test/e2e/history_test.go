package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/internal/history"
	"github.com/moldau-log/moldau/internal/history/check"
	"github.com/moldau-log/moldau/test/soak/load"
)

// recorder writes a history for load; its first error stays in the writer until it is closed.
type recorder struct {
	*history.Writer
	path string
}

func (r recorder) Write(e history.Event) { _ = r.Writer.Write(&e) }

// recordHistory begins a history, in E2E_HISTORY if that names a directory.
func recordHistory(t *testing.T) recorder {
	t.Helper()
	dir := os.Getenv("E2E_HISTORY")
	if dir == "" {
		dir = t.TempDir()
	}
	r := recorder{path: filepath.Join(dir, strings.ToLower(t.Name())+".jsonl")}
	w, err := history.Create(r.path)
	if err != nil {
		t.Fatal(err)
	}
	r.Writer = w
	t.Cleanup(func() { _ = w.Close() }) // a test that has come so far has closed it before
	return r
}

// TestHistory judges what clients of both doors saw while brokers were killed with -9: producers with acks=isr and with acks=leader, readers, members of a classic and
// of a native group that come and go and commit, and one that asks for ends, committed offsets and owners. E2E_ROUNDS and E2E_SEED make it longer or another one.
func TestHistory(t *testing.T) {
	rounds, seed := number(t, "E2E_ROUNDS", 2), number(t, "E2E_SEED", 3)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "4", "-r", "3")
	topics := load.NewTopics()
	topics.Set("numbers", 4)
	rec := recordHistory(t)
	at := load.Addresses{GRPC: strings.Split(c.Servers(), ",")}
	for _, b := range c.Brokers {
		at.Kafka = append(at.Kafka, b.Kafka)
	}
	l := load.New(at, uint64(seed), rec, topics)
	defer l.Stop()
	startClients(l)
	for round := range rounds {
		victim := c.Brokers[random.IntN(len(c.Brokers))]
		acknowledged(t, l, 200)
		fault := history.Event{Client: "nemesis", Op: int64(round), Kind: history.Fault, Action: fmt.Sprintf("kill -9 broker %d", victim.ID), Type: history.Invoke, Time: history.Now()}
		rec.Write(fault)
		victim.Kill()
		acknowledged(t, l, 200)
		victim.Start()
		c.WaitHealthy()
		fault.Type, fault.Time = history.OK, history.Now()
		rec.Write(fault)
	}
	acknowledged(t, l, 200)
	l.Stop()
	drainAll(t, c, load.New(at, uint64(seed), rec, topics))
	judgeHistory(t, rec)
	c.sameReplicas()
}

// startClients starts some of everything that load has.
func startClients(l *load.Load) {
	const rate = 50
	l.Go("kafka-producer", l.KafkaProducer(rate, history.AcksISR))
	l.Go("native-producer", l.NativeProducer(rate, history.AcksISR))
	l.Go("hasty-producer", l.NativeProducer(rate/2, history.AcksLeader))
	l.Go("kafka-reader", l.KafkaConsumer("", "numbers"))
	l.Go("native-reader", l.NativeConsumer("numbers"))
	for i := range 2 {
		l.Go(fmt.Sprintf("kafka-member-%d", i), l.KafkaMember("classic", "numbers"))
		l.Go(fmt.Sprintf("native-member-%d", i), l.NativeMember("native", "numbers"))
	}
	l.Go("asker", l.Asker([]string{"numbers"}, "classic", "native"))
}

// acknowledged waits for n more acknowledged records.
func acknowledged(t *testing.T, l *load.Load, n int64) {
	t.Helper()
	want := l.Counts.Acknowledged() + n
	Eventually(t, func() error {
		if got := l.Counts.Acknowledged(); got < want {
			return fmt.Errorf("%d records are acknowledged, want %d", got, want)
		}
		return nil
	})
}

// drainAll reads every partition to its end, from the brokers that lead them.
func drainAll(t *testing.T, c *Cluster, l *load.Load) {
	t.Helper()
	ends := map[int32]load.Ends{}
	for _, p := range c.describe("numbers").Partitions {
		if ends[int32(p.Leader)] == nil {
			ends[int32(p.Leader)] = load.Ends{}
		}
		ends[int32(p.Leader)][client.TopicPartition{Topic: "numbers", Partition: int32(p.Partition)}] = p.HighWatermark
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*Patience)
	defer cancel()
	for leader, of := range ends {
		if err := l.DrainNative(ctx, fmt.Sprintf("drain-native-%d", leader), leader, of); err != nil {
			t.Fatal(err)
		}
		if err := l.DrainKafka(ctx, fmt.Sprintf("drain-kafka-%d", leader), leader, of); err != nil {
			t.Fatal(err)
		}
	}
}

// judgeHistory gives what was recorded to the checker.
func judgeHistory(t *testing.T, rec recorder) {
	t.Helper()
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(rec.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	judge := check.New(check.Options{MaxRecovery: int64(30 * time.Second)})
	if err := judge.Merge([]check.Source{check.NewSource(rec.path, f)}); err != nil {
		t.Fatal(err)
	}
	report := judge.Report()
	var text strings.Builder
	if err := report.Print(&text); err != nil {
		t.Fatal(err)
	}
	if !report.Clean() {
		t.Errorf("the history has anomalies (E2E_HISTORY=DIR keeps it):\n%s", text.String())
	}
	for _, ch := range report.Checks {
		if heldInHistory[ch.Kind] && ch.Checked == 0 {
			t.Errorf("%s was held against nothing", ch.Kind)
		}
	}
	t.Logf("\n%s", text.String())
}

// heldInHistory are the checks that such a run has something for.
var heldInHistory = map[check.Kind]bool{
	check.Duplicate: true, check.LostWrite: true, check.Unseen: true, check.PollSkip: true, check.NonmonotonicSend: true, check.RealTime: true, check.LatestBack: true,
	check.StaleCommit: true, check.FencedCommit: true, check.TwoOwners: true, check.EpochBack: true, check.Unavailable: true,
}
