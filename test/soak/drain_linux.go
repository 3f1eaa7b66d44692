package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/test/soak/load"
)

// Bounds of the drain.
const (
	movePatience  = 60 * time.Second
	drainPatience = 5 * time.Minute // for one reading of everything
)

// drain reads every partition from its start to its end, as often as it has replicas: each leads once.
func (s *soak) drain() error {
	l := load.New(s.cluster.addresses(), s.seed, s.rec, s.topics)
	defer l.Stop()
	rounds := 0
	for round := 0; ; round++ {
		places, err := s.lead(round)
		if err != nil {
			return err
		}
		leaders := map[int32][]place{}
		for _, p := range places {
			if round < len(p.GetReplicas()) {
				leaders[p.GetLeader()] = append(leaders[p.GetLeader()], p)
			}
		}
		if len(leaders) == 0 {
			s.say("drained: %d times, each replica has led", rounds)
			return nil
		}
		rounds++
		if err := s.drainRound(l, round, leaders); err != nil {
			return err
		}
	}
}

// drainRound reads from all leaders at once, over one door or the other.
func (s *soak) drainRound(l *load.Load, round int, leaders map[int32][]place) error {
	ctx, cancel := context.WithTimeout(s.ctx, drainPatience)
	defer cancel()
	var mu sync.Mutex // guards first
	var first error
	var done sync.WaitGroup
	for leader, places := range leaders {
		done.Go(func() {
			err := s.drainFrom(ctx, l, round, leader, places)
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
			}
		})
	}
	done.Wait()
	return first
}

func (s *soak) drainFrom(ctx context.Context, l *load.Load, round int, leader int32, places []place) error {
	ends := map[client.TopicPartition]int64{}
	for _, p := range places {
		end, err := s.cluster.latest(ctx, p)
		if err != nil {
			return fmt.Errorf("soak: the end of %s-%d: %w", p.topic, p.GetPartition(), err)
		}
		ends[client.TopicPartition{Topic: p.topic, Partition: p.GetPartition()}] = end
	}
	read := l.DrainNative
	if round%2 == 1 {
		read = l.DrainKafka
	}
	return read(ctx, fmt.Sprintf("drain-%d-%d", round, leader), leader, ends)
}

// latest asks for the end of a partition, until its leader answers: metadata of a client may be old.
func (c *cluster) latest(ctx context.Context, p place) (int64, error) {
	deadline := time.Now().Add(movePatience)
	for {
		end, err := c.latestOnce(ctx, p)
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return end, err
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func (c *cluster) latestOnce(ctx context.Context, p place) (int64, error) {
	resp, err := c.admin.ListOffsets(ctx, &moldauv1.ListOffsetsRequest{Queries: []*moldauv1.OffsetQuery{
		{Topic: p.topic, Partition: p.GetPartition(), Spec: moldauv1.OffsetSpec_OFFSET_SPEC_LATEST}}})
	if err != nil {
		return 0, err
	}
	o := resp.GetOffsets()[0]
	return o.GetOffset(), client.FromWire(o.GetError())
}

// lead has the replicas of every partition lead in turn: in round n, the n-th that follows the present leader.
func (s *soak) lead(round int) ([]place, error) {
	places, err := s.cluster.places(s.ctx)
	if err != nil || round == 0 {
		return places, err
	}
	for _, p := range places {
		at := slices.Index(p.GetReplicas(), p.GetLeader())
		if at < 0 {
			return nil, fmt.Errorf("soak: %s-%d is led by %d, which holds no replica", p.topic, p.GetPartition(), p.GetLeader())
		}
		if err := s.cluster.reassignTo(s.ctx, p, rotated(p.GetReplicas(), at+1)); err != nil {
			return nil, fmt.Errorf("soak: move the leadership of %s-%d: %w", p.topic, p.GetPartition(), err)
		}
	}
	deadline := time.Now().Add(movePatience)
	for {
		if err := s.cluster.elect(s.ctx); err != nil {
			s.load.Counts.Note("elect", err)
		}
		places, err := s.cluster.places(s.ctx)
		if err == nil {
			err = led(places)
		}
		if err == nil || s.ctx.Err() != nil {
			return places, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("soak: leaderships have not moved within %v: %w", movePatience, err)
		}
		<-time.After(200 * time.Millisecond)
	}
}

// led says which partition is not led by its preferred leader.
func led(places []place) error {
	for _, p := range places {
		if p.GetLeader() != p.GetReplicas()[0] {
			return fmt.Errorf("%s-%d: leader %d, preferred %d, in sync %v", p.topic, p.GetPartition(), p.GetLeader(), p.GetReplicas()[0], p.GetIsr())
		}
	}
	return nil
}
