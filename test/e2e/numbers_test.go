package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// seq is what seq(1) prints.
func seq(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		b.WriteString(strconv.Itoa(i))
		b.WriteByte('\n')
	}
	return b.String()
}

// count tells how many of the numbers 1..n the lines hold, and how many lines are repeats.
func count(t testing.TB, lines string, n int) (distinct, repeats int) {
	t.Helper()
	seen := make([]bool, n+1)
	for line := range strings.Lines(lines) {
		v, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || v < 1 || v > n {
			t.Fatalf("a line that was never produced: %q", line)
		}
		if seen[v] {
			repeats++
			continue
		}
		seen[v] = true
		distinct++
	}
	return distinct, repeats
}

type topicDescription struct {
	Topic      string `json:"topic"`
	TopicID    string `json:"topic_id"`
	Partitions []struct {
		Partition     int   `json:"partition"`
		Leader        int   `json:"leader"`
		LeaderEpoch   int   `json:"leader_epoch"`
		Replicas      []int `json:"replicas"`
		ISR           []int `json:"isr"`
		LogStart      int64 `json:"log_start_offset"`
		HighWatermark int64 `json:"high_watermark"`
	} `json:"partitions"`
}

func (c *Cluster) describe(topic string) topicDescription {
	c.t.Helper()
	d, err := c.tryDescribe(topic)
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

// tryDescribe is describe for who asks again: for a moment no broker may answer.
func (c *Cluster) tryDescribe(topic string) (topicDescription, error) {
	c.t.Helper()
	var d topicDescription
	out := c.CLI("topic", "describe", topic, "-o", "json")
	if out.Code != 0 {
		return d, fmt.Errorf("topic describe: exit %d: %s", out.Code, out.Stderr)
	}
	return d, json.Unmarshal([]byte(out.Stdout), &d)
}

// awaitTopic describes a topic until ok says nil about the answer.
func (c *Cluster) awaitTopic(topic string, ok func(topicDescription) error) {
	c.t.Helper()
	Eventually(c.t, func() error {
		d, err := c.tryDescribe(topic)
		if err != nil {
			return err
		}
		return ok(d)
	})
}

type groupDescription struct {
	Group   string `json:"group"`
	State   string `json:"state"`
	Members []struct {
		MemberID string `json:"member_id"`
		Assigned []struct {
			Topic     string `json:"topic"`
			Partition int    `json:"partition"`
		} `json:"assigned"`
	} `json:"members"`
	Offsets []struct {
		Topic           string `json:"topic"`
		Partition       int    `json:"partition"`
		CommittedOffset int64  `json:"committed_offset"`
		Lag             *int64 `json:"lag"`
	} `json:"offsets"`
}

func (c *Cluster) describeGroup(group string) (groupDescription, error) {
	var d groupDescription
	out := c.CLI("group", "describe", group, "-o", "json")
	if out.Code != 0 {
		return d, fmt.Errorf("group describe: exit %d: %s", out.Code, out.Stderr)
	}
	return d, json.Unmarshal([]byte(out.Stdout), &d)
}

// TestNumbers produces and consumes without a fault: everything is there once, and a group goes on where it committed.
func TestNumbers(t *testing.T) {
	const n = 200_000
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "6", "-r", "3")
	c.MustWith(seq(1, n), "produce", "numbers", "--acks", "isr")
	out := c.Must("consume", "numbers", "-g", "g1", "--from", "start", "--exit-at-end")
	if distinct, repeats := count(t, out, n); distinct != n || repeats != 0 {
		t.Fatalf("%d of %d numbers, %d repeats", distinct, n, repeats)
	}
	var total int64
	for _, p := range c.describe("numbers").Partitions {
		total += p.HighWatermark
		if len(p.ISR) != 3 {
			t.Errorf("partition %d: isr %v", p.Partition, p.ISR)
		}
	}
	if total != n {
		t.Errorf("high watermarks add up to %d, want %d", total, n)
	}
	// After a restart of everything the group goes on where it committed (case 84 for all nodes).
	for _, b := range c.Brokers {
		b.Kill()
	}
	for _, b := range c.Brokers {
		b.Start()
	}
	c.WaitHealthy()
	c.MustWith(seq(1, 1000), "produce", "numbers")
	out = c.Must("consume", "numbers", "-g", "g1", "--from", "start", "--exit-at-end")
	if distinct, repeats := count(t, out, n); distinct != 1000 || repeats != 0 {
		t.Errorf("after the restart the group read %d numbers and %d repeats, want the 1000 new ones", distinct, repeats)
	}
	d, err := c.describeGroup("g1")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range d.Offsets {
		if o.Lag == nil || *o.Lag != 0 {
			t.Errorf("partition %d: lag %v, want 0", o.Partition, o.Lag)
		}
	}
}

