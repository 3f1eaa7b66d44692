package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moldau-log/moldau/client"
)

// Load is an idempotent producer that writes numbers as fast as a small window allows, and notes which were acknowledged.
type Load struct {
	t       testing.TB
	sender  sender
	cancel  context.CancelFunc
	stopped chan struct{}

	mu     sync.Mutex // guards what follows
	next   int
	acked  map[int]bool
	failed []error
}

// sender is the client of a load. send calls done once, when the record is acknowledged or given up.
type sender interface {
	send(ctx context.Context, key, value string, done func(error))
	flush(ctx context.Context) error
	close()
}

// nativeSender sends with the native client.
type nativeSender struct{ client *client.Client }

func (s nativeSender) send(ctx context.Context, key, value string, done func(error)) {
	rec := &client.Record{Topic: "numbers", Key: []byte(key), Value: []byte(value)}
	s.client.Produce(ctx, rec, func(_ *client.Record, err error) { done(err) })
}

func (s nativeSender) flush(ctx context.Context) error {
	if err := s.client.Flush(ctx); !errors.Is(err, client.ErrClosed) {
		return err
	}
	return nil
}

func (s nativeSender) close() { s.client.Close() }

// load starts producing to topic numbers.
func (c *Cluster) load(t testing.TB) *Load {
	t.Helper()
	cl, err := client.New(client.WithSeeds(strings.Split(c.Servers(), ",")...), client.WithLinger(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return startLoad(t, nativeSender{cl})
}

func startLoad(t testing.TB, s sender) *Load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{t: t, sender: s, cancel: cancel, stopped: make(chan struct{}), acked: map[int]bool{}}
	go l.run(ctx)
	t.Cleanup(l.finish)
	return l
}

// window bounds what is under way.
const window = 200

func (l *Load) run(ctx context.Context) {
	defer close(l.stopped)
	slots := make(chan struct{}, window)
	for ctx.Err() == nil {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		l.next++
		n := l.next
		l.mu.Unlock()
		l.sender.send(context.WithoutCancel(ctx), strconv.Itoa(n%7), strconv.Itoa(n), func(err error) {
			l.mu.Lock()
			if err == nil {
				l.acked[n] = true
			} else {
				l.failed = append(l.failed, err)
			}
			l.mu.Unlock()
			<-slots
		})
	}
}

// waitFor waits until n more records are acknowledged.
func (l *Load) waitFor(n int) {
	l.t.Helper()
	l.mu.Lock()
	want := len(l.acked) + n
	l.mu.Unlock()
	Eventually(l.t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.acked) < want {
			return fmt.Errorf("%d records acknowledged, want %d (failed: %v)", len(l.acked), want, errors.Join(l.failed...))
		}
		return nil
	})
}

// finish stops producing, waits for the answers under way, and fails the test if a record failed: the client retries.
func (l *Load) finish() {
	l.t.Helper()
	l.cancel()
	<-l.stopped
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := l.sender.flush(ctx); err != nil {
		l.t.Errorf("flush: %v", err)
	}
	l.sender.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failed) > 0 {
		l.t.Errorf("%d records failed, the first: %v", len(l.failed), l.failed[0])
		l.failed = nil
	}
}

// checkAcknowledged reads topic numbers to its end: every acknowledged number is there, none twice, and numbers of one key are in their order.
func (c *Cluster) checkAcknowledged(loads ...*Load) {
	c.t.Helper()
	out := c.Must("consume", "numbers", "--from", "start", "--exit-at-end", "-f", `%k %s\n`)
	seen := map[int]int{}
	last := map[string]int{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(value)
		if err != nil {
			c.t.Fatalf("a line that was never produced: %q", line)
		}
		seen[n]++
		if n <= last[key] {
			c.t.Errorf("key %s: %d comes after %d", key, n, last[key])
		}
		last[key] = n
	}
	for _, l := range loads {
		l.mu.Lock()
		missing, twice := 0, 0
		for n := range l.acked {
			switch seen[n] {
			case 0:
				missing++
			case 1:
			default:
				twice++
			}
		}
		c.t.Logf("acknowledged %d, missing %d, twice %d", len(l.acked), missing, twice)
		if missing > 0 || twice > 0 {
			c.t.Errorf("acknowledged %d, missing %d, twice %d", len(l.acked), missing, twice)
		}
		l.mu.Unlock()
	}
}

// sameReplicas stops every broker in an orderly way and compares the replicas of each partition, batch by batch, with `moldau log dump`.
func (c *Cluster) sameReplicas() {
	c.t.Helper()
	c.TerminateAll()
	dumps := map[string]string{}
	for _, b := range c.Brokers {
		for name, dump := range b.dump() {
			first, ok := dumps[name]
			if !ok {
				dumps[name] = dump
				continue
			}
			if first != dump {
				c.t.Errorf("partition %s: the replica of broker %d differs:\n%s", name, b.ID, firstDifference(first, dump))
			}
		}
	}
	for _, b := range c.Brokers {
		b.Start()
	}
	c.WaitHealthy()
}

// firstDifference shows where two dumps part.
func firstDifference(a, b string) string {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return fmt.Sprintf("line %d\n  %s\n  %s", i+1, left[i], right[i])
		}
	}
	return fmt.Sprintf("%d lines and %d lines", len(left), len(right))
}
