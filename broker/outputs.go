package broker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
)

// Bounds of what partitions ask of the controller at once.
const (
	alterBatch   = 2000            // ISR changes in one command
	alterTimeout = 3 * time.Second // for one command; then every change in it counts as undecided
	confirmRetry = time.Second     // before a confirmation of removals that failed is tried again
)

// outputs is what partitions ask of the rest of the broker. Its methods only note the wish; two goroutines act on them, so that no Runner waits.
type outputs struct {
	b       *Broker
	propose func(context.Context, cluster.Command) (cluster.Result, error)
	image   func() *cluster.Image
	wake    chan struct{} // capacity 1

	mu      sync.Mutex                                   // guards what follows
	alters  map[cluster.TopicPartition]cluster.ISRChange // at most one per partition: a Replica has one proposal in flight
	removed map[cluster.Tombstone]struct{}
}

func newOutputs(b *Broker) *outputs {
	return &outputs{
		b: b, propose: b.propose, image: b.Image, wake: make(chan struct{}, 1), alters: map[cluster.TopicPartition]cluster.ISRChange{},
		removed: map[cluster.Tombstone]struct{}{},
	}
}

var _ partition.Outputs = (*outputs)(nil)

// Subscribe implements partition.Outputs.
func (o *outputs) Subscribe(tp cluster.TopicPartition, leader cluster.BrokerID, epoch record.LeaderEpoch) {
	o.b.fetcher.Follow(tp, leader, epoch)
}

// Unsubscribe implements partition.Outputs.
func (o *outputs) Unsubscribe(tp cluster.TopicPartition, epoch record.LeaderEpoch) {
	o.b.fetcher.Unfollow(tp, epoch)
}

// Ack implements partition.Outputs.
func (o *outputs) Ack(tp cluster.TopicPartition, epoch record.LeaderEpoch, p partition.Progress) {
	o.b.fetcher.Ack(tp, epoch, session.Ack{LogEnd: p.LogEnd, Flushed: p.Flushed, LogStart: p.LogStart})
}

// Alter implements partition.Outputs.
func (o *outputs) Alter(change cluster.ISRChange) {
	o.note(func() { o.alters[change.Partition] = change })
}

// Offline implements partition.Outputs.
func (o *outputs) Offline(tp cluster.TopicPartition, reason error) {
	o.b.log.Error("log offline", slog.String("partition", tp.String()), slog.Any("reason", reason))
	if s := o.b.session.Load(); s != nil {
		s.ReportOffline(tp)
	}
}

// Online implements partition.Outputs.
func (o *outputs) Online(tp cluster.TopicPartition) {
	if s := o.b.session.Load(); s != nil {
		s.ReportOnline(tp)
	}
}

// Removed implements partition.Outputs.
func (o *outputs) Removed(tombstones []cluster.Tombstone) {
	o.note(func() {
		for _, t := range tombstones {
			o.removed[t] = struct{}{}
		}
	})
}

// Parked implements partition.Outputs.
func (o *outputs) Parked(directories []string) {
	o.b.log.Warn("replica directories unknown to the metadata are parked, not deleted", slog.Any("directories", directories))
}

func (o *outputs) note(f func()) {
	o.mu.Lock()
	f()
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run proposes what was noted until ctx ends. One command is under way at a time; wishes gather meanwhile.
func (o *outputs) run(ctx context.Context) {
	retry := time.NewTimer(confirmRetry)
	retry.Stop()
	defer retry.Stop()
	var failed []cluster.Tombstone
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		case <-retry.C:
			o.Removed(o.standing(failed))
			failed = nil
		}
		for ctx.Err() == nil {
			changes, tombstones := o.take()
			if len(changes) == 0 && len(tombstones) == 0 {
				break
			}
			o.alter(ctx, changes)
			if !o.confirm(ctx, tombstones) {
				failed = append(failed, tombstones...)
				retry.Reset(confirmRetry)
			}
		}
	}
}

func (o *outputs) take() ([]cluster.ISRChange, []cluster.Tombstone) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var changes []cluster.ISRChange
	for tp, c := range o.alters {
		if len(changes) == alterBatch {
			break
		}
		changes = append(changes, c)
		delete(o.alters, tp)
	}
	var tombstones []cluster.Tombstone
	for t := range o.removed {
		if len(tombstones) == alterBatch {
			break
		}
		tombstones = append(tombstones, t)
		delete(o.removed, t)
	}
	return changes, tombstones
}

func (o *outputs) alter(ctx context.Context, changes []cluster.ISRChange) {
	if len(changes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, alterTimeout)
	defer cancel()
	res, err := o.b.controller.Propose(ctx, cluster.AlterPartition{Leader: o.b.id, LeaderBroker: o.b.Epoch(), Changes: changes})
	for i, c := range changes {
		item := cluster.ItemResult{Code: cluster.CodeTimedOut}
		switch {
		case err != nil:
			item.Code = AsRefusal(err).Code
		case res.Code != cluster.CodeNone:
			item.Code = res.Code
		case i < len(res.Items):
			item = res.Items[i]
		}
		o.b.partitions.AlterResult(c, item)
	}
}

// confirm tells the controller that replicas are gone, and reports whether it knows.
func (o *outputs) confirm(ctx context.Context, tombstones []cluster.Tombstone) bool {
	if len(tombstones) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, alterTimeout)
	defer cancel()
	_, err := o.propose(ctx, cluster.ConfirmRemoved{Tombstones: tombstones})
	if err != nil {
		o.b.log.Info("removal of replicas is not confirmed yet", slog.Any("error", err))
	}
	return err == nil
}

// standing are those of some tombstones that the metadata still has: what failed may have been done.
func (o *outputs) standing(tombstones []cluster.Tombstone) []cluster.Tombstone {
	image := o.image()
	return slices.DeleteFunc(tombstones, func(t cluster.Tombstone) bool { return !image.HasTombstone(t) })
}
