package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// tp is partition n of a topic.
func tp(n int) cluster.TopicPartition { return cluster.TopicPartition{Partition: int32(n)} }

// TestLeader runs the scripts in testdata/leader. After each command the queue and the bytes under way are printed.
func TestLeader(t *testing.T) {
	datadriven.Walk(t, "testdata/leader", func(t *testing.T, path string) {
		var l *Leader
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				l = NewLeader(Limits{StreamCredit: arg(t, d, "stream", 1000), PartitionCredit: arg(t, d, "partition", 1000),
					MaxSend: arg(t, d, "send", 400), MaxSubscriptions: arg(t, d, "subscriptions", 10)})
				return ""
			}
			return leaderCommand(t, l, d) + leaderState(l)
		})
	})
}

func arg(t *testing.T, d *datadriven.TestData, key string, otherwise int) int {
	if !d.HasArg(key) {
		return otherwise
	}
	var n int
	d.ScanArgs(t, key, &n)
	return n
}

func leaderCommand(t *testing.T, l *Leader, d *datadriven.TestData) string {
	id := SubscriptionID(arg(t, d, "id", 0))
	switch d.Cmd {
	case "subscribe":
		old, superseded, err := l.Subscribe(Subscribe{ID: id, Partition: tp(arg(t, d, "p", 0)), LogEnd: record.Offset(arg(t, d, "end", 0))})
		switch {
		case err != nil:
			return fmt.Sprintf("%v\n", err)
		case superseded:
			return fmt.Sprintf("supersedes %d\n", old)
		}
	case "accept":
		return fmt.Sprintf("%v\n", l.Accepted(id))
	case "wake":
		return fmt.Sprintf("news=%v\n", l.Wake(id))
	case "end":
		p, ok := l.End(id)
		return fmt.Sprintf("p=%d %v\n", p.Partition, ok)
	case "ack":
		of, ok := l.Acked(Ack{ID: id, LogEnd: record.Offset(arg(t, d, "end", 0))})
		return fmt.Sprintf("p=%d %v\n", of.Partition.Partition, ok)
	case "turn":
		// One turn: the log has bytes= left, up to end=, and the watermark is hw=.
		s, ok := l.Next()
		if !ok {
			return "nobody\n"
		}
		due := l.Sent(s.ID, Found{Bytes: arg(t, d, "bytes", 0), End: record.Offset(arg(t, d, "end", 0)),
			HighWatermark: record.Offset(arg(t, d, "hw", 0)), LogStart: record.Offset(arg(t, d, "start", 0))})
		return fmt.Sprintf("id=%d p=%d from=%d max=%d frame=%v\n", s.ID, s.Partition.Partition, s.From, s.Max, due)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return ""
}

func leaderState(l *Leader) string {
	var b strings.Builder
	b.WriteString("queue:")
	for o := l.first; o != nil; o = o.next {
		fmt.Fprintf(&b, " %d", o.sub.ID)
	}
	fmt.Fprintf(&b, " in flight: %d ready: %v\n", l.InFlight(), l.Ready())
	return b.String()
}

// A follower that breaks the protocol is told apart from one that is merely late.
func TestLeaderProtocolErrors(t *testing.T) {
	l := NewLeader(Limits{StreamCredit: 100, PartitionCredit: 100, MaxSend: 10, MaxSubscriptions: 2})
	subscribe := func(id SubscriptionID, p int) error {
		_, _, err := l.Subscribe(Subscribe{ID: id, Partition: tp(p), LogEnd: 5})
		return err
	}
	if err := errors.Join(subscribe(3, 1), subscribe(4, 2)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []SubscriptionID{4, 3, 0} {
		if err := subscribe(id, 9); !errors.Is(err, ErrReusedID) {
			t.Errorf("id %d again: %v", id, err)
		}
	}
	if err := subscribe(5, 3); !errors.Is(err, ErrTooMany) {
		t.Errorf("a third of two: %v", err)
	}
	if _, ok := l.Acked(Ack{ID: 99, LogEnd: 1000}); ok {
		t.Error("a late ack of an ended subscription counts")
	}
}

// Under random traffic the credit holds, every byte is sent once and in order, and everything is sent in the end.
func TestLeaderModel(t *testing.T) {
	const batch = 90 // bytes of one record's batch; larger than some credits, so that overshoot by one batch occurs
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		lim := Limits{StreamCredit: 200 + rnd.IntN(2000), PartitionCredit: 100 + rnd.IntN(1000), MaxSend: 50 + rnd.IntN(500), MaxSubscriptions: 20}
		l := NewLeader(lim)
		const parts = 7
		ends, sent, acked := [parts]int{}, [parts]int{}, [parts]int{}
		for i := range parts {
			if _, _, err := l.Subscribe(Subscribe{ID: SubscriptionID(i + 1), Partition: tp(i)}); err != nil {
				t.Fatal(err)
			}
			l.Accepted(SubscriptionID(i + 1))
		}
		turn := func() bool {
			s, ok := l.Next()
			if !ok {
				return false
			}
			p := int(s.Partition.Partition)
			if int(s.From) != sent[p] {
				t.Fatalf("seed %d: partition %d is read from %d, position is %d", seed, p, s.From, sent[p])
			}
			n := min(max(s.Max/batch, 1), ends[p]-sent[p])
			sent[p] += n
			l.Sent(s.ID, Found{Bytes: n * batch, End: record.Offset(sent[p]), HighWatermark: record.Offset(acked[p])})
			if l.InFlight() > lim.StreamCredit+batch {
				t.Fatalf("seed %d: %d bytes in flight of %d", seed, l.InFlight(), lim.StreamCredit)
			}
			if own := (sent[p] - acked[p]) * batch; own > lim.PartitionCredit+batch {
				t.Fatalf("seed %d: %d bytes of one partition in flight of %d", seed, own, lim.PartitionCredit)
			}
			return true
		}
		ack := func(p, to int) {
			acked[p] = to
			l.Acked(Ack{ID: SubscriptionID(p + 1), LogEnd: record.Offset(to)})
		}
		for range 3000 {
			p := rnd.IntN(parts)
			switch rnd.IntN(3) {
			case 0:
				ends[p] += 1 + rnd.IntN(5)
				l.Wake(SubscriptionID(p + 1))
			case 1:
				turn()
			case 2:
				// Whole frames only, so that the model's count of a partition is exact; maxChunks merges the rest.
				if rnd.IntN(2) == 0 {
					ack(p, sent[p])
				}
			}
		}
		for range 10000 {
			if !turn() {
				for p := range parts {
					ack(p, sent[p])
				}
			}
		}
		if sent != ends || l.InFlight() != 0 {
			t.Fatalf("seed %d: sent %v of %v, %d in flight", seed, sent, ends, l.InFlight())
		}
	}
}
