package budget

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pace has a holder move n bytes a second, in steps, until it stops.
func pace(h *Holder, n int, stop <-chan struct{}) {
	for {
		select {
		case <-time.After(100 * time.Millisecond):
			h.Moved(n / 10)
		case <-stop:
			return
		}
	}
}

// Who finds no room waits a while, and then those give way who stand still, or need too long for what is left; who moves on, however slowly, comes to its end.
func TestHolder_TheSlowGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(500)
		var ended []string
		hold := func(name string, left, perSecond int, stop <-chan struct{}) *Holder {
			if err := b.Take(t.Context(), 100); err != nil {
				t.Fatal(err)
			}
			h := b.Holder(func() { ended = append(ended, name); b.Give(100) })
			h.Waits(100, left)
			go pace(h, perSecond, stop)
			return h
		}
		stop, early := make(chan struct{}), make(chan struct{})
		still := hold("still", 1000, 0, stop)
		steady := hold("steady", 1000, 50, stop)
		much := hold("much", 10_000, 50, stop)
		stopped := hold("stopped", 10_000, 1000, early)
		quick := hold("quick", 100_000, 10_000, stop)
		time.Sleep(6 * time.Second)
		close(early)
		start := time.Now()
		if err := b.Take(t.Context(), 300); err != nil {
			t.Fatal(err)
		}
		slices.Sort(ended)
		if took := time.Since(start); took > patience+2*grace || !slices.Equal(ended, []string{"much", "still", "stopped"}) {
			t.Errorf("after %v %v have given way", took, ended)
		}
		if still.Goes() || much.Goes() || stopped.Goes() || !steady.Goes() || !quick.Goes() {
			t.Error("a holder does not know what has become of it")
		}
		close(stop)
	})
}

// Many who are slow, of whom few fit at once, take turns: nobody is made to begin again, which would keep all of them from ever coming to an end.
func TestHolder_SlowAndSteadyOnesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each, perSecond, atOnce, all = 1000, 100, 4, 10
		b := New(atOnce * each)
		start := time.Now()
		var wg sync.WaitGroup
		for range all {
			wg.Go(func() {
				if err := b.Take(t.Context(), each); err != nil {
					t.Error(err)
					return
				}
				defer b.Give(each)
				h := b.Holder(func() { t.Error("it was ended") })
				h.Waits(each, each)
				defer h.Goes()
				for range each / perSecond {
					time.Sleep(time.Second)
					h.Moved(perSecond)
				}
			})
		}
		wg.Wait()
		if took, want := time.Since(start), (all+atOnce-1)/atOnce*each/perSecond*time.Second; took != want {
			t.Errorf("all of them took %v, want %v", took, want)
		}
	})
}

// Who waits for much is not forgotten over others who come and go with little, and find room for that.
func TestHolder_TheSlowGiveWayBesideTheQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		_ = b.Take(t.Context(), 90)
		h := b.Holder(func() { b.Give(90) })
		h.Waits(90, 90)
		time.Sleep(grace)
		stop := make(chan struct{})
		var quick sync.WaitGroup
		quick.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(patience / 10):
					if b.Try(10) {
						b.Give(10)
					}
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

// While there is room, and while nobody has stood still for long, nobody gives way.
func TestHolder_NobodyGivesWayWithoutNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		_ = b.Take(t.Context(), 100)
		h := b.Holder(func() { t.Error("it was ended") })
		h.Waits(50, 50)
		time.Sleep(time.Hour)
		if !h.Goes() {
			t.Error("it was ended, with nobody there")
		}
		fresh := b.Holder(func() { t.Error("it was ended early") })
		fresh.Waits(50, 50)
		done := make(chan error, 1)
		go func() { done <- b.Take(t.Context(), 10) }()
		time.Sleep(patience + time.Second)
		b.Give(50)
		if err := <-done; err != nil || !fresh.Goes() {
			t.Errorf("%v", err)
		}
	})
}

// The time in which a holder waits for something else than its client does not count.
func TestHolder_OnlyTheClientsTimeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		_ = b.Take(t.Context(), 100)
		h := b.Holder(func() { t.Error("it was ended") })
		go func() { _ = b.Take(t.Context(), 10); b.Give(10) }()
		for range 10 {
			h.Waits(100, 1000)
			time.Sleep(grace / 10)
			h.Moved(50)
			if !h.Goes() {
				return
			}
			time.Sleep(tooLong)
		}
		b.Give(100)
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

// Small ones come and go while thousands hold, and thousands wait.
func BenchmarkForce_BesideManyWhoWait(bench *testing.B) {
	b := New(4000)
	for range 4000 {
		b.Force(1)
		b.Holder(func() {}).Waits(1, 1)
	}
	var wg sync.WaitGroup
	for range 4000 {
		wg.Go(func() {
			if b.Take(bench.Context(), 1) == nil {
				b.Give(1)
			}
		})
	}
	for bench.Loop() {
		b.Force(1)
		b.Give(1)
	}
	b.Give(4000)
	wg.Wait()
}
