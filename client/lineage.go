package client

import moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"

// maxLineage bounds how many leader epochs a consumer remembers of one partition: the newest.
const maxLineage = 64

// epochStart is where, of what was fetched, a leader epoch begins.
type epochStart struct {
	epoch int32
	start int64
}

// lineage is the leader epochs of what was fetched since the last seek, oldest first. It is empty at a position that was not fetched up to, such as a
// committed offset.
type lineage []epochStart

// with adds an epoch that begins at start. One that is there already changes nothing.
func (l lineage) with(epoch int32, start int64) lineage {
	if n := len(l); n > 0 && l[n-1].epoch >= epoch {
		return l
	}
	if len(l) == maxLineage {
		l = l[1:]
	}
	return append(l[:len(l):len(l)], epochStart{epoch, start})
}

// parts says where what was fetched, up to at, parts from the log of a leader in which the newest epoch that is not above the last fetched one is d, and ends there.
// Records of later epochs are not in that log, wherever it ends. last is the epoch of the last record before, -1 when it is not known: with it the leader is asked
// again, since the logs may part even earlier.
func (l lineage) parts(d *moldauv1.EpochEnd, at int64) (to int64, last int32) {
	to = min(at, d.GetEndOffset())
	for _, e := range l {
		if e.epoch > d.GetLeaderEpoch() {
			to = min(to, e.start)
		}
	}
	last = -1
	for _, e := range l.before(to) {
		last = e.epoch
	}
	return to, last
}

// before is the part of the lineage that lies below an offset.
func (l lineage) before(offset int64) lineage {
	for i, e := range l {
		if e.start >= offset {
			return l[:i:i]
		}
	}
	return l
}
