package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// reader is a group member that notes what it reads and which errors it is told.
type reader struct {
	consumer *client.Consumer
	done     chan struct{}

	mu     sync.Mutex // guards what follows
	read   map[string]int
	errs   []error
	moves  int // assignments and revocations
	closed bool
}

// joinGroup starts a member of a group that reads topic numbers.
func (c *Cluster) joinGroup(t testing.TB, group string, opts ...client.ConsumerOption) *reader {
	t.Helper()
	r := &reader{read: map[string]int{}, done: make(chan struct{})}
	count := func(context.Context, []client.TopicPartition) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.moves++
	}
	opts = append([]client.ConsumerOption{client.WithGroup(group), client.WithTopics("numbers"), client.WithOnAssigned(count), client.WithOnRevoked(count), client.WithOnLost(count)}, opts...)
	var err error
	if r.consumer, err = c.Client(t).NewConsumer(opts...); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		for rec, err := range r.consumer.Records(context.Background()) {
			r.mu.Lock()
			if err == nil {
				r.read[string(rec.Value)]++
			} else if !errors.Is(err, client.ErrClosed) {
				r.errs = append(r.errs, err)
			}
			r.mu.Unlock()
		}
	}()
	t.Cleanup(r.close)
	return r
}

func (r *reader) close() {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	r.mu.Unlock()
	if !again {
		_ = r.consumer.Close() // the cluster may be gone
		<-r.done
	}
}

// seen is how many different values the readers have read together.
func seen(readers ...*reader) int {
	all := map[string]bool{}
	for _, r := range readers {
		r.mu.Lock()
		for v := range r.read {
			all[v] = true
		}
		r.mu.Unlock()
	}
	return len(all)
}

func (r *reader) moved() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moves
}

// coordinator is the broker that coordinates a group.
func (c *Cluster) coordinator(group string) *Broker {
	c.t.Helper()
	for _, g := range c.groups() {
		if g.Group == group {
			return c.Brokers[g.Coordinator]
		}
	}
	c.t.Fatalf("no group %s", group)
	return nil
}

func (c *Cluster) groups() (out []groupListing) {
	c.t.Helper()
	if err := c.decode(&out, "group", "list", "-o", "json"); err != nil {
		c.t.Fatal(err)
	}
	return out
}

// TestCase148And83_CoordinatorKilled: the members of a stable group notice nothing of their coordinator's death: same epoch, no partition moves, no error. A
// member that joins while the coordination moves gets its share.
func TestCase148And83_CoordinatorKilled(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "6", "-r", "3")
	first, second := c.joinGroup(t, "stable"), c.joinGroup(t, "stable")
	c.awaitShares("stable", 3, 3)
	c.MustWith(keyed(1, 1000), "produce", "numbers", "--key-delimiter", ":")
	c.awaitRead(1000, first, second)
	before, moves := c.epochOf("stable"), first.moved()+second.moved()
	victim := c.coordinator("stable")
	victim.Kill()
	c.MustWith(keyed(1001, 2000), "produce", "numbers", "--key-delimiter", ":")
	c.awaitRead(2000, first, second)
	c.awaitShares("stable", 3, 3)
	if after := c.epochOf("stable"); after != before {
		t.Errorf("group epoch %d became %d", before, after)
	}
	if now := first.moved() + second.moved(); now != moves {
		t.Errorf("%d partitions changes, %d before the coordinator was killed", now, moves)
	}
	for i, r := range []*reader{first, second} {
		r.mu.Lock()
		if len(r.errs) > 0 {
			t.Errorf("member %d was told: %v", i, r.errs[0])
		}
		r.mu.Unlock()
	}
	victim.Start()
	c.WaitHealthy()
	c.coordinator("stable").Kill() // and now a member joins before anybody has noticed
	third := c.joinGroup(t, "stable")
	c.awaitShares("stable", 2, 2, 2)
	c.MustWith(keyed(2001, 3000), "produce", "numbers", "--key-delimiter", ":")
	c.awaitRead(3000, first, second, third)
}

// keyed is seq with a key of its own before each number, which spreads them over the partitions.
func keyed(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "k%d:%d\n", i, i)
	}
	return b.String()
}

func (c *Cluster) awaitRead(n int, readers ...*reader) {
	c.t.Helper()
	Eventually(c.t, func() error {
		if got := seen(readers...); got < n {
			return fmt.Errorf("%d of %d records read", got, n)
		}
		return nil
	})
}

func (c *Cluster) epochOf(group string) int32 {
	c.t.Helper()
	var g groupDocument
	if err := c.decode(&g, "group", "describe", group, "-o", "json"); err != nil {
		c.t.Fatal(err)
	}
	return g.Epoch
}

