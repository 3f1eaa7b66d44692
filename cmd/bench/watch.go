package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"
)

// flow counts what one direction has done. The totals only grow; what is measured is the difference of two moments.
type flow struct {
	records, bytes, errors atomic.Int64
	firstError             atomic.Pointer[error]

	mu        sync.Mutex // guards latencies
	latencies *hdrhistogram.Histogram
}

// Latencies are kept in microseconds, up to a minute, with three digits.
const maxLatency = 60_000_000

func newFlow() *flow { return &flow{latencies: hdrhistogram.New(1, maxLatency, 3)} }

func (f *flow) failed(err error) {
	f.errors.Add(1)
	f.firstError.CompareAndSwap(nil, &err)
}

func (f *flow) took(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.latencies.RecordValue(min(max(d.Microseconds(), 1), maxLatency)) // within its bounds
}

// moment is the state of everything that is measured at one time.
type moment struct {
	at                 time.Time
	produced, consumed [2]int64 // records, bytes
	self               usage
	brokers            []usage
}

// watch runs the load, and measures between two moments.
type watch struct {
	settings           *settings
	produced, consumed *flow
	measuring          atomic.Bool
	from, to           moment
}

func newWatch(s *settings) *watch {
	return &watch{settings: s, produced: newFlow(), consumed: newFlow()}
}

func (w *watch) now() moment {
	m := moment{
		at: time.Now(), self: selfUsage(),
		produced: [2]int64{w.produced.records.Load(), w.produced.bytes.Load()}, consumed: [2]int64{w.consumed.records.Load(), w.consumed.bytes.Load()},
	}
	for _, pid := range w.settings.BrokerPIDs {
		m.brokers = append(m.brokers, processUsage(pid))
	}
	return m
}

// run warms up, measures, and stops.
func (w *watch) run(ctx context.Context, doors []door, p parts, partitions int32, drain drainEnd) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := w.settings
	load, ctx := errgroup.WithContext(ctx)
	counted := s.Count > 0 || drain != nil
	if counted {
		w.start()
	}
	if p.produce {
		load.Go(func() error { return w.produceAll(ctx, doors, partitions) })
	}
	if p.consume {
		load.Go(func() error { return w.consumeAll(ctx, doors, partitions, drain, !p.produce && !s.Tail) })
	}
	if counted {
		err := load.Wait()
		w.to = w.now()
		return err
	}
	if !pause(ctx, s.warmup()) {
		return load.Wait()
	}
	w.start()
	pause(ctx, s.Duration)
	w.to = w.now()
	w.measuring.Store(false)
	stop()
	return load.Wait()
}

func (w *watch) start() {
	w.from = w.now()
	w.measuring.Store(true)
}

// pause waits and says whether the whole time has passed.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// progress draws a line a second on a person's screen until stop is called.
func (w *watch) progress(talk io.Writer) (stop func()) {
	f, ok := talk.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	var once sync.Once
	wg.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		var lastP, lastC int64
		for {
			select {
			case <-tick.C:
				p, c := w.produced.records.Load(), w.consumed.records.Load()
				fmt.Fprintf(talk, "\r\x1b[Kproduced %d records/s, consumed %d records/s, %d errors", p-lastP, c-lastC, w.produced.errors.Load()+w.consumed.errors.Load())
				lastP, lastC = p, c
			case <-done:
				fmt.Fprint(talk, "\r\x1b[K")
				return
			}
		}
	})
	return func() {
		once.Do(func() { close(done) })
		wg.Wait()
	}
}
