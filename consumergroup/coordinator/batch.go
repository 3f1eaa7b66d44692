package coordinator

import (
	"errors"
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
	"github.com/moldau-log/moldau/internal/planted"
)

// unit is what one input of one group made: records that are committed together, and what waits for that.
type unit struct {
	entry   *entry
	records []cluster.GroupRecord
	bytes   int
	// state is the size of the GroupState among the records, 0 if there is none.
	state int
	// answers wait for the commit: the unit's own, and those of later inputs of the group that made no records but rest on these.
	answers []Answer
	wake    []Watched
	removed []Removed
	expired []Expired
}

// flight is the append that is unresolved.
type flight struct {
	units []*unit
	// shards are those of the batches, in their order.
	shards []*shard
}

// enqueue queues the records of one step.
func (c *Coordinator) enqueue(e *entry, out group.Output, waiting []Answer, in group.Input) {
	u := &unit{entry: e, records: out.Records, answers: waiting}
	name := e.group.Name()
	for _, r := range out.Records {
		n := group.RecordSize(r)
		u.bytes += n
		if _, ok := r.(cluster.GroupState); ok {
			u.state = n
		}
	}
	for _, member := range out.Wake {
		u.wake = append(u.wake, Watched{name, member})
	}
	for _, r := range out.Removed {
		u.removed = append(u.removed, Removed{name, r})
	}
	if _, ok := in.(group.Expire); ok {
		_, deleted := out.Records[0].(cluster.GroupDeleted)
		u.expired = append(u.expired, Expired{Group: name, Offsets: out.Expired, Deleted: deleted})
	}
	e.last = u
	c.queue = append(c.queue, u)
	c.pendingBytes += u.bytes
	c.pendingRequests += len(waiting)
}

// send makes an append of the oldest units that fit.
func (c *Coordinator) send() {
	n := c.fit()
	f := &flight{units: slices.Clone(c.queue[:n])}
	rest := copy(c.queue, c.queue[n:])
	clear(c.queue[rest:])
	c.queue = c.queue[:rest]

	command := &cluster.GroupAppend{Broker: c.broker}
	var batchOf [cluster.ShardCount]int // index of the shard's batch, plus one
	for _, sh := range c.settle {
		if c.shards[sh.id] == sh { // not lost meanwhile
			f.shards = append(f.shards, sh)
			command.Batches = append(command.Batches, cluster.GroupBatch{Shard: sh.id, ShardEpoch: sh.epoch, Sequence: sh.nextSequence})
		}
	}
	c.settle = nil
	newest := newestStates(f.units)
	for _, u := range f.units {
		sh := u.entry.shard
		i := batchOf[sh.id] - 1
		if i < 0 {
			i = len(command.Batches)
			batchOf[sh.id] = i + 1
			f.shards = append(f.shards, sh)
			command.Batches = append(command.Batches, cluster.GroupBatch{Shard: sh.id, ShardEpoch: sh.epoch, Sequence: sh.nextSequence})
		}
		for _, r := range u.records {
			if _, ok := r.(cluster.GroupState); ok && newest[u.entry] != u {
				continue // a newer state in this batch replaces it as a whole
			}
			command.Batches[i].Records = append(command.Batches[i].Records, r)
			c.counts.Records++
		}
	}
	if len(command.Batches) == 0 {
		return // all that was to be settled was lost
	}
	c.counts.Appends++
	c.flight = f
	c.effects.Append = command
}

// fit says how many units the next append takes: at least one, then as many as stay below the limit. Of several states of one group only
// the last is sent, so only one counts.
func (c *Coordinator) fit() int {
	total := 0
	states := map[*entry]int{}
	for n, u := range c.queue {
		add := u.bytes
		if u.state > 0 {
			add -= states[u.entry]
			states[u.entry] = u.state
		}
		if n > 0 && total+add > c.config.MaxAppendBytes {
			return n
		}
		total += add
	}
	return len(c.queue)
}

// newestStates finds, per group, the last unit that replaces its whole state.
func newestStates(units []*unit) map[*entry]*unit {
	newest := map[*entry]*unit{}
	for _, u := range units {
		if u.state > 0 {
			newest[u.entry] = u
		}
	}
	return newest
}

