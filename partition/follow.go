package partition

import (
	"fmt"
	"log/slog"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/replication/session"
)

// Deliver takes data from the leader. Every batch is checked before it is appended: damage does not spread (case 63). recycle is called once.
func (p *Partition) Deliver(leaderEpoch record.LeaderEpoch, d session.Data, recycle func()) {
	defer recycle()
	p.endGather()
	if p.broken != nil || p.replica.Role() != replication.Follower || leaderEpoch != p.replica.LeaderEpoch() && !planted.On(planted.NoEpochFence) {
		return
	}
	in := &p.in.delivered
	*in = replication.Delivered{
		LeaderEpoch: leaderEpoch, First: d.First, End: d.First, Epochs: in.Epochs[:0],
		HighWatermark: d.HighWatermark, LogStart: d.LogStart,
	}
	kept, err := p.inspect(d.Bytes, in)
	if err != nil {
		p.env.meters.corrupt.Inc()
		p.env.log.Error("leader sent a bad batch", p.attrs(slog.Int64("first", int64(d.First)), slog.Any("error", err))...)
		p.step(&replication.SubscribeRefused{LeaderEpoch: leaderEpoch, Refused: session.Refused{Code: cluster.CodeCorrupt, LogStart: -1}})
		return
	}
	p.arrived = kept
	p.step(in)
	p.arrived = nil
}

// inspect checks every batch, notes where the new ones lie and under which epochs, and leaves out those that the log has. The base offset lies outside the checksum,
// and the leader does not look again at what it has appended itself: that it leaves no gap is what proves it. No leader has gaps, since none compacts.
func (p *Partition) inspect(bytes []byte, in *replication.Delivered) ([]byte, error) {
	have, skip := p.replica.LogEnd(), 0
	expect := max(have, in.First)
	last := record.NoEpoch
	err := record.Split(bytes, func(b record.Batch) error {
		if b.NextOffset() <= have {
			skip += b.Size()
			in.First, in.End = have, have
			return nil
		}
		if err := b.VerifyCRC(); err != nil && !planted.On(planted.FollowerSkipsChecksum) {
			return err
		}
		if b.BaseOffset() > expect && !planted.On(planted.FollowerTakesGaps) {
			return fmt.Errorf("partition: a batch begins at offset %d, expected %d", b.BaseOffset(), expect)
		}
		expect = b.NextOffset()
		in.First = min(in.First, b.BaseOffset())
		if b.LeaderEpoch() != last {
			last = b.LeaderEpoch()
			in.Epochs = append(in.Epochs, record.EpochStart{Epoch: last, Start: b.BaseOffset()})
		}
		in.End = b.NextOffset()
		return nil
	})
	return bytes[skip:], err
}

// appendArrived appends what the machine has accepted of the Deliver in progress, byte for byte.
func (p *Partition) appendArrived() {
	err := p.markRelaxed()
	before := p.log.End()
	if err == nil {
		_, err = p.log.AppendReplicated(p.wallMs, p.arrived)
	}
	if end := p.log.End(); end > before {
		_ = record.Split(p.arrived, func(b record.Batch) error {
			if b.NextOffset() <= end && !planted.On(planted.FollowerForgetsSequences) {
				p.producers.apply(b.Head, p.wallMs)
			}
			return nil
		})
		p.appended(int64(len(p.arrived)))
	}
	if err != nil {
		p.notAppended(err)
	}
}

// Subscribe asks the machine to admit a follower; the answer goes to sink.
func (p *Partition) Subscribe(follower cluster.BrokerID, epoch cluster.BrokerEpoch, s session.Subscribe, sink fetcher.Sink) {
	if p.broken != nil {
		sink.Refused(session.Refused{ID: s.ID, Code: cluster.CodeStorage, LeaderEpoch: record.NoEpoch, LogStart: -1})
		return
	}
	for _, have := range p.subs {
		if have.follower == follower && (have.epoch > epoch || have.epoch == epoch && have.id > s.ID) {
			// From a stream that has a successor. To let it replace the newer subscription would leave the follower without data.
			sink.Refused(session.Refused{ID: s.ID, Code: cluster.CodeStaleBrokerEpoch, LeaderEpoch: record.NoEpoch, LogStart: -1})
			return
		}
	}
	p.endGather()
	p.dropSubscription(follower)
	p.subs = append(p.subs, subscription{follower: follower, epoch: epoch, id: s.ID, sink: sink})
	p.step(&replication.SubscribeRequested{Follower: follower, Epoch: epoch, Subscribe: s})
}

// Unsubscribe ends one subscription of a follower, unless another has taken its place.
func (p *Partition) Unsubscribe(follower cluster.BrokerID, epoch cluster.BrokerEpoch, id session.SubscriptionID) {
	for _, s := range p.subs {
		if s.follower == follower && s.epoch == epoch && s.id == id {
			p.dropSubscription(follower)
			break
		}
	}
	if p.broken == nil {
		p.Step(&replication.Unsubscribed{Follower: follower, Epoch: epoch, ID: id})
	}
}

// admit carries the machine's answer to the follower's sender.
func (p *Partition) admit(a *replication.Admission) {
	if a.Lost != nil {
		p.env.log.Warn("a follower came back with less than it had on disk: a new disk, or one that does not keep what is flushed; it is copied again",
			p.attrs(slog.Int("follower", int(a.Follower)), slog.Int64("flushed", int64(a.Lost.Flushed)), slog.Int64("log_end", int64(a.Lost.LogEnd)))...)
	}
	for i := range p.subs {
		s := &p.subs[i]
		if s.follower != a.Follower || s.id != a.Refused.ID {
			continue
		}
		if a.Accepted {
			s.admitted = true
			p.show() // before the sender reads
			s.sink.Accepted(s.id, &replicaReader{p: p.readers, epoch: p.replica.LeaderEpoch()})
			return
		}
		sink := s.sink
		p.dropSubscription(a.Follower)
		sink.Refused(a.Refused)
		return
	}
}

func (p *Partition) dropSubscription(follower cluster.BrokerID) {
	for i := range p.subs {
		if p.subs[i].follower == follower {
			last := len(p.subs) - 1
			p.subs[i] = p.subs[last]
			p.subs[last] = subscription{}
			p.subs = p.subs[:last]
			return
		}
	}
}

// wakeFollowers tells the senders that there is more to send.
func (p *Partition) wakeFollowers() {
	for _, s := range p.subs {
		if s.admitted {
			s.sink.Wake(s.id)
		}
	}
}
