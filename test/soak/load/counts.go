package load

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moldau-log/moldau/internal/history"
)

// Counts are the figures of a run.
type Counts struct {
	mu      sync.Mutex // guards what follows
	ops     map[string]int64
	errors  map[string]int64
	records map[string]int64
	acked   map[string]time.Duration // by partition: when the last send with acks=isr was acknowledged
	gaps    map[string]time.Duration // by partition: the longest time between two of them
}

func newCounts() *Counts {
	return &Counts{ops: map[string]int64{}, errors: map[string]int64{}, records: map[string]int64{}, acked: map[string]time.Duration{}, gaps: map[string]time.Duration{}}
}

// errorKinds bounds how many kinds of errors are told apart.
const errorKinds = 200

func (c *Counts) add(e history.Event, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what := string(e.Kind)
	if e.Kind == history.Admin {
		what = e.Action
	}
	if err != nil {
		c.count(c.errors, fmt.Sprintf("%s: %s", what, short(err)))
		return
	}
	c.ops[what]++
	c.records[what] += int64(len(e.Records))
	if e.Kind != history.Send || e.Acks == history.AcksLeader {
		return
	}
	now := time.Duration(e.Time)
	for _, r := range e.Records {
		p := partitionName(r.Topic, r.Partition)
		if last, ok := c.acked[p]; ok {
			c.gaps[p] = max(c.gaps[p], now-last)
		}
		c.acked[p] = now
	}
}

func (c *Counts) count(m map[string]int64, key string) {
	if _, ok := m[key]; !ok && len(m) >= errorKinds {
		key = "other"
	}
	m[key]++
}

// Note counts something that is an error for people alone.
func (c *Counts) Note(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(c.errors, fmt.Sprintf("%s: %s", what, short(err)))
}

// Losses is how often a client was told that what it had read is gone.
func (c *Counts) Losses() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var n int64
	for what, times := range c.errors {
		if strings.HasPrefix(what, dataLoss) {
			n += times
		}
	}
	return n
}

// short is the constant part of an error's text, as far as it can be told, in one line.
func short(err error) string {
	text := strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9':
			return -1
		case r < ' ':
			return ' '
		}
		return r
	}, err.Error())
	return text[:min(len(text), 90)]
}

// Acknowledged is the number of records acknowledged so far.
func (c *Counts) Acknowledged() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records[string(history.Send)]
}

// LongestGap is the longest time in which no send with acks=isr to a partition was acknowledged, and which partition that was.
func (c *Counts) LongestGap() (string, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var name string
	for p, gap := range c.gaps {
		if gap > c.gaps[name] {
			name = p
		}
	}
	return name, c.gaps[name]
}

// Lines are the figures for people: operations with their records, then errors with their numbers, most frequent first.
func (c *Counts) Lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, what := range slices.Sorted(maps.Keys(c.ops)) {
		out = append(out, fmt.Sprintf("%-14s %8d ok, %9d records", what, c.ops[what], c.records[what]))
	}
	keys := slices.SortedFunc(maps.Keys(c.errors), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.errors[b], c.errors[a]), strings.Compare(a, b))
	})
	for _, k := range keys {
		out = append(out, fmt.Sprintf("%8d x %s", c.errors[k], k))
	}
	return out
}
