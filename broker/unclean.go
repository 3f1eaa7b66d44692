package broker

import (
	"context"
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

// works reports whether a replica has a log that can be served. One that is not there yet has a log end below 0.
func works(s PartitionStatus) bool { return s.Offline == "" && s.LogEnd >= 0 }
