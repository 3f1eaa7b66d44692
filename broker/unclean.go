package broker

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/moldau-log/moldau/cluster"
)

// Whoever is elected uncleanly, the others cut their logs to its own. So the live replicas are asked what they have first: a replica that is first in the
// assignment may have an empty log, where its directory was lost, or none that works.

// replica names one copy of a partition.
type replica struct {
	partition cluster.TopicPartition
	broker    cluster.BrokerID
}

// eligible reports whether a broker may lead as far as its session goes.
func eligible(img *cluster.Image, id cluster.BrokerID) bool {
	br, ok := img.Broker(id)
	return ok && br.Eligible()
}

// copies asks every live replica of the partitions without a leader what it has, all brokers at once. Who does not answer in time is left out.
func (b *Broker) copies(ctx context.Context, img *cluster.Image, partitions []cluster.TopicPartition) map[replica]PartitionStatus {
	wanted := map[cluster.BrokerID][]cluster.TopicPartition{}
	for _, tp := range partitions {
		p, ok := img.Partition(tp)
		if !ok || p.Leader != cluster.NoBroker {
			continue
		}
		for _, id := range p.Replicas {
			if eligible(img, id) && len(wanted[id]) < maxForwardedPartitions {
				wanted[id] = append(wanted[id], tp)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	out := map[replica]PartitionStatus{}
	var mu sync.Mutex // guards out
	var wg sync.WaitGroup
	for id, list := range wanted {
		wg.Go(func() {
			statuses := b.statusesOf(ctx, id, list)
			mu.Lock()
			defer mu.Unlock()
			for i := range statuses {
				out[replica{list[i], id}] = statuses[i]
			}
		})
	}
	wg.Wait()
	return out
}

// statusesOf is what one broker says of its replicas; nil when it does not answer.
func (b *Broker) statusesOf(ctx context.Context, id cluster.BrokerID, list []cluster.TopicPartition) []PartitionStatus {
	if id == b.id {
		out := make([]PartitionStatus, len(list))
		for i, tp := range list {
			out[i] = b.localStatus(tp)
		}
		return out
	}
	var a statusAnswer
	if err := b.ask(ctx, id, forwardStatus, statusQuestion{Partitions: list}, &a); err != nil || len(a.Statuses) != len(list) {
		return nil
	}
	return a.Statuses
}

// fullest chooses among the live replicas: one that has not said that its log does not work; among these one that the metadata knows to be complete; then one
// that has answered, with the newest records, the longest log, the first place in the assignment. NoBroker when nobody is alive.
func fullest(img *cluster.Image, p *cluster.Partition, status func(cluster.BrokerID) (PartitionStatus, bool)) cluster.BrokerID {
	live := slices.DeleteFunc(slices.Clone(p.Replicas), func(id cluster.BrokerID) bool { return !eligible(img, id) })
	if len(live) == 0 {
		return cluster.NoBroker
	}
	return slices.MaxFunc(live, func(x, y cluster.BrokerID) int {
		sx, okx := status(x)
		sy, oky := status(y)
		return cmp.Or(
			first(!okx || works(sx), !oky || works(sy)),
			first(p.InISR(x) || p.InELR(x), p.InISR(y) || p.InELR(y)),
			first(okx, oky), cmp.Compare(sx.LastEpoch, sy.LastEpoch), cmp.Compare(sx.LogEnd, sy.LogEnd))
	})
}

// works reports whether a replica has a log that can be served. One that is not there yet has a log end below 0.
func works(s PartitionStatus) bool { return s.Offline == "" && s.LogEnd >= 0 }

// first compares so that what is true is larger.
func first(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}
