package partition

import (
	"log/slog"
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication"
	"github.com/moldau-log/moldau/segment"
)

// damaged hands a read's finding to the partition. Readers that fail over and over are dropped when the inbox is full: one of them is enough.
func (r *Runner) damaged(d *segment.DamageError) {
	r.put(message{kind: kindDamage, other: d}, r.manager.options.InboxSize)
}

// Damaged takes note of damage that a read has found in what was written in good order: the disk has changed it since. A replica that others can stand in
// for goes offline, so that readers get the whole records elsewhere and the damage is repaired from there. The last one in sync stays: without it nobody
// could read what is whole, or write.
func (p *Partition) Damaged(d *segment.DamageError) {
	p.endGather()
	if p.broken != nil || p.log == nil || p.replica.Role() == replication.Offline || !p.stillDamaged(d.Offset) {
		return
	}
	if p.dispensable() {
		p.step(&replication.AppendFailed{Reason: d})
		return
	}
	if p.lastDamage != d.Offset+1 {
		p.lastDamage = d.Offset + 1
		p.env.log.Error("records cannot be read, and no other replica is in sync to read them from", p.attrs(slog.Any("error", d))...)
	}
}

// stillDamaged looks again, now that nobody can change the log meanwhile: a reader may have looked while it was truncated and written anew.
func (p *Partition) stillDamaged(at record.Offset) bool { return p.log.View().IsDamaged(at) }

// dispensable reports whether another replica has everything that was acknowledged.
func (p *Partition) dispensable() bool {
	return slices.ContainsFunc(p.replica.ISR(), func(b cluster.BrokerID) bool { return b != p.env.self })
}
