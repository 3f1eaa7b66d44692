package budget

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestTake_WaitsUntilBytesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		if err := b.Take(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- b.Take(t.Context(), 50) }()
		synctest.Wait()
		if len(got) != 0 {
			t.Fatal("110 of 100 bytes are held")
		}
		b.Give(5)
		synctest.Wait()
		if len(got) != 0 {
			t.Fatal("105 of 100 bytes are held")
		}
		b.Give(5)
		if err := <-got; err != nil || b.Held() != 100 {
			t.Errorf("%v, %d held", err, b.Held())
		}
	})
}

func TestTake_EndsWithItsContextAndTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		_ = b.Take(t.Context(), 100)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() { got <- b.Take(ctx, 1) }()
		synctest.Wait()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) || b.Held() != 100 {
			t.Errorf("%v, %d held", err, b.Held())
		}
	})
}

func TestTake_WhatIsLargerThanAllPassesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		_ = b.Take(t.Context(), 1)
		got := make(chan error, 1)
		go func() { got <- b.Take(t.Context(), 1000) }()
		synctest.Wait()
		if len(got) != 0 {
			t.Fatal("it has passed beside another")
		}
		b.Give(1)
		if err := <-got; err != nil || b.Held() != 1000 {
			t.Errorf("%v, %d held", err, b.Held())
		}
		b.Give(1000)
		if err := b.Empty(t.Context()); err != nil || b.Held() != 0 {
			t.Errorf("%v, %d held", err, b.Held())
		}
	})
}

// Two that hold half each and need more do not wait for each other: one passes, and the other when that is settled.
func TestGrowth_OneAtATimePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		one, two := b.Growth(), b.Growth()
		for _, g := range []*Growth{&one, &two} {
			if err := g.Take(t.Context(), 50); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // as often as it needs
			if err := one.Take(t.Context(), 50); err != nil {
				t.Fatal(err)
			}
		}
		got := make(chan error, 1)
		go func() { got <- two.Take(t.Context(), 50) }()
		synctest.Wait()
		if len(got) != 0 {
			t.Fatal("two are above the limit")
		}
		one.Settle()
		if err := <-got; err != nil || b.Held() != 250 {
			t.Errorf("%v, %d held", err, b.Held())
		}
		two.Settle()
		three := b.Growth()
		b.Give(200)
		if err := three.Take(t.Context(), 50); err != nil || three.over {
			t.Errorf("what fits passes above: %v", err)
		}
	})
}

func TestBudget_ManyNeverHoldMore(t *testing.T) {
	b := New(10)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for range 1000 {
				if err := b.Take(t.Context(), n+1); err != nil {
					t.Error(err)
				}
				if held := b.Held(); held > 10 {
					t.Errorf("%d held", held)
				}
				b.Give(n + 1)
			}
		})
	}
	wg.Wait()
	if b.Held() != 0 {
		t.Errorf("%d held at the end", b.Held())
	}
}

func TestTry_DoesNotWait(t *testing.T) {
	b := New(10)
	if !b.Try(20) || b.Try(1) {
		t.Error("what is larger than all does not pass alone")
	}
	b.Give(20)
	if !b.Try(4) || b.Try(7) || !b.Try(6) || b.Held() != 10 {
		t.Errorf("%d held", b.Held())
	}
}

// Who waits gets room in the order of coming: a large one is not passed over by small ones for ever. Who leaves makes room for those behind.
func TestTake_InTheOrderOfComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		_ = b.Take(t.Context(), 60)
		var order []int
		ctx, cancel := context.WithCancel(t.Context())
		for i, n := range []int{80, 30, 30} {
			go func() {
				if b.Take(ctx, n) == nil && n == 80 {
					order = append(order, i)
				}
			}()
			synctest.Wait()
		}
		if b.Held() != 60 {
			t.Fatalf("%d held", b.Held())
		}
		b.Give(60)
		synctest.Wait()
		if b.Held() != 80 || len(order) != 1 {
			t.Errorf("%d held", b.Held())
		}
		cancel()
		synctest.Wait()
		b.Give(80)
		if b.Held() != 0 || b.wanted != 0 || len(b.takers) != 0 {
			t.Errorf("%d held, %d wanted", b.Held(), b.wanted)
		}
	})
}
