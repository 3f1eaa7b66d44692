package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/moldau-log/moldau/record"
)

// TestFollower runs the scripts in testdata/follower. Times are milliseconds.
func TestFollower(t *testing.T) {
	datadriven.Walk(t, "testdata/follower", func(t *testing.T, path string) {
		f := NewFollower(Backoff{Min: 5 * time.Millisecond, Max: 100 * time.Millisecond})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return followerCommand(t, f, d)
		})
	})
}

func followerCommand(t *testing.T, f *Follower, d *datadriven.TestData) string {
	now := time.Duration(arg(t, d, "at", 0)) * time.Millisecond
	w := Wanted{Partition: tp(arg(t, d, "p", 0)), LeaderEpoch: record.LeaderEpoch(arg(t, d, "epoch", 1))}
	id := SubscriptionID(arg(t, d, "id", 0))
	switch d.Cmd {
	case "follow":
		f.Follow(now, w)
	case "unfollow":
		f.Unfollow(w)
	case "connect":
		f.Connected(now)
	case "disconnect":
		return "lost:" + list(f.Disconnected()) + "\n"
	case "due":
		// Asks for everything that is due, and leaves it to begin.
		var all []Wanted
		for w, ok := f.Due(now); ok; w, ok = f.Due(now) {
			all = append(all, w)
		}
		return "due:" + list(all) + next(f) + "\n"
	case "begin":
		return fmt.Sprintf("%v\n", f.Begin(now, Subscribe{Partition: w.Partition, LeaderEpoch: w.LeaderEpoch,
			LogEnd: record.Offset(arg(t, d, "end", 0)), Flushed: record.Offset(arg(t, d, "flushed", 0))}))
	case "absent":
		f.Absent(now, w)
	case "data":
		w, ok := f.Received(id)
		return fmt.Sprintf("p=%d %v\n", w.Partition.Partition, ok)
	case "refused":
		w, ok := f.Refused(now, Refused{ID: id, Diverged: d.HasArg("diverged")})
		return fmt.Sprintf("p=%d %v%s\n", w.Partition.Partition, ok, next(f))
	case "overrun":
		f.Overrun(now, id)
		return strings.TrimSpace(next(f)) + "\n"
	case "ack":
		end := record.Offset(arg(t, d, "end", 0))
		return fmt.Sprintf("due=%v\n", f.Acknowledge(w, Ack{LogEnd: end, Flushed: record.Offset(arg(t, d, "flushed", int(end)))}))
	case "frames":
		return frames(f)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return fmt.Sprintf("wanted: %d%s\n", f.Len(), next(f))
}

func list(ws []Wanted) string {
	var b strings.Builder
	for _, w := range ws {
		fmt.Fprintf(&b, " %d@%d", w.Partition.Partition, w.LeaderEpoch)
	}
	return b.String()
}

func next(f *Follower) string {
	if at, ok := f.NextDue(); ok {
		return fmt.Sprintf(" next due: %d", at/time.Millisecond)
	}
	return ""
}

func frames(f *Follower) string {
	var b strings.Builder
	for _, up := range f.Frames(nil) {
		switch u := up.(type) {
		case Subscribe:
			fmt.Fprintf(&b, "subscribe id=%d p=%d@%d end=%d flushed=%d\n", u.ID, u.Partition.Partition, u.LeaderEpoch, u.LogEnd, u.Flushed)
		case Unsubscribe:
			fmt.Fprintf(&b, "unsubscribe id=%d\n", u.ID)
		case Ack:
			fmt.Fprintf(&b, "ack id=%d end=%d flushed=%d\n", u.ID, u.LogEnd, u.Flushed)
		}
	}
	return b.String()
}
