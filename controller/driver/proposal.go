package driver

import (
	"iter"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// outstanding is a proposal that is not known to be in the image yet.
type outstanding struct {
	partitions []cluster.TopicPartition // in the order of the command's items
	session    *session                 // of the broker that the proposal is about, or nil
	shards     bool
	applied    uint64 // index of the entry once it is known; 0 before
}

// propose emits a command and marks what it is about as busy.
func (d *Driver) propose(cmd cluster.Command, o *outstanding) {
	d.nextID++
	d.outstanding[d.nextID] = o
	for _, tp := range o.partitions {
		d.busy[tp] = true
		delete(d.todo, tp)
		delete(d.retry, tp)
	}
	if o.session != nil {
		o.session.busy = true
	}
	d.shardsBusy = d.shardsBusy || o.shards
	d.effects.Propose = append(d.effects.Propose, Proposal{ID: d.nextID, Command: cmd})
}

// done notes the outcome of a proposal. One of an earlier leadership is unknown here, and ignored.
func (d *Driver) done(now time.Duration, in ProposalDone) {
	o, ok := d.outstanding[in.ID]
	if !ok {
		return
	}
	refused := in.Failed || in.Result.Code != cluster.CodeNone
	for i, tp := range o.partitions {
		if refused || i < len(in.Result.Items) && in.Result.Items[i].Code != cluster.CodeNone {
			d.retry[tp] = now + d.cfg.RetryDelay
		}
	}
	if refused && o.session != nil {
		o.session.retry = now + d.cfg.RetryDelay
		o.session.fencing = false
	}
	if refused && o.shards {
		d.retryShard = now + d.cfg.RetryDelay
	}
	o.applied = 1 // nothing to wait for
	if !in.Failed {
		o.applied = in.Result.Index
	}
	d.release()
}

// release frees what waited for proposals whose entries the image has.
func (d *Driver) release() {
	for _, id := range sortedKeys(d.outstanding) {
		o := d.outstanding[id]
		if o.applied == 0 || o.applied > d.img.Index() {
			continue
		}
		delete(d.outstanding, id)
		for _, tp := range o.partitions {
			delete(d.busy, tp)
		}
		if o.session != nil {
			o.session.busy = false
		}
		if o.shards {
			d.shardsBusy = false
			d.unbalanced = true
		}
	}
}

// retryTimes lists when something that was refused is due again, in no order that matters.
func (d *Driver) retryTimes() []time.Duration {
	var out []time.Duration
	for _, tp := range sortedPartitions(d.retry) {
		out = append(out, d.retry[tp])
	}
	return out
}

func sortedKeys[K uint64 | cluster.BrokerID, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func sortedPartitions[V any](m map[cluster.TopicPartition]V) []cluster.TopicPartition {
	keys := make([]cluster.TopicPartition, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, cluster.TopicPartition.Compare)
	return keys
}

func isEmpty[T any](seq iter.Seq[T]) bool {
	for range seq {
		return false
	}
	return true
}
