package kit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// collected is what members of a group have got.
type collected struct {
	mu   sync.Mutex // guards seen and by
	seen map[string]int
	by   map[int]int // member: how many records
}

func (c *collected) deliver(member int) func(Record) {
	return func(r Record) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen[string(r.Value)]++
		c.by[member]++
	}
}

// distinct is how many different records came.
func (c *collected) distinct() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

func (c *collected) of(member int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[member]
}

// missing checks that each of the n records from the given number came.
func (c *collected) missing(from, n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range numbered(from, n) {
		if c.seen[string(r.Value)] == 0 {
			return fmt.Errorf("%.14q was acknowledged and never consumed", r.Value)
		}
	}
	return nil
}

func newCollected() *collected { return &collected{seen: map[string]int{}, by: map[int]int{}} }

// load is a producer and a group at work on the scenario's topic.
type load struct {
	s      *scenario
	ctx    context.Context
	cancel context.CancelCauseFunc
	got    *collected
	group  string

	mu    sync.Mutex // guards acked
	acked int        // records 0 to acked-1 are acknowledged
}

func (s *scenario) startLoad(ctx context.Context) (*load, error) {
	if err := s.client.CreateTopic(ctx, s.topic, 6); err != nil {
		return nil, fmt.Errorf("create topic: %w", err)
	}
	l := &load{s: s, got: newCollected(), group: s.topic + "-group"}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	return l, nil
}

// produce sends numbered records in small batches until it is stopped; a failed send fails the scenario. Stopping it waits for what is under way.
func (l *load) produce() (stop func()) {
	ctx, cancel := context.WithCancel(l.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p, err := l.s.client.Producer(l.ctx, l.s.topic, Producing{Codec: "none"})
		if err != nil {
			l.cancel(fmt.Errorf("producer: %w", err))
			return
		}
		defer p.Close()
		for next := 0; ctx.Err() == nil; next += 20 {
			if err := p.Send(l.ctx, numbered(next, 20)); err != nil {
				l.cancel(fmt.Errorf("send after %d records: %w", next, err))
				return
			}
			l.mu.Lock()
			l.acked = next + 20
			l.mu.Unlock()
			_ = pause(ctx, 40*time.Millisecond) // the loop looks at ctx
		}
	}()
	return func() { cancel(); <-done }
}

func (l *load) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked
}

// join starts a member. The function that it returns stops it and waits until it has left.
func (l *load) join(member int) (leave func()) {
	ctx, stop := context.WithCancel(l.ctx)
	done := make(chan struct{})
	deliver := l.got.deliver(member)
	go func() {
		defer close(done)
		if err := l.s.client.Member(ctx, l.group, l.s.topic, deliver); err != nil && l.ctx.Err() == nil {
			l.cancel(fmt.Errorf("member %d: %w", member, err))
		}
	}()
	return func() { stop(); <-done }
}

// wait polls until ok, and says what was waited for when the scenario ends before.
func (l *load) wait(what string, ok func() bool) error {
	for !ok() {
		if pause(l.ctx, 20*time.Millisecond) == nil {
			continue
		}
		err := context.Cause(l.ctx)
		if errors.Is(err, context.DeadlineExceeded) && l.ctx.Err() == context.DeadlineExceeded {
			return fmt.Errorf("%s: not in time; %d records acknowledged, %d consumed", what, l.acknowledged(), l.got.distinct())
		}
		return err
	}
	return nil
}

// group: one member, a second that takes part of the work and leaves again, everything is consumed; a later member begins where the commits ended.
func (s *scenario) group(ctx context.Context) error {
	l, err := s.startLoad(ctx)
	if err != nil {
		return err
	}
	defer l.cancel(nil)
	stopProducing := l.produce()
	leave1 := l.join(1)
	if err := l.wait("the first member consumes", func() bool { return l.got.of(1) >= 100 }); err != nil {
		return err
	}
	leave2 := l.join(2)
	first := 0
	if err := l.wait("both members consume", func() bool {
		if l.got.of(2) < 100 {
			first = l.got.of(1)
			return false
		}
		return l.got.of(1) > first+20
	}); err != nil {
		return err
	}
	_, idle := s.client.(IdleLeaver)
	if !idle {
		leave2()
	}
	stopProducing()
	total := l.acknowledged()
	if err := l.wait("everything is consumed", func() bool { return l.got.distinct() >= total }); err != nil {
		return err
	}
	if idle {
		leave2()
	}
	leave1()
	if err := l.got.missing(0, total); err != nil {
		return err
	}
	return s.resume(l, total)
}

// resume checks that a new member gets what came after the commits, and nothing else.
func (s *scenario) resume(l *load, total int) error {
	l.got = newCollected()
	if err := s.send(l.ctx, Producing{Codec: "none"}, numbered(total, 100)); err != nil {
		return err
	}
	leave := l.join(3)
	if err := l.wait("the group resumes", func() bool { return l.got.distinct() >= 100 }); err != nil {
		return err
	}
	leave()
	if n := l.got.distinct(); n != 100 {
		return fmt.Errorf("after the commit %d records came, want the 100 new ones", n)
	}
	return l.got.missing(total, 100)
}

// kills is how often a broker dies in the scenario.
const kills = 2

// brokerKill: a producer and a group of two at work while brokers die and come back.
func (s *scenario) brokerKill(ctx context.Context) error {
	l, err := s.startLoad(ctx)
	if err != nil {
		return err
	}
	defer l.cancel(nil)
	stopProducing := l.produce()
	leave1, leave2 := l.join(1), l.join(2)
	driver := bufio.NewReader(os.Stdin)
	for range kills {
		if err := l.progress(); err != nil {
			return err
		}
		fmt.Println("KILL")
		if answer, err := driver.ReadString('\n'); err != nil || strings.TrimSpace(answer) != "KILLED" {
			return fmt.Errorf("the driver answered %q, %v", answer, err)
		}
	}
	if err := l.progress(); err != nil {
		return err
	}
	stopProducing()
	total := l.acknowledged()
	if err := l.wait("every acknowledged record is consumed", func() bool { return l.got.distinct() >= total }); err != nil {
		return err
	}
	leave1()
	leave2()
	return l.got.missing(0, total)
}

// progress waits until 200 more records have been acknowledged and consumed.
func (l *load) progress() error {
	acked, got := l.acknowledged(), l.got.distinct()
	return l.wait("200 more records", func() bool { return l.acknowledged() >= acked+200 && l.got.distinct() >= got+200 })
}
