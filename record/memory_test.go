package record

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
)

// Case 104: whatever decompresses counts what it takes, waits while others hold it all, and gives everything back, in every codec, also when the batch is bad.
func TestCase104_DecompressionsShareTheirMemory(t *testing.T) {
	const limit, size = 1 << 20, 256 << 10
	for _, codec := range allCodecs[1:] {
		good := build(t, BuilderOptions{Codec: codec}, Record{Timestamp: 1, Value: make([]byte, size)})
		bad, err := Parse(wrap(bomb(t, codec, 1<<20), codec, 1))
		if err != nil {
			t.Fatal(err)
		}
		for name, work := range map[string]func(*Memory) error{
			"validate":        func(m *Memory) error { return good.Validate(Limits{MaxDecompressed: testLimit, Memory: m}) },
			"validate a bomb": func(m *Memory) error { return not(bad.Validate(Limits{MaxDecompressed: size, Memory: m}), ErrTooLarge) },
			"validate zeros": func(m *Memory) error {
				return not(bad.Validate(Limits{MaxDecompressed: testLimit, Memory: m}), ErrInvalid)
			},
			"recompress": func(m *Memory) error { _, err := good.Recompress(CodecNone, testLimit, m); return err },
			"visit": func(m *Memory) error {
				return good.Visit(testLimit, m, func(v *Visited) bool {
					if m.Held() < size {
						t.Errorf("%s: %d bytes are counted while a record of %d is looked at", codec, m.Held(), size)
					}
					return true
				})
			},
		} {
			t.Run(fmt.Sprint(codec, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := NewMemory(limit)
					var all charge
					all.begin(m)
					all.take(limit + 1) // the one that passes above the bound
					done := make(chan error, 1)
					go func() { done <- work(m) }()
					synctest.Wait()
					if len(done) > 0 {
						t.Errorf("it did not wait: %v", <-done)
						return
					}
					all.end()
					if err := <-done; err != nil || m.Held() != 0 {
						t.Errorf("%v, and %d bytes are still held", err, m.Held())
					}
				})
			})
		}
	}
}

// not says that an error is not the one that was wanted.
func not(err, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	return fmt.Errorf("error %v, want %v", err, want)
}

// Case 104: what is made of a decompressed batch counts until it is released.
func TestMemory_Hold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(100)
		release := m.Hold(60)
		second := make(chan func(), 1)
		go func() { second <- m.Hold(60) }()
		synctest.Wait()
		if len(second) > 0 {
			t.Errorf("120 of 100 bytes are held")
		}
		release()
		(<-second)()
		if m.Held() != 0 {
			t.Errorf("%d bytes are held", m.Held())
		}
	})
}

// Case 104: many at once, each of which would take the whole: the heap grows by what a few hold, not by what all would.
func TestCase104_ManyBombsAtOnce(t *testing.T) {
	const limit, size, workers = 16 << 20, 32 << 20, 40
	for _, codec := range []Codec{CodecGzip, CodecZstd} {
		b, err := Parse(wrap(bomb(t, codec, size), codec, 1))
		if err != nil {
			t.Fatal(err)
		}
		m := NewMemory(limit)
		var wg sync.WaitGroup
		peak := grows(func() {
			for range workers {
				wg.Go(func() {
					if err := b.Validate(Limits{MaxDecompressed: 2 * size, Memory: m}); !errors.Is(err, ErrInvalid) {
						t.Errorf("%s: error %v", codec, err)
					}
				})
			}
			wg.Wait()
		})
		if bound := int64(8 * size); peak > bound {
			t.Errorf("%s: the heap grew by %d MiB, want at most %d", codec, peak>>20, bound>>20)
		}
		if m.Held() != 0 {
			t.Errorf("%d bytes are still held", m.Held())
		}
	}
}
