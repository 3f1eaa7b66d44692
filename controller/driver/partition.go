package driver

import (
	"maps"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
	"github.com/moldau-log/moldau/internal/planted"
)

// due lists the partitions to look at, in key order: all of them after a broker came or went, else those that changed or wait.
func (d *Driver) due() []cluster.TopicPartition {
	if !d.lookAtAll {
		return sortedPartitions(d.todo)
	}
	d.lookAtAll = false
	all := make([]cluster.TopicPartition, 0, d.img.PartitionCount())
	for tp := range d.img.AllPartitions() {
		all = append(all, tp)
	}
	return all
}

// watchPartitions proposes what partitions need, elections in batches.
func (d *Driver) watchPartitions(now time.Duration) {
	for _, tp := range sortedPartitions(d.retry) {
		if now >= d.retry[tp] {
			d.todo[tp] = true
			delete(d.retry, tp)
		}
	}
	for _, tp := range sortedPartitions(d.awaiting) {
		if now >= d.awaiting[tp] && d.free(tp) {
			d.todo[tp] = true
		}
	}
	var changes []cluster.PartitionChange
	for _, tp := range d.due() {
		if d.busy[tp] {
			d.todo[tp] = true // until its proposal is done
			continue
		}
		if _, waits := d.retry[tp]; waits {
			continue
		}
		delete(d.todo, tp)
		if at, ok := d.excluded[tp]; ok && now >= at {
			delete(d.excluded, tp)
		}
		p, ok := d.img.Partition(tp)
		if !ok || p.Leader != cluster.NoBroker {
			delete(d.awaiting, tp)
		}
		if !ok {
			continue
		}
		if c, needed := d.election(now, tp, p); needed {
			if d.tooSoon(now, &c, p) {
				d.todo[tp] = true
				continue
			}
			changes = append(changes, c)
		} else if d.finishable(tp, p) {
			d.propose(cluster.FinishReassign{Partition: tp, PartitionEpoch: p.PartitionEpoch}, &outstanding{partitions: []cluster.TopicPartition{tp}})
		}
	}
	d.elect(changes)
}

// tooSoon reports whether a change does nothing but take failed replicas out of a partition from which they were taken a moment ago: a leader that has not
// noticed the failure proposes them back in as fast as it can, and each round would be two entries of the metadata log.
func (d *Driver) tooSoon(now time.Duration, c *cluster.PartitionChange, p *cluster.Partition) bool {
	if c.Leader != p.Leader {
		return false
	}
	if _, ok := d.excluded[c.Partition]; ok {
		return true
	}
	d.excluded[c.Partition] = now + d.cfg.RetryDelay
	return false
}

// elect proposes elections, Batch partitions in each command.
func (d *Driver) elect(changes []cluster.PartitionChange) {
	for batch := range slices.Chunk(changes, d.cfg.Batch) {
		about := &outstanding{}
		for _, c := range batch {
			about.partitions = append(about.partitions, c.Partition)
		}
		d.propose(cluster.ElectLeaders{Changes: batch}, about)
	}
}

// election decides whether a partition needs another leader, or must lose replicas whose log failed.
func (d *Driver) election(now time.Duration, tp cluster.TopicPartition, p *cluster.Partition) (cluster.PartitionChange, bool) {
	c := cluster.PartitionChange{Partition: tp, PartitionEpoch: p.PartitionEpoch, Leader: p.Leader}
	for _, b := range p.ISR {
		if d.failed(tp, b) {
			c.Offline = append(c.Offline, b)
		}
	}
	for _, b := range p.ELR {
		if d.failed(tp, b) {
			c.Offline = append(c.Offline, b)
		}
	}
	if !d.mustMove(tp, p) {
		// A failed replica that is the only complete one stays on record: the command would change nothing.
		return c, len(c.Offline) > 0 && len(c.Offline) < len(p.ISR)+len(p.ELR)
	}
	choice := placement.Elect(p, d.candidate(tp, p))
	if choice.Kind == placement.KindNone && p.Leader == cluster.NoBroker {
		choice = d.electLate(now, tp, p)
	}
	c.Leader = choice.Leader
	switch {
	case choice.Kind != placement.KindNone:
		return c, true
	case d.failed(tp, p.Leader):
		return c, true // nobody can take over, but who leads cannot serve
	}
	return c, false
}

