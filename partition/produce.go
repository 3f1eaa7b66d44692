package partition

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/invariant"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/segment"
)

// gathered is one admitted batch on its way into the log.
type gathered struct {
	request replication.RequestID
	batch   record.Batch
}

// Produce admits or refuses a batch. Admitted ones are gathered and go into the log together, with the next Step or Settle.
func (p *Partition) Produce(req ProduceRequest, done *Completion) {
	id := p.slots.take(done, req.Release)
	if p.broken != nil {
		p.refuse(id, cluster.CodeStorage, "the replica is offline")
		return
	}
	batch, err := record.Parse(req.Batch)
	if err != nil || batch.Size() != len(req.Batch) {
		p.refuse(id, cluster.CodeCorrupt, "not exactly one whole batch")
		return
	}
	in := &p.in.produce
	*in = replication.ProduceRequested{
		Request: id, LeaderEpoch: req.LeaderEpoch, Offsets: int64(batch.LastOffsetDelta()) + 1,
		Acks: replication.Acks(req.Acks), Deadline: req.Deadline,
	}
	// Whether the batch is allowed is for the leader to say; who does not lead lets the machine refuse.
	if p.replica.Role() == replication.Leader && (req.LeaderEpoch == record.NoEpoch || req.LeaderEpoch == p.replica.LeaderEpoch()) {
		if code, message := p.validate(batch); code != cluster.CodeNone {
			p.refuse(id, code, message)
			return
		}
		v := p.producers.check(batch.Head, p.replica.LeaderEpoch(), p.wallMs)
		if planted.On(planted.DuplicateAppended) {
			v.original = nil
		}
		if v.code != cluster.CodeNone {
			code, message := p.refusal(v.code)
			p.refuse(id, code, message)
			return
		}
		if v.original != nil {
			in.DuplicateBase, in.DuplicateEnd = v.original.base, v.original.end
			p.env.meters.duplicates.Inc()
			if p.config.TimestampType == cluster.LogAppendTime {
				p.slots.all[id].appendMs = p.appendedAt(v.original.base)
			}
		}
	}
	p.takeLease()
	p.producing = batch
	p.step(in)
	p.producing = record.Batch{}
	if p.gatherLen >= gatherBytes {
		p.endGather()
	}
}

// appendedAt is when the batch at an offset was appended, or -1: a duplicate is answered with the time of the original.
func (p *Partition) appendedAt(base record.Offset) int64 {
	for i := range p.gathered {
		if b := p.gathered[i].batch; b.BaseOffset() == base {
			return b.MaxTimestamp()
		}
	}
	slice, err := p.log.View().Read(base, 1, p.log.End())
	if err != nil { // it was deleted meanwhile; that the batch was appended is what counts
		return -1
	}
	defer slice.Release()
	raw, err := slice.AppendTo(nil)
	if err != nil {
		return -1
	}
	if head, err := record.ParseHead(raw); err == nil && head.BaseOffset() == base && head.LogAppendTime() {
		return head.MaxTimestamp()
	}
	return -1
}

// takeLease tells the machine until when the controller's word holds, when that has changed. Asking here instead of telling every partition four
// times a second keeps idle partitions idle.
func (p *Partition) takeLease() {
	if lease := p.env.lease(); lease > p.replica.Lease() {
		p.endGather()
		p.in.contact = replication.ControllerContact{Until: lease}
		p.step(&p.in.contact)
	}
}

// validate checks what depends on the topic. The door has checked the rest.
func (p *Partition) validate(b record.Batch) (cluster.Code, string) {
	switch {
	case int64(b.Size()) > p.config.MaxMessageBytes:
		return cluster.CodeTooLarge, fmt.Sprintf("batch of %d bytes, max.message.bytes is %d", b.Size(), p.config.MaxMessageBytes)
	case b.IsTransactional():
		return cluster.CodeTransactional, "transactions are not supported"
	case b.IsControl():
		return cluster.CodeInvalidRecord, "control batches come from brokers only"
	case b.BaseOffset() != 0 || b.Count() == 0:
		return cluster.CodeInvalidRecord, "a producer's batch has base offset 0 and at least one record"
	}
	if newest := b.MaxTimestamp(); p.config.TimestampType == cluster.CreateTime && newest != record.NoTimestamp {
		after := p.config.TimestampAfter.Milliseconds()
		if newest > p.wallMs && newest-p.wallMs > after {
			return cluster.CodeInvalidTimestamp, fmt.Sprintf("timestamp %d is more than %d ms ahead of the broker's clock", newest, after)
		}
	}
	return cluster.CodeNone, ""
}

// gather stamps an admitted batch and puts it on the pile.
func (p *Partition) gather(a *replication.Append) {
	b := p.producing
	invariant.Check(!b.IsZero(), "partition: nothing to append for request %d", a.Request)
	s := &p.slots.all[a.Request]
	s.base = a.Base
	if p.config.TimestampType == cluster.LogAppendTime {
		s.appendMs = p.wallMs
		b.StampLogAppendTime(p.wallMs)
	}
	b.Stamp(a.Base, a.Epoch)
	p.producers.applyTentatively(b.Head, p.wallMs)
	p.gathered = append(p.gathered, gathered{request: a.Request, batch: b})
	p.gatherLen += b.Size()
}

