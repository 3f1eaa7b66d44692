package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// place is one partition as the metadata has it.
type place struct {
	topic string
	*moldauv1.PartitionDescription
}

// places describes every partition of the run.
func (c *cluster) places(ctx context.Context) ([]place, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req := new(moldauv1.DescribeTopicsRequest)
	for _, name := range c.s.topics.Names() {
		req.Topics = append(req.Topics, &moldauv1.TopicRef{Topic: name})
	}
	resp, err := c.admin.DescribeTopics(ctx, req)
	if err != nil {
		return nil, err
	}
	var out []place
	for _, t := range resp.GetTopics() {
		if err := client.FromWire(t.GetError()); err != nil {
			return nil, fmt.Errorf("soak: topic %s: %w", t.GetTopic(), err)
		}
		for _, p := range t.GetPartitions() {
			out = append(out, place{t.GetTopic(), p})
		}
	}
	return out, nil
}

// reassignTo asks for other replicas, or for another order of them.
func (c *cluster) reassignTo(ctx context.Context, p place, replicas []int32) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := c.admin.Reassign(ctx, &moldauv1.ReassignRequest{Topic: p.topic, Partition: p.GetPartition(), Replicas: replicas})
	return err
}

// elect gives every partition to its preferred leader, where that is in sync.
func (c *cluster) elect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := c.admin.ElectLeaders(ctx, new(moldauv1.ElectLeadersRequest))
	return err
}

func rotated(replicas []int32, by int) []int32 {
	by %= len(replicas)
	return append(slices.Clone(replicas[by:]), replicas[:by]...)
}

// transfer moves leaderships: the order of the replicas of some partitions is changed, and the preferred leaders are elected. The cluster may refuse: it may be without a controller.
func transfer(ctx context.Context, n *nemesis, f *fault) error {
	random := rand.New(rand.NewPCG(f.Draw, 0))
	return n.move(ctx, f, func(p place) []int32 {
		if random.IntN(2) == 0 {
			return nil
		}
		return rotated(p.GetReplicas(), 1+random.IntN(max(len(p.GetReplicas())-1, 1)))
	}, true)
}

// reassign moves replicas of some partitions to other brokers.
func reassign(ctx context.Context, n *nemesis, f *fault) error {
	random := rand.New(rand.NewPCG(f.Draw, 0))
	return n.move(ctx, f, func(p place) []int32 {
		replicas := len(p.GetReplicas())
		if p.topic == "pair" { // grows and shrinks; never to one, which protects nothing
			replicas = 2 + random.IntN(2)
		}
		want := int32s(random.Perm(n.brokers))[:replicas]
		if random.IntN(2) == 0 || slices.Equal(want, p.GetReplicas()) {
			return nil
		}
		return want
	}, random.IntN(2) == 0)
}

func int32s(in []int) []int32 {
	out := make([]int32, len(in))
	for i, n := range in {
		out[i] = int32(n)
	}
	return out
}

// move gives partitions the replicas that choose wants; nil leaves one as it is. Partitions on the move are left alone.
func (n *nemesis) move(ctx context.Context, f *fault, choose func(place) []int32, elect bool) error {
	places, err := n.cluster.places(ctx)
	if err != nil {
		f.detail = "no metadata: " + err.Error()
		return nil
	}
	moved, refused := 0, 0
	for _, p := range places {
		want := choose(p)
		if want == nil || len(p.GetAdding())+len(p.GetRemoving()) > 0 {
			continue
		}
		if err := n.cluster.reassignTo(ctx, p, want); err != nil {
			refused++
			n.load.Counts.Note("reassign", err)
			continue
		}
		moved++
	}
	f.detail = fmt.Sprintf("%d partitions, %d refused", moved, refused)
	if elect {
		if err := n.cluster.elect(ctx); err != nil && !errors.Is(err, context.Canceled) {
			n.load.Counts.Note("elect", err)
		}
	}
	return nil
}