// committedOffset is what a group has committed for partition 0 of topic numbers; -1: nothing.
func committedOffset(t testing.TB, cl *client.Client, group string) int64 {
	t.Helper()
	at, err := tryCommittedOffset(patient(t), cl, group)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// tryCommittedOffset is committedOffset for who asks again.
func tryCommittedOffset(ctx context.Context, cl *client.Client, group string) (int64, error) {
	res, err := cl.FetchOffsets(ctx, &moldauv1.FetchOffsetsRequest{Group: group})
	if err != nil {
		return 0, err
	}
	for _, o := range res.GetOffsets() {
		if o.GetTopic() == "numbers" && o.GetPartition() == 0 {
			return o.GetCommittedOffset(), nil
		}
	}
	return -1, nil
}

// TestGroupsThroughTheClient holds what needs no fault: case 79 (a commit of nobody), 87 (the reset policies), 90 (deletes) and 91 (two with
// one instance id).
func TestGroupsThroughTheClient(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	c.Must("topic", "create", "numbers", "-p", "1")
	c.MustWith(seq(1, 10), "produce", "numbers")
	cl := c.Client(t)
	t.Run("Case79_CommitOfAStranger", func(t *testing.T) {
		member := c.joinGroup(t, "fenced")
		c.awaitRead(10, member)
		member.close()
		before := committedOffset(t, cl, "fenced")
		_, err := cl.CommitOffsets(patient(t), &moldauv1.CommitOffsetsRequest{
			Group: "fenced", MemberId: "nobody", MemberEpoch: 7, Offsets: []*moldauv1.OffsetCommit{{Topic: "numbers", CommittedOffset: 3}},
		})
		if client.CodeOf(err) != moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_MEMBER && client.CodeOf(err) != moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_GROUP {
			t.Errorf("the commit of a stranger: %v", err)
		}
		if after := committedOffset(t, cl, "fenced"); after != before && after != -1 {
			t.Errorf("committed %d became %d", before, after)
		}
	})
	t.Run("Case87_ResetPolicies", func(t *testing.T) { c.resetPolicies(t) })
	t.Run("Case91_TwoWithOneInstanceID", func(t *testing.T) { c.oneInstanceID(t) })
	t.Run("Case90_DeleteWithMembers", func(t *testing.T) {
		member := c.joinGroup(t, "busy")
		c.awaitRead(10, member)
		if out := c.CLI("group", "delete", "busy"); out.Code == 0 {
			t.Error("a group with a member was deleted")
		}
		member.close()
		c.Must("group", "delete", "busy")
		if out := c.CLI("group", "describe", "busy"); out.Code != 3 {
			t.Errorf("describe of a deleted group: exit %d", out.Code)
		}
	})
}

func (c *Cluster) resetPolicies(t *testing.T) {
	earliest := c.joinGroup(t, "earliest", client.WithOffsetReset(client.ResetEarliest))
	c.awaitRead(10, earliest)
	latest := c.joinGroup(t, "latest", client.WithOffsetReset(client.ResetLatest))
	none := c.joinGroup(t, "none", client.WithOffsetReset(client.ResetNone))
	Eventually(t, func() error {
		none.mu.Lock()
		defer none.mu.Unlock()
		if len(none.errs) == 0 || !errors.Is(none.errs[0], client.ErrNoOffset) || len(none.read) > 0 {
			return fmt.Errorf("without a reset policy the member got %v and read %v", none.errs, none.read)
		}
		return nil
	})
	cl := c.Client(t)
	Eventually(t, func() error { // until its place is known, what is produced may be before it
		at, err := tryCommittedOffset(patient(t), cl, "latest")
		if err == nil && at != 10 {
			err = fmt.Errorf("the group that begins at the end has committed %d", at)
		}
		return err
	})
	c.MustWith("eleven\n", "produce", "numbers")
	c.awaitRead(1, latest)
	latest.mu.Lock()
	if latest.read["eleven"] != 1 || len(latest.read) != 1 {
		t.Errorf("from the end the member read %v", latest.read)
	}
	latest.mu.Unlock()
	for _, r := range []*reader{earliest, latest, none} {
		r.close()
	}
}

// oneInstanceID: the older of two members with one group.instance.id is told and reads no more; the newer has its partition.
func (c *Cluster) oneInstanceID(t *testing.T) {
	older := c.joinGroup(t, "static", client.WithInstanceID("only"))
	c.awaitRead(10, older)
	newer := c.joinGroup(t, "static", client.WithInstanceID("only"))
	Eventually(t, func() error {
		older.mu.Lock()
		defer older.mu.Unlock()
		if !slices.ContainsFunc(older.errs, func(err error) bool { return client.CodeOf(err) == moldauv1.ErrorCode_ERROR_CODE_FENCED_INSTANCE }) {
			return fmt.Errorf("the older member was told %v, want FENCED_INSTANCE", older.errs)
		}
		return nil
	})
	c.MustWith("for-the-newer\n", "produce", "numbers")
	Eventually(t, func() error {
		newer.mu.Lock()
		defer newer.mu.Unlock()
		if newer.read["for-the-newer"] == 0 {
			return fmt.Errorf("the newer member read %d records", len(newer.read))
		}
		return nil
	})
	older.mu.Lock()
	if older.read["for-the-newer"] > 0 {
		t.Error("the fenced member reads on")
	}
	older.mu.Unlock()
	older.close()
	newer.close()
}

// TestCase89_CommitsUnderKills: commits of one member while coordinators die. What a later fetch returns is never below the last commit that was answered.
func TestCase89_CommitsUnderKills(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "1", "-r", "3")
	member := c.joinGroup(t, "steady", client.WithAutoCommit(0))
	c.awaitShares("steady", 1)
	cl := c.Client(t)
	next := int64(0)
	for range 3 {
		victim := c.coordinator("steady")
		killed := false
		for answered := 0; answered < 50; {
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond) // short, so that answers are lost
			err := member.consumer.CommitOffsets(ctx, map[client.TopicPartition]int64{{Topic: "numbers"}: next + 1})
			cancel()
			next++
			if err == nil {
				answered++
				if at := committedOffset(t, cl, "steady"); at < next {
					t.Fatalf("committed %d was answered, and then %d is there", next, at)
				}
			}
			if !killed && answered > 10 {
				victim.Kill()
				killed = true
			}
		}
		victim.Start()
		c.WaitHealthy()
	}
}
