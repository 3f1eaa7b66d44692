package budget

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Who finds no room waits a while, and then those give way who have waited longest for their clients, and no more of them than it takes.
func TestHolder_TheSlowestGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		var ended []string
		hold := func(name string, n int) *Holder {
			if err := b.Take(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			h := b.Holder(func() { ended = append(ended, name); b.Give(n) })
			h.Waits(n)
			return h
		}
		first := hold("first", 30)
		time.Sleep(time.Second)
		second := hold("second", 30)
		time.Sleep(time.Second)
		third := hold("third", 30)
		if !second.Goes() { // its client is quick for once, and it waits for something else
			t.Error("second has been ended")
		}
		time.Sleep(grace)
		second.Waits(30)
		start := time.Now()
		if err := b.Take(t.Context(), 50); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != patience || !slices.Equal(ended, []string{"first", "third"}) {
			t.Errorf("after %v %v have given way", took, ended)
		}
		if first.Goes() || third.Goes() || !second.Goes() {
			t.Error("a holder does not know what has become of it")
		}
	})
}

// Who waits for much is not forgotten over others who come and go with little, and find room for that: those who are slow give way as soon as without them.
func TestHolder_TheSlowGiveWayBesideTheQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		_ = b.Take(t.Context(), 90)
		h := b.Holder(func() { b.Give(90) })
		h.Waits(90)
		time.Sleep(grace)
		stop := make(chan struct{})
		var quick sync.WaitGroup
		quick.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(patience / 10):
					_ = b.Take(t.Context(), 10)
					b.Give(10)
				}
			}
		})
		start := time.Now()
		if err := b.Take(t.Context(), 50); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != patience {
			t.Errorf("room after %v, want %v", took, patience)
		}
		close(stop)
		quick.Wait()
	})
}

// While there is room, and while nobody has been slow for long, nobody gives way.
func TestHolder_NobodyGivesWayWithoutNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		_ = b.Take(t.Context(), 100)
		h := b.Holder(func() { t.Error("it was ended") })
		h.Waits(50)
		time.Sleep(time.Hour)
		if !h.Goes() {
			t.Error("it was ended, with nobody there")
		}
		fresh := b.Holder(func() { t.Error("it was ended early") })
		fresh.Waits(50)
		done := make(chan error, 1)
		go func() { done <- b.Take(t.Context(), 10) }()
		time.Sleep(patience + time.Second)
		b.Give(50)
		if err := <-done; err != nil || !fresh.Goes() {
			t.Errorf("%v", err)
		}
	})
}

func TestForce_PassesAboveTheLimit(t *testing.T) {
	b := New(10)
	b.Force(15)
	if b.Held() != 15 {
		t.Errorf("%d held", b.Held())
	}
	b.Give(15)
}
