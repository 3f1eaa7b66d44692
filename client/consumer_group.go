package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// owned lists what is being read, for the coordinator.
func (k *Consumer) owned() []*moldauv1.TopicPartition {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]*moldauv1.TopicPartition, 0, len(k.parts))
	for _, p := range k.parts {
		out = append(out, &moldauv1.TopicPartition{Topic: p.tp.Topic, TopicId: p.id, Partition: p.tp.Partition})
	}
	return out
}

// dropAll stops reading everything at once.
func (k *Consumer) dropAll() []TopicPartition {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []TopicPartition
	for tp, p := range k.parts {
		out = append(out, tp)
		k.remove(p)
	}
	sortPartitions(out)
	return out
}

func sortPartitions(tps []TopicPartition) {
	slices.SortFunc(tps, func(a, b TopicPartition) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
}

// reassign makes what is read what the group assigned: first what goes, then what comes.
func (k *Consumer) reassign(ctx context.Context, a *moldauv1.Assignment) {
	assigned := map[TopicPartition]string{}
	for _, tp := range a.GetAssigned() {
		assigned[TopicPartition{tp.GetTopic(), tp.GetPartition()}] = tp.GetTopicId()
	}
	k.mu.Lock()
	var going, coming []TopicPartition
	for tp, p := range k.parts {
		if id, ok := assigned[tp]; !ok || id != p.id {
			going = append(going, tp)
		}
	}
	for tp, id := range assigned {
		if p := k.parts[tp]; p == nil || p.id != id {
			coming = append(coming, tp)
		}
	}
	k.mu.Unlock()
	sortPartitions(going)
	sortPartitions(coming)
	if len(going) > 0 {
		k.revoke(ctx, going)
	}
	if len(coming) > 0 {
		k.begin(ctx, coming, assigned)
	}
}

// revoke gives partitions up: callback, commit, stop.
func (k *Consumer) revoke(ctx context.Context, going []TopicPartition) {
	if k.cfg.onRevoked != nil {
		k.cfg.onRevoked(ctx, going)
	}
	if k.cfg.autoCommit > 0 {
		if _, err := k.commit(ctx, going, processedOffset); err != nil {
			k.c.cfg.log.Warn("client: commit before giving up partitions failed", "group", k.cfg.group, "error", err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, tp := range going {
		if p := k.parts[tp]; p != nil {
			k.remove(p)
		}
	}
}

// begin reads partitions from their committed offsets.
func (k *Consumer) begin(ctx context.Context, coming []TopicPartition, ids map[TopicPartition]string) {
	offsets, err := k.fetchCommitted(ctx)
	if err != nil {
		// Nothing is read without knowing where; the partitions stay unowned, and the next assignment brings them again.
		k.c.cfg.log.Warn("client: cannot read committed offsets", "group", k.cfg.group, "error", err)
		if ctx.Err() == nil && !retriable(err) {
			k.fail(err)
		}
		return
	}
	if k.cfg.onAssigned != nil {
		k.cfg.onAssigned(ctx, coming)
	}
	known := map[string]bool{} // topics of which the group has read something
	for tp := range offsets {
		known[tp.Topic] = true
	}
	for _, tp := range coming {
		if k.c.meta.topic(tp.Topic) == nil {
			_, _ = k.c.lookup(ctx, tp.Topic, false) // follow asks again
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	begun := map[string]bool{} // what was read before this assignment; one with all partitions of a topic must not make them look new
	for _, tp := range coming {
		begun[ids[tp]] = k.read[ids[tp]]
	}
	for _, tp := range coming {
		committed, ok := offsets[tp]
		k.read[ids[tp]] = true
		p := k.add(tp, ids[tp], k.startOf(known[tp.Topic] || begun[ids[tp]]))
		switch {
		case ok:
			p.start = FromOffset(committed.GetCommittedOffset())
			p.stored, p.lastEpoch = committed.GetCommittedOffset(), committed.GetLeaderEpoch()
			k.settle(p, committed.GetCommittedOffset())
		case k.cfg.reset == ResetNone:
			p.halted = true
			k.tell(p, fmt.Errorf("%w: %s-%d in group %s", ErrNoOffset, tp.Topic, tp.Partition, k.cfg.group))
		}
	}
}

// startOf is where to begin without a committed offset. A partition without one in a topic that the group knows is a new partition: what is
// in it was produced after the group began, so even ResetLatest reads it from its start.
func (k *Consumer) startOf(known bool) Start { //nolint:revive // a fact, not a mode
	if k.cfg.reset == ResetLatest && !known {
		return FromEnd()
	}
	return FromStart()
}

// fetchCommitted reads all offsets of the group.
func (k *Consumer) fetchCommitted(ctx context.Context) (map[TopicPartition]*moldauv1.CommittedOffset, error) {
	for {
		resp, err := k.c.FetchOffsets(ctx, &moldauv1.FetchOffsetsRequest{Group: k.cfg.group})
		if err != nil {
			if retriable(err) && ctx.Err() == nil {
				continue
			}
			return nil, err
		}
		out := map[TopicPartition]*moldauv1.CommittedOffset{}
		for _, o := range resp.GetOffsets() {
			if o.GetCommittedOffset() >= 0 && o.GetError() == nil {
				out[TopicPartition{o.GetTopic(), o.GetPartition()}] = o
			}
		}
		return out, nil
	}
}

// Commit stores the positions of a group member: everything that Poll has returned. With auto-commit there is no need to call it.
func (k *Consumer) Commit(ctx context.Context) error {
	_, err := k.commit(ctx, nil, deliveredOffset)
	return err
}

// CommitOffsets stores given positions: the next offsets to consume. Positions of partitions that the member does not own, not yet or not any more, are not
// stored: the error is ErrNotAssigned then, and the others are stored.
func (k *Consumer) CommitOffsets(ctx context.Context, offsets map[TopicPartition]int64) error {
	tps := make([]TopicPartition, 0, len(offsets))
	for tp := range offsets {
		tps = append(tps, tp)
	}
	sortPartitions(tps)
	missing, err := k.commit(ctx, tps, func(p *partConsumer) int64 { return offsets[p.tp] })
	if len(missing) > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %v", ErrNotAssigned, missing))
	}
	return err
}

func processedOffset(p *partConsumer) int64 { return p.processed }

// deliveredOffset is for whoever says that what was delivered is processed; the next auto-commit must not go back behind it.
func deliveredOffset(p *partConsumer) int64 {
	p.processed = p.position
	return p.position
}

// errNoGroup reports a commit by a consumer that is in no group.
var errNoGroup = errors.New("client: commit: the consumer is in no group")

// epochPatience is how long a commit waits for the member epoch that the coordinator has raised meanwhile.
const epochPatience = 2 * time.Second

// commit stores offsets of the given partitions (nil: all) where they moved. A commit that crosses a new member epoch on the wire is refused;
// it is made again under the new one, from what is owned then. Those of tps that are not owned are left out and returned.
func (k *Consumer) commit(ctx context.Context, tps []TopicPartition, offset func(*partConsumer) int64) ([]TopicPartition, error) {
	if k.member == nil {
		return nil, errNoGroup
	}
	ctx, cancel := context.WithTimeout(ctx, k.c.cfg.requestTimeout)
	defer cancel()
	select {
	case k.committing <- struct{}{}:
		defer func() { <-k.committing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		req, parts, missing, changed := k.gather(tps, offset)
		if len(req.Offsets) == 0 {
			return missing, nil
		}
		resp, err := k.c.CommitOffsets(ctx, req)
		if CodeOf(err) == moldauv1.ErrorCode_ERROR_CODE_FENCED_MEMBER_EPOCH && k.newEpoch(ctx, req.GetMemberEpoch(), changed) {
			continue
		}
		if err != nil {
			k.doubt(parts)
			return missing, err
		}
		return missing, k.committed(resp, req, parts)
	}
}

// newEpoch waits until the member has another epoch than the one that was refused.
func (k *Consumer) newEpoch(ctx context.Context, old int32, changed <-chan struct{}) bool {
	timer := time.NewTimer(epochPatience)
	defer timer.Stop()
	for {
		if _, now := k.member.identity(); now != old {
			return now > 0
		}
		select {
		case <-changed:
			k.mu.Lock()
			changed = k.epochChanged
			k.mu.Unlock()
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// gather makes the request of a commit, under a number of its own, and says what it left out because it is not owned.
func (k *Consumer) gather(tps []TopicPartition, offset func(*partConsumer) int64) (
	*moldauv1.CommitOffsetsRequest, []*partConsumer, []TopicPartition, <-chan struct{},
) {
	req := &moldauv1.CommitOffsetsRequest{Group: k.cfg.group, InstanceId: k.cfg.instanceID}
	req.MemberId, req.MemberEpoch = k.member.identity()
	var parts []*partConsumer
	var missing []TopicPartition
	k.mu.Lock()
	defer k.mu.Unlock()
	if tps == nil {
		for tp := range k.parts {
			tps = append(tps, tp)
		}
		sortPartitions(tps)
	}
	for _, tp := range tps {
		p := k.parts[tp]
		if p == nil || !p.resolved {
			missing = append(missing, tp)
			continue
		}
		if at := offset(p); at >= 0 && at != p.stored {
			parts = append(parts, p)
			req.Offsets = append(req.Offsets, p.toCommit(at))
		}
	}
	if len(req.Offsets) > 0 {
		k.commits++
		req.Sequence = k.commits
	}
	return req, parts, missing, k.epochChanged
}

// doubt forgets what is stored of partitions whose commit has failed: it may have been carried out all the same, so the next one has them again, moved or not.
func (k *Consumer) doubt(parts []*partConsumer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range parts {
		p.stored = -1
	}
}

// committed notes what a commit has stored.
func (k *Consumer) committed(resp *moldauv1.CommitOffsetsResponse, req *moldauv1.CommitOffsetsRequest, parts []*partConsumer) error {
	var errs []error
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, r := range resp.GetResults() {
		if err := fromWire(r.GetError()); err != nil {
			errs = append(errs, fmt.Errorf("client: commit %s-%d: %w", r.GetTopic(), r.GetPartition(), err))
		} else if i < len(parts) {
			parts[i].stored = req.Offsets[i].GetCommittedOffset()
		}
	}
	return errors.Join(errs...)
}

func (p *partConsumer) toCommit(at int64) *moldauv1.OffsetCommit {
	c := &moldauv1.OffsetCommit{Topic: p.tp.Topic, TopicId: p.id, Partition: p.tp.Partition, CommittedOffset: at}
	if p.epochSeen >= 0 {
		epoch := p.epochSeen
		c.LeaderEpoch = &epoch
	}
	return c
}

// autoCommit is the goroutine that commits now and then. The first commit comes soon, also of positions where nothing was read: a group that
// has an offset for every partition that it knows can tell a new partition from an idle one.
func (k *Consumer) autoCommit() {
	tick := time.NewTicker(k.cfg.autoCommit)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-k.placed:
		case <-k.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(k.ctx, k.c.cfg.dialTimeout)
		if _, err := k.commit(ctx, nil, processedOffset); err != nil && k.ctx.Err() == nil {
			k.c.cfg.log.Warn("client: auto-commit failed", "group", k.cfg.group, "error", err)
		}
		cancel()
	}
}