// TestNumbersWithAKill kills a broker half-way through producing and half-way through consuming: everything is there.
func TestNumbersWithAKill(t *testing.T) {
	const n = 300_000
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "6", "-r", "3")
	victim := c.Brokers[c.describe("numbers").Partitions[0].Leader]

	produce := c.Command(context.Background(), "produce", "numbers", "--acks", "isr")
	in, err := produce.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var talk strings.Builder
	produce.Stderr = &talk
	if err := produce.Start(); err != nil {
		t.Fatal(err)
	}
	write(t, in, seq(1, n/2))
	victim.Kill()
	write(t, in, seq(n/2+1, n))
	in.Close()
	if err := produce.Wait(); err != nil {
		t.Fatalf("produce: %v\n%s", err, talk.String())
	}
	victim.Start()
	c.WaitHealthy()

	victim = c.Brokers[c.describe("numbers").Partitions[1].Leader]
	lines := c.consumeWithKill(n, victim)
	distinct, repeats := count(t, lines, n)
	t.Logf("%d distinct, %d read twice", distinct, repeats)
	if distinct != n {
		t.Fatalf("%d of %d numbers", distinct, n)
	}
	c.awaitTopic("numbers", func(d topicDescription) error { // a leader that was elected just now does not know its watermark at once
		var total int64
		for _, p := range d.Partitions {
			total += p.HighWatermark
		}
		if total > n {
			t.Fatalf("the log holds %d records, want %d: the idempotent producer must not repeat itself", total, n)
		}
		if total < n {
			return fmt.Errorf("the log holds %d records, want %d", total, n)
		}
		return nil
	})
}

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

// consumeWithKill consumes n records to the end and kills a broker in the middle.
func (c *Cluster) consumeWithKill(n int, victim *Broker) string {
	c.t.Helper()
	consume := c.Command(context.Background(), "consume", "numbers", "-g", "killed", "--from", "start", "--exit-at-end")
	out, err := consume.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	var talk strings.Builder
	consume.Stderr = &talk
	if err := consume.Start(); err != nil {
		c.t.Fatal(err)
	}
	var lines strings.Builder
	scanner := bufio.NewScanner(out)
	for i := 0; scanner.Scan(); i++ {
		lines.WriteString(scanner.Text() + "\n")
		if i == n/3 {
			victim.Kill()
		}
	}
	if err := consume.Wait(); err != nil {
		c.t.Fatalf("consume: %v\n%s", err, talk.String())
	}
	return lines.String()
}

// TestTwoMembersShareAGroup: a second member takes half of the partitions; when it is killed, the first gets them back.
func TestTwoMembersShareAGroup(t *testing.T) {
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "6", "-r", "3")
	first := c.member("shared")
	defer first.stop()
	c.awaitShares("shared", 6)
	second := c.member("shared")
	c.awaitShares("shared", 3, 3)
	c.MustWith(seq(1, 10_000), "produce", "numbers", "--key-delimiter", "5") // a key for nearly every line, so that all partitions get some
	Eventually(t, func() error {
		if got := first.lines() + second.lines(); got != 10_000 {
			return fmt.Errorf("%d records read by both members, want 10000", got)
		}
		if first.lines() == 0 || second.lines() == 0 {
			return fmt.Errorf("one member reads everything")
		}
		return nil
	})
	second.stop()
	c.awaitShares("shared", 6)
}

type member struct {
	cmd *exec.Cmd
	mu  sync.Mutex // guards n
	n   int
	end chan struct{}
}

func (c *Cluster) member(group string) *member {
	c.t.Helper()
	m := &member{cmd: c.Command(context.Background(), "consume", "numbers", "-g", group, "--from", "start"), end: make(chan struct{})}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		defer close(m.end)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			m.mu.Lock()
			m.n++
			m.mu.Unlock()
		}
		_ = m.cmd.Wait() // it ends by a signal
	}()
	return m
}

func (m *member) lines() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n
}

// stop interrupts the member: it leaves the group.
func (m *member) stop() {
	_ = m.cmd.Process.Signal(interrupt)
	select {
	case <-m.end:
	case <-time.After(Patience):
		_ = m.cmd.Process.Kill()
		<-m.end
	}
}

// awaitShares waits until the members own that many partitions each, in any order.
func (c *Cluster) awaitShares(group string, want ...int) {
	c.t.Helper()
	Eventually(c.t, func() error {
		d, err := c.describeGroup(group)
		if err != nil {
			return err
		}
		var got []int
		for _, m := range d.Members {
			got = append(got, len(m.Assigned))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("members own %v partitions, want %v", got, want)
		}
		return nil
	})
}
