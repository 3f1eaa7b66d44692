package partition

import "sync"

// pool runs flushes on a bounded number of goroutines. At most one flush per partition is under way, so the queue is bounded by the number of
// partitions.
type pool struct {
	wake    chan struct{} // capacity: the number of workers
	stop    chan struct{}
	workers sync.WaitGroup

	mu    sync.Mutex // guards the rest
	queue []flushTask
	head  int
}

type flushTask struct {
	runner *Runner
	job    *FlushJob
}

// newPool starts the workers.
func newPool(workers int) *pool {
	p := &pool{wake: make(chan struct{}, workers), stop: make(chan struct{})}
	for range workers {
		p.workers.Go(p.work)
	}
	return p
}

// submit queues a flush. It never blocks.
func (p *pool) submit(r *Runner, j *FlushJob) {
	p.mu.Lock()
	p.queue = append(p.queue, flushTask{r, j})
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // as many workers as there are will look at the queue again
	}
}

// take removes the oldest task.
func (p *pool) take() (flushTask, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.head == len(p.queue) {
		p.queue, p.head = p.queue[:0], 0
		return flushTask{}, false
	}
	t := p.queue[p.head]
	p.queue[p.head] = flushTask{}
	p.head++
	return t, true
}

// work flushes until the pool is closed and the queue is empty.
func (p *pool) work() {
	for {
		if t, ok := p.take(); ok {
			t.job.err = t.job.Sync()
			t.runner.put(message{kind: kindFlushed, other: t.job}, 0)
			continue
		}
		select {
		case <-p.wake:
		case <-p.stop:
			if t, ok := p.take(); ok {
				t.runner.put(message{kind: kindFlushed, other: t.job}, 0)
				continue
			}
			return
		}
	}
}

// close ends the workers, when no flush is under way any more.
func (p *pool) close() {
	close(p.stop)
	p.workers.Wait()
}