// Appended takes the outcome of the append. An error means that nobody knows what became of it, unless it is a refusal that says that it was
// never proposed.
func (c *Coordinator) Appended(env group.Env, result cluster.Result, err error) {
	f := c.flight
	if f == nil {
		return
	}
	c.flight = nil
	items := result.Items
	switch {
	case neverProposed(err):
		c.counts.Refused += int64(len(f.shards))
		for _, sh := range f.shards {
			c.fail(f, sh, cluster.CodeCoordinatorLoading, "the metadata log cannot be reached; nothing was done")
		}
		return
	case err != nil || result.Code == cluster.CodeNone && len(items) != len(f.shards):
		c.counts.Unknown++
		for _, sh := range f.shards {
			sh.doubt = true
			c.fail(f, sh, cluster.CodeTimedOut, "the metadata log did not answer in time; whether the request took effect is not known")
		}
		return
	case result.Code != cluster.CodeNone:
		for _, sh := range f.shards {
			c.counts.Refused++
			c.fail(f, sh, cluster.CodeCoordinatorLoading, "the metadata log refused the request: "+result.Code.String())
		}
		return
	}
	c.lastIndex = max(c.lastIndex, result.Index)
	for i, sh := range f.shards {
		if items[i].Code != cluster.CodeNone {
			c.counts.Refused++
			sh.doubt = false // the sequence is taken, and what else has it is refused
			c.fail(f, sh, refusalOf(items[i].Code), "the metadata log refused the request: "+items[i].Code.String())
			continue
		}
		c.counts.Committed++
		sh.nextSequence++
		for _, u := range f.of(sh) {
			c.resolve(u)
		}
		if sh.content != nil && c.shards[sh.id] == sh {
			c.serve(env, sh)
		}
	}
}

// neverProposed reports whether an append ended in a refusal that says that it did not reach the log, and will not.
func neverProposed(err error) bool {
	var refusal *cluster.Error
	if !errors.As(err, &refusal) {
		return false
	}
	switch refusal.Code {
	case cluster.CodeNoController, cluster.CodeNotController, cluster.CodeOverloaded:
		return true
	}
	return false
}

// refusalOf is what those hear whose batch was refused. With another shard epoch somebody else coordinates the group; with another sequence a
// batch of unknown outcome came in between, and the same coordinator will do.
func refusalOf(code cluster.Code) cluster.Code {
	if code == cluster.CodeStaleShardEpoch {
		return cluster.CodeNotCoordinator
	}
	return cluster.CodeCoordinatorLoading
}

// of lists the units of one shard.
func (f *flight) of(sh *shard) []*unit {
	var out []*unit
	for _, u := range f.units {
		if u.entry.shard == sh {
			out = append(out, u)
		}
	}
	return out
}

// resolve lets out what waited for a unit that is committed.
func (c *Coordinator) resolve(u *unit) {
	c.release(u)
	c.effects.Answers = append(c.effects.Answers, u.answers...)
	c.effects.Wake = append(c.effects.Wake, u.wake...)
	c.effects.Removed = append(c.effects.Removed, u.removed...)
	c.effects.Expired = append(c.effects.Expired, u.expired...)
	if u.entry.last == u {
		u.entry.last = nil
		if c.shards[u.entry.shard.id] == u.entry.shard {
			c.schedule(u.entry)
		}
	}
}

// release takes a unit out of the bounds.
func (c *Coordinator) release(u *unit) {
	c.pendingBytes -= u.bytes
	c.pendingRequests -= len(u.answers)
}

// fail refuses everything of a batch that was not, or not surely, accepted. Unless the shard is gone already, it is loaded again.
func (c *Coordinator) fail(f *flight, sh *shard, code cluster.Code, message string) {
	for _, u := range f.of(sh) {
		c.drop(u, code, message)
	}
	if c.shards[sh.id] == sh && !planted.On(planted.DoubtNotReloaded) {
		c.dropQueued(sh, cluster.CodeCoordinatorLoading, "the coordinator is taking over again")
		c.refuseParked(sh, cluster.CodeCoordinatorLoading, "the coordinator is taking over again")
		c.take(sh.id, sh.epoch, sh.nextSequence)
		c.shards[sh.id].doubt = sh.doubt
	}
}

// drop refuses what waited for a unit.
func (c *Coordinator) drop(u *unit, code cluster.Code, message string) {
	c.release(u)
	for _, a := range u.answers {
		c.refuse(a.Ticket, code, message)
	}
}

// dropQueued refuses what a shard has in the queue: it was never sent.
func (c *Coordinator) dropQueued(sh *shard, code cluster.Code, message string) {
	kept := c.queue[:0]
	for _, u := range c.queue {
		if u.entry.shard == sh {
			c.drop(u, code, message)
		} else {
			kept = append(kept, u)
		}
	}
	clear(c.queue[len(kept):])
	c.queue = kept
}
