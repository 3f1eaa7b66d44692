package segment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// Readers on views of any age, and flushes on another goroutine, while the owner appends, truncates and deletes. What a reader gets is
// whole valid batches of one generation of the log, or a clean error. Run with -race.
func TestReadersAndFlushesBesideTheOwner(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"mem": newTestFS(t), "os": vfs.OS{}} {
		t.Run(name, func(t *testing.T) {
			dir := testDir
			if name == "os" {
				dir = t.TempDir() + "/p"
			}
			l, _, err := Open(fs, dir, testID, testConfig())
			check(t, err)
			stop := make(chan struct{})
			var readers sync.WaitGroup
			failures := make(chan error, 4)
			for i := range 3 {
				readers.Add(1)
				go func() {
					defer readers.Done()
					if err := readUntil(l, stop, rand.New(rand.NewPCG(uint64(i), 9))); err != nil {
						failures <- err
					}
				}()
			}
			steps := map[string]int{"mem": 600, "os": 150}[name]
			own(t, l, rand.New(rand.NewPCG(1, 1)), steps)
			close(stop)
			readers.Wait()
			select {
			case err := <-failures:
				t.Fatal(err)
			default:
			}
			check(t, l.Close())
		})
	}
}

// own plays the owner, with one flush in flight at a time.
func own(t *testing.T, l *Log, rng *rand.Rand, steps int) {
	t.Helper()
	type result struct {
		flush Flush
		err   error
	}
	done := make(chan result, 1)
	flushing := false
	epoch := record.LeaderEpoch(0)
	for range steps {
		switch n := rng.IntN(100); {
		case n < 70:
			add(t, l, 1+rng.IntN(3), 1+rng.IntN(3), rng.IntN(300), epoch)
		case n < 80 && !flushing:
			f := l.BeginFlush()
			flushing = true
			go func() { err := f.Sync(); done <- result{f, err} }()
		case n < 84:
			epoch++
			check(t, l.TruncateTo(l.End()-record.Offset(rng.Int64N(int64(l.End()-l.Start())+1))))
		case n < 88:
			check(t, l.MoveStart(l.Start()+record.Offset(rng.Int64N(int64(l.End()-l.Start())+1))/2))
		}
		select {
		case r := <-done:
			flushing = false
			check(t, l.EndFlush(r.flush, r.err))
		default:
		}
	}
	if flushing {
		r := <-done
		check(t, l.EndFlush(r.flush, r.err))
	}
	check(t, l.Flush())
	if l.Flushed() != l.End() {
		t.Fatalf("flushed %d of %d", l.Flushed(), l.End())
	}
}

func readUntil(l *Log, stop <-chan struct{}, rng *rand.Rand) error {
	v := l.View()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if rng.IntN(4) == 0 {
			v = l.View()
		}
		if v.Start() == v.End() {
			continue
		}
		at := v.Start() + record.Offset(rng.Int64N(int64(v.End()-v.Start())))
		if rng.IntN(20) == 0 {
			if _, _, _, err := v.OffsetForTimestamp(context.Background(), 1000+int64(at), v.End(), nil); err != nil && !errors.Is(err, ErrStaleView) {
				return err
			}
			continue
		}
		if err := readOnce(v, at, rng.IntN(5000)); err != nil && !errors.Is(err, ErrStaleView) {
			return fmt.Errorf("offset %d of [%d, %d): %w", at, v.Start(), v.End(), err)
		}
	}
}

func readOnce(v *View, at record.Offset, max int) error {
	s, err := v.Read(at, max, v.End())
	if err != nil {
		return err
	}
	defer s.Release()
	b, err := s.AppendTo(nil)
	if err != nil {
		return err
	}
	next := record.Offset(-1)
	return record.Split(b, func(b record.Batch) error {
		if next >= 0 && b.BaseOffset() != next || next < 0 && (b.BaseOffset() > at || b.NextOffset() <= at) {
			return fmt.Errorf("batch begins at %d", b.BaseOffset())
		}
		next = b.NextOffset()
		return b.VerifyCRC()
	})
}