// endGather appends what was gathered with one write.
func (p *Partition) endGather() {
	if len(p.gathered) == 0 {
		return
	}
	bytes := p.gathered[0].batch.Bytes()
	if len(p.gathered) > 1 {
		p.buf = p.buf[:0]
		for i := range p.gathered {
			p.buf = append(p.buf, p.gathered[i].batch.Bytes()...)
		}
		bytes = p.buf
	}
	err := p.markRelaxed()
	if err == nil {
		_, err = p.log.Append(p.wallMs, bytes)
	}
	if err != nil {
		p.noteNotAppended()
	}
	for i := range p.gathered {
		p.slots.all[p.gathered[i].request].giveBuffer()
	}
	clear(p.gathered)
	p.gathered, p.gatherLen = p.gathered[:0], 0
	if cap(p.buf) > 2*gatherBytes {
		p.buf = nil
	}
	if err != nil {
		p.notAppended(err)
		return
	}
	p.producers.settle()
	p.appended(int64(len(bytes)))
}

// appended tells the machine that the log has grown.
func (p *Partition) appended(bytes int64) {
	p.appendedSince += bytes
	p.flusher.appended(p.now)
	p.in.appended = replication.Appended{End: p.log.End()}
	p.step(&p.in.appended)
}

// noteNotAppended takes note of first batches that are about to be refused: what their producers have in flight behind them may find room.
func (p *Partition) noteNotAppended() {
	p.producers.revert()
	for i := range p.gathered {
		p.producers.noteRefused(p.gathered[i].batch.Head, p.leading(), p.wallMs)
	}
}

// notAppended reacts to a failed append. When the log is as it was, its requests are refused and all goes on (case 12).
func (p *Partition) notAppended(err error) {
	p.producers.revert()
	if errors.Is(err, segment.ErrOffline) || errors.Is(err, segment.ErrNotContiguous) {
		p.step(&replication.AppendFailed{Reason: err})
		return
	}
	p.env.meters.refusedAppends.Inc()
	p.env.retried.Warn("append refused", p.attrs(slog.Any("error", err))...)
	p.step(&replication.AppendRefused{})
}

// markRelaxed puts the mark on disk that the log may hold what was acknowledged without a flush, before it does.
func (p *Partition) markRelaxed() error {
	if p.config.FlushPolicy == cluster.FlushAlways || p.log.Relaxed() || planted.On(planted.RelaxedMarkMissing) {
		return nil
	}
	return p.log.SetRelaxed(true)
}

// refuse answers a request that never reached the machine.
func (p *Partition) refuse(id replication.RequestID, code cluster.Code, message string) {
	p.answer(id, ProduceResult{Code: code, BaseOffset: -1, AppendTimeMs: -1, Message: message})
}

// NoteRefused takes note of a batch that somebody before the partition has refused, and that its producer will send again: what it has in flight behind
// it does not go first. Anything but a batch is ignored.
func (p *Partition) NoteRefused(batch []byte) {
	if head, err := record.ParseHead(batch); err == nil {
		p.producers.noteRefused(head, p.leading(), p.wallMs)
	}
}

// refusal is what a producer is told of a batch that does not fit to its state.
func (p *Partition) refusal(code cluster.Code) (cluster.Code, string) {
	switch {
	case code == cluster.CodeNotLeader:
		return code, "an earlier batch of this producer was refused here before the election, and it is not known what became of it"
	case (code == cluster.CodeOutOfOrderSequence || code == cluster.CodeDuplicateSequence) && p.now >= p.env.lease():
		// Another may lead by now and have what is missing here: nobody is to give up for that, or to take it for stored.
		return cluster.CodeNotLeader, "the controller has not confirmed this leader lately"
	}
	return code, ""
}

// leading is the epoch in which this replica leads, or NoEpoch.
func (p *Partition) leading() record.LeaderEpoch {
	if p.replica.Role() != replication.Leader {
		return record.NoEpoch
	}
	return p.replica.LeaderEpoch()
}

// respond answers a request as the machine decided.
func (p *Partition) respond(r *replication.Response) {
	switch r.Code {
	case cluster.CodeNotLeader, cluster.CodeFencedLeaderEpoch, cluster.CodeUnknownLeaderEpoch, cluster.CodeNotEnoughReplicas, cluster.CodeStorage, cluster.CodeOverloaded:
		if r.Base < 0 && !p.producing.IsZero() {
			p.producers.noteRefused(p.producing.Head, p.leading(), p.wallMs)
		}
	}
	p.answer(r.Request, ProduceResult{Code: r.Code, BaseOffset: r.Base, AppendTimeMs: p.slots.all[r.Request].appendMs})
}

// answer completes a request.
func (p *Partition) answer(id replication.RequestID, result ProduceResult) {
	s := p.slots.give(id)
	s.giveBuffer()
	result.LogStart = p.replica.LogStart()
	result.Leader, result.LeaderEpoch = p.replica.Leader(), p.replica.LeaderEpoch()
	s.done.complete(result)
}
