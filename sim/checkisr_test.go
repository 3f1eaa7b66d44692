package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// TestWhoCountsAsCompleteIsComplete gives a follower that is in sync less than what is committed. That is forgiven where DESIGN.md says so, and nowhere else.
func TestWhoCountsAsCompleteIsComplete(t *testing.T) {
	spoil := func(untold bool) func(*World, *replica) {
		return func(w *World, r *replica) { w.spoilt = &spoiled{b: r.b, untold: untold} }
	}
	for _, c := range []struct {
		name  string
		do    func(*World, *replica)
		wrong bool
	}{
		{"up", func(*World, *replica) {}, true},
		{"down", func(_ *World, r *replica) { r.b.crash() }, true},
		{"spoilt, and the metadata has heard from it", spoil(false), true},
		{"spoilt, and the metadata has not heard from this life", func(w *World, r *replica) {
			spoil(false)(w, r)
			r.b.life++
		}, false},
		{"spoilt and down", func(w *World, r *replica) {
			spoil(false)(w, r)
			r.b.crash()
		}, false},
		{"spoilt, and nothing on the disk tells", spoil(true), false},
		{"taken by lost-copies", func(w *World, r *replica) {
			w.bereft = &bereft{tp: r.tp, taken: []cluster.BrokerID{r.b.id}}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, tp, p := calmWorld(t)
			image := w.meta.state.Image()
			if w.check.strongISR(tp, image, p); w.check.failed() {
				t.Fatal(w.check.violation)
			}
			r := w.brokers[p.ISR[len(p.ISR)-1]].replica(tp)
			r.at.Flushed = record.Offset(len(w.check.ledgers[tp].slots)) - 1
			c.do(w, r)
			w.check.strongISR(tp, image, p)
			if got := strings.HasPrefix(w.check.violation, "StrongISR"); got != c.wrong {
				t.Errorf("wrong is %t, want %t: %s", got, c.wrong, w.check.violation)
			}
		})
	}
}

// TestACopyOfAFullDisk is of what the disk holds, not of how much room it has.
func TestACopyOfAFullDisk(t *testing.T) {
	d := newDisk(NoPlant)
	d.mem.SetCapacity(1)
	if err := d.contents().MkdirAll(dataRoot); err != nil {
		t.Error(err)
	}
	d.keepCopy(1)
	d.mem.SetCapacity(0)
	free, _, err := d.mem.DiskFree(dataRoot)
	if got, _, _ := d.copy.DiskFree(dataRoot); err != nil || got != free {
		t.Errorf("the copy has room for %d bytes, not %d: %v", got, free, err)
	}
}

// TestNothingIsMadeAnewOnASpoiltDisk: a topic that was deleted comes back when the metadata has heard from the broker whose disk was spoilt.
func TestNothingIsMadeAnewOnASpoiltDisk(t *testing.T) {
	w := newWorld(Options{Seed: 1, Partitions: 1, Without: Names()})
	w.setUp()
	w.faults = true
	before := w.meta.state.Image().TopicCount()
	made := func() bool { return w.meta.state.Image().TopicCount() > before }
	w.spoilt = &spoiled{b: w.brokers[0]}
	w.createAnew("anew")
	if w.runUntil(w.now+2*time.Second, made); made() {
		t.Error("made while nobody knows what the disk has lost")
	}
	w.spoilt.back = true
	if w.runUntil(w.now+5*time.Second, made); !made() {
		t.Error("not made when the broker is back")
	}
}