// free reports whether nothing is proposed about a partition, and nothing that was is to be repeated later.
func (d *Driver) free(tp cluster.TopicPartition) bool {
	_, waits := d.retry[tp]
	return !d.busy[tp] && !waits
}

// electLate chooses the leader of a partition that has waited long enough for complete replicas to return. The wait begins when there is somebody to choose.
func (d *Driver) electLate(now time.Duration, tp cluster.TopicPartition, p *cluster.Partition) placement.Election {
	choice := placement.ElectLate(p, d.candidate(tp, p))
	until, waits := d.awaiting[tp]
	switch {
	case choice.Kind == placement.KindNone:
		delete(d.awaiting, tp)
		return choice
	case waits && now >= until, d.allWork(tp, p):
		d.awaiting[tp] = now + d.cfg.RetryDelay // when the proposal comes to nothing
		return choice
	case !waits:
		until = now + d.cfg.AwaitReturn
	}
	d.awaiting[tp] = until
	return placement.Election{Leader: cluster.NoBroker, Kind: placement.KindNone}
}

// allWork reports whether nobody is to be waited for: every complete replica is here, and has told how far its log goes, or that it works, which it did not when its broker
// registered. That none of the latter is reported as failed says nothing: a controller that has just begun has heard of none.
func (d *Driver) allWork(tp cluster.TopicPartition, p *cluster.Partition) bool {
	works := d.candidate(tp, p)
	return !slices.ContainsFunc(slices.Concat(p.ISR, p.ELR), func(b cluster.BrokerID) bool {
		return !works(b) || p.Unopened(b) && !d.opened[replica{tp, b}]
	})
}

// mustMove reports whether the partition has no leader that can go on.
func (d *Driver) mustMove(tp cluster.TopicPartition, p *cluster.Partition) bool {
	if p.Leader == cluster.NoBroker || d.failed(tp, p.Leader) {
		return true
	}
	b, ok := d.img.Broker(p.Leader)
	return ok && b.Draining
}

// candidate says who may lead a partition: alive, with the copy that the metadata speaks of, and with a log that works.
func (d *Driver) candidate(tp cluster.TopicPartition, p *cluster.Partition) func(cluster.BrokerID) bool {
	return func(b cluster.BrokerID) bool {
		return d.img.Eligible(b) && d.img.Holds(p, b) && !d.failed(tp, b)
	}
}

// failed reports whether b's log of the partition failed in b's present life.
func (d *Driver) failed(tp cluster.TopicPartition, b cluster.BrokerID) bool {
	if len(d.offline) == 0 {
		return false
	}
	epoch, ok := d.offline[replica{tp, b}]
	s, known := d.brokers[b]
	return ok && known && s.epoch == epoch
}

// forgetOffline forgets what the logs of a broker's former life were.
func (d *Driver) forgetOffline(b cluster.BrokerID) {
	maps.DeleteFunc(d.offline, func(r replica, _ cluster.BrokerEpoch) bool { return r.broker == b })
	maps.DeleteFunc(d.opened, func(r replica, _ bool) bool { return r.broker == b })
}

// finishable reports whether a reassignment in progress can end: everything that it brings is in sync, and without what it takes away the partition
// has a leader and is not below its min ISR. It foresees what controller/state would refuse, so that a waiting reassignment writes no entries.
func (d *Driver) finishable(tp cluster.TopicPartition, p *cluster.Partition) bool {
	t, ok := d.img.Topic(tp.Topic)
	if !ok || len(p.Adding)+len(p.Removing) == 0 || slices.ContainsFunc(p.Adding, func(b cluster.BrokerID) bool { return !p.InISR(b) && !planted.On(planted.ReassignEndsEarly) }) {
		return false
	}
	goes := func(b cluster.BrokerID) bool { return slices.Contains(p.Removing, b) }
	then := p.Clone()
	then.Replicas = slices.DeleteFunc(then.Replicas, goes)
	then.ISR, then.ELR = slices.DeleteFunc(then.ISR, goes), slices.DeleteFunc(then.ELR, goes)
	then.Adding, then.Removing = nil, nil
	minISR := d.img.MinISR(t, then)
	if len(then.ISR) < len(p.ISR) && len(then.ISR) < minISR || len(then.ELR) < len(p.ELR) && len(then.ISR)+len(then.ELR) < minISR {
		return false
	}
	return !goes(p.Leader) || slices.ContainsFunc(then.ISR, d.candidate(tp, p))
}
