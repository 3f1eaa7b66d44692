package broker

import (
	"context"
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
)

// Health sums up the cluster as this broker's metadata has it, and the logs of all brokers that answer at once.
func (b *Broker) Health(ctx context.Context) Health {
	img := b.Image()
	h := Health{Cluster: img.ClusterID(), Controller: cluster.NoBroker, Topics: img.TopicCount()}
	if id, ok := b.Controller(); ok {
		h.Controller = id
	} else {
		h.Reasons = append(h.Reasons, "no controller is known: fewer than a majority of the voters reach each other")
	}
	for br := range img.Brokers() {
		h.Brokers++
		if br.Fenced {
			h.Fenced = append(h.Fenced, br.ID)
			h.Reasons = append(h.Reasons, fmt.Sprintf("broker %d is down (fenced)", br.ID))
		}
	}
	stats := b.controller.Stats()
	for _, id := range absent(img, append(stats.Voters, stats.NonVoters...)) {
		h.Reasons = append(h.Reasons, fmt.Sprintf("broker %d is a member of the cluster and has not registered yet", id))
	}
	if reason := fewVoters(stats); reason != "" {
		h.Reasons = append(h.Reasons, reason)
	}
	b.countPartitions(img, &h)
	for _, bad := range []struct {
		n    int
		what string
	}{
		{h.Leaderless, "have no leader"}, {h.UnderMinISR, "are under min.insync.replicas: acks=isr is refused"},
		{h.UnderReplicated, "are under-replicated"},
	} {
		if bad.n > 0 {
			h.Reasons = append(h.Reasons, fmt.Sprintf("%d partitions %s", bad.n, bad.what))
		}
	}
	answers, unreached := b.logsOfAll(ctx, img, b.logsHere())
	countLogs(&h, answers, unreached)
	h.Healthy = len(h.Reasons) == 0
	return h
}

// absent returns, in order, those servers of the metadata quorum that no broker has registered for. While a cluster forms it is the only sign that brokers
// are still to come.
func absent(img *cluster.Image, servers []cluster.BrokerID) []cluster.BrokerID {
	var out []cluster.BrokerID
	for _, id := range servers {
		if _, registered := img.Broker(id); !registered {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fewVoters says that the metadata quorum has not as many voters as it shall have: after a disk was replaced, another one must not be before the new server
// votes, or a majority of the voters is gone for good.
func fewVoters(s controller.Stats) string {
	if len(s.Voters) == 0 || len(s.Voters) >= s.VotersWanted {
		return ""
	}
	return fmt.Sprintf("the metadata quorum has %d of %d voters: a broker that has joined gets its vote after some seconds", len(s.Voters), s.VotersWanted)
}

func (b *Broker) countPartitions(img *cluster.Image, h *Health) {
	for t := range img.Topics() {
		for _, p := range img.PartitionsOf(t.ID) {
			h.Partitions++
			if p.Leader == cluster.NoBroker {
				h.Leaderless++
			}
			if len(p.ISR) < len(p.Replicas)-len(p.Adding) {
				h.UnderReplicated++
			}
			if len(p.ISR) < img.MinISR(t, p) {
				h.UnderMinISR++
			}
			if len(p.Adding)+len(p.Removing) > 0 {
				h.Reassigning++
			}
		}
	}
}

// Ready reports whether the broker serves: it is registered, caught up, unfenced, a controller is known and it does not stop. The reason is for people.
func (b *Broker) Ready() (bool, string) {
	if b.stopping.Load() {
		return false, "the broker is stopping"
	}
	epoch := b.Epoch()
	if epoch == cluster.NoBrokerEpoch {
		return false, "the broker is not registered with a controller yet"
	}
	me, ok := b.Image().Broker(b.id)
	switch {
	case !ok || me.Epoch != epoch:
		return false, "the broker has not applied its own registration yet"
	case me.Fenced:
		return false, "the controller has fenced the broker: it is starting, or its heartbeats do not arrive"
	case me.Draining:
		return false, "the broker is draining"
	}
	if _, known := b.Controller(); !known {
		return false, "no controller is known"
	}
	return true, ""
}
