package client

import (
	"context"
	"time"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// resolve turns the starts of new partitions into offsets.
func (k *Consumer) resolve() {
	k.mu.Lock()
	var parts []*partConsumer
	var gens []uint64
	req := new(moldauv1.ListOffsetsRequest)
	now := time.Now()
	for _, p := range k.parts {
		if p.resolved || p.halted || now.Before(p.retryAt) {
			continue
		}
		if p.start.kind == startOffset && k.c.meta.topic(p.tp.Topic) != nil {
			k.settle(p, p.start.n)
			continue
		}
		parts, gens = append(parts, p), append(gens, p.gen)
		req.Queries = append(req.Queries, p.start.query(p))
	}
	k.mu.Unlock()
	if len(parts) == 0 {
		return
	}
	k.lookupTopics(parts)
	ctx, cancel := context.WithTimeout(k.ctx, k.c.cfg.dialTimeout)
	defer cancel()
	resp, err := k.c.ListOffsets(ctx, req)
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, p := range parts {
		if p.gen != gens[i] || k.parts[p.tp] != p {
			continue
		}
		if err != nil || i >= len(resp.GetOffsets()) || resp.GetOffsets()[i].GetError() != nil {
			k.delay(p)
			continue
		}
		k.apply(p, resp.GetOffsets()[i].GetOffset())
	}
}

// lookupTopics makes sure that leaders are known: streams need them.
func (k *Consumer) lookupTopics(parts []*partConsumer) {
	for _, p := range parts {
		if k.c.meta.topic(p.tp.Topic) == nil {
			_, _ = k.c.lookup(k.ctx, p.tp.Topic, false) // what fails here fails again, with a delay, in ListOffsets
		}
	}
}

// query is the question that a start needs answered.
func (s Start) query(p *partConsumer) *moldauv1.OffsetQuery {
	q := &moldauv1.OffsetQuery{Topic: p.tp.Topic, TopicId: p.id, Partition: p.tp.Partition}
	switch s.kind {
	case startEarliest:
		q.Spec = moldauv1.OffsetSpec_OFFSET_SPEC_EARLIEST
	case startTime:
		q.Spec, q.TimestampMs = moldauv1.OffsetSpec_OFFSET_SPEC_TIMESTAMP, s.n
	default:
		q.Spec = moldauv1.OffsetSpec_OFFSET_SPEC_LATEST
	}
	return q
}

// apply takes the answer to a start's question. mu is held.
func (k *Consumer) apply(p *partConsumer, offset int64) {
	switch {
	case p.start.kind == startOffset: // the question only made the topic known
		offset = p.start.n
	case p.start.kind == startTime && offset < 0: // nothing is that young
		p.start = FromEnd()
		k.nudge()
		return
	case p.start.kind == startEarliest:
		offset += p.start.n
	case p.start.kind == startLatest:
		offset = max(offset+p.start.n, 0) // if that is below the log start, outOfRange moves it up
	}
	k.settle(p, offset)
}

// settle begins to read at an offset. mu is held.
func (k *Consumer) settle(p *partConsumer, offset int64) {
	p.resolved = true
	p.fetch, p.position, p.processed = offset, offset, offset
	select {
	case k.placed <- struct{}{}:
	default: // the commit that is to come takes this one too
	}
	k.nudge()
}
