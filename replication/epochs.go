package replication

import (
	"slices"
	"sort"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// EpochHistory is the list of leader epochs of a log with the first offset of each, both rising. A slice of it is immutable: every change
// makes a new one, so that readers on other goroutines may hold it.
type EpochHistory []record.EpochStart

// Last returns the newest epoch, record.NoEpoch when there is none.
func (h EpochHistory) Last() record.LeaderEpoch {
	if len(h) == 0 {
		return record.NoEpoch
	}
	return h[len(h)-1].Epoch
}

// End says where asked ends in a log whose end is logEnd: the largest epoch that is not above asked, and the start of the epoch after it. An
// epoch older than the whole history ends, under its own name, where the history begins (KIP-101, KIP-279). ok is false when nothing can be said: no
// history at all, or an epoch that this log has not reached.
func (h EpochHistory) End(asked record.LeaderEpoch, logEnd record.Offset) (end cluster.EpochEnd, ok bool) {
	if len(h) == 0 || asked < 0 || asked > h.Last() {
		return cluster.EpochEnd{Epoch: record.NoEpoch, End: -1}, false
	}
	next := sort.Search(len(h), func(i int) bool { return h[i].Epoch > asked })
	end = cluster.EpochEnd{Epoch: asked, End: logEnd}
	if next > 0 {
		end.Epoch = h[next-1].Epoch
	}
	if next < len(h) {
		end.End = h[next].Start
	}
	return end, true
}

// endAtMost is End for a log's owner that is told of an epoch it may not have reached: then everything it has lies at or below that epoch.
func (h EpochHistory) endAtMost(asked record.LeaderEpoch, logEnd record.Offset) record.Offset {
	if end, ok := h.End(asked, logEnd); ok {
		return end.End
	}
	return logEnd
}

// at returns the epoch of the record at offset, record.NoEpoch when the history does not cover it.
func (h EpochHistory) at(offset record.Offset) record.LeaderEpoch {
	next := sort.Search(len(h), func(i int) bool { return h[i].Start > offset })
	if next == 0 {
		return record.NoEpoch
	}
	return h[next-1].Epoch
}

// with returns the history extended by an epoch. An entry that the new one leaves without records is dropped. An epoch that is there
// already, or an older one, changes nothing.
func (h EpochHistory) with(e record.EpochStart) EpochHistory {
	if e.Epoch <= h.Last() {
		return h
	}
	kept := len(h)
	for kept > 0 && h[kept-1].Start >= e.Start {
		kept--
	}
	return append(slices.Clone(h[:kept]), e)
}

// cutEnd returns the history of a log cut to end: epochs that begin at or behind it go.
func (h EpochHistory) cutEnd(end record.Offset) EpochHistory {
	kept := sort.Search(len(h), func(i int) bool { return h[i].Start >= end })
	return h[:kept:kept]
}

// cutStart returns the history of a log that now begins at start: the epoch in force there begins there.
func (h EpochHistory) cutStart(start record.Offset) EpochHistory {
	next := sort.Search(len(h), func(i int) bool { return h[i].Start > start })
	if next == 0 || (next == 1 && h[0].Start == start) {
		return h
	}
	out := slices.Clone(h[next-1:])
	out[0].Start = start
	return out
}
