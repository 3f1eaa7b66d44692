package partition

import "sync"

// pool runs flushes on a bounded number of goroutines. At most one flush per partition is under way, so the queue is bounded by the number of
// partitions.
type pool struct {
	mu     sync.Mutex // guards the rest
	queue  []flushTask
	idle   int // workers to spare
	active sync.WaitGroup
}

type flushTask struct {
	runner *Runner
	job    *FlushJob
}

func newPool(workers int) *pool { return &pool{idle: workers} }

// submit queues a flush. It never blocks: a worker begins when one is to spare, and ends when there is nothing to do.
func (p *pool) submit(r *Runner, j *FlushJob) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, flushTask{r, j})
	if p.idle > 0 {
		p.idle--
		p.active.Go(p.work)
	}
}

// work flushes until the queue is empty.
func (p *pool) work() {
	for {
		p.mu.Lock()
		if len(p.queue) == 0 {
			p.idle++
			p.mu.Unlock()
			return
		}
		t := p.queue[0]
		p.queue[0] = flushTask{}
		p.queue = p.queue[1:]
		p.mu.Unlock()
		err := t.job.Sync()
		t.runner.put(message{kind: kindFlushed, other: &flushEnd{job: t.job, err: err}}, 0)
	}
}

// wait returns when no flush is under way.
func (p *pool) wait() { p.active.Wait() }
