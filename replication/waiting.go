package replication

import (
	"sort"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// waiting is one admitted produce request.
type waiting struct {
	request   RequestID
	base, end record.Offset
	deadline  time.Duration
}

// waitQueue holds admitted requests in the order of their ends. Its memory is reused.
type waitQueue struct {
	items []waiting
	head  int
	// earliest is no later than the earliest deadline; it is exact after expire.
	earliest time.Duration
}

func (q *waitQueue) len() int { return len(q.items) - q.head }

// add inserts w. Nearly always it goes to the end; a duplicate that waits for an original may go before others.
func (q *waitQueue) add(w waiting) {
	if q.len() == 0 {
		q.items, q.head = q.items[:0], 0
		q.earliest = w.deadline
	}
	q.earliest = min(q.earliest, w.deadline)
	if q.head > 0 && len(q.items) == cap(q.items) {
		q.items = q.items[:copy(q.items, q.items[q.head:])]
		q.head = 0
	}
	q.items = append(q.items, w)
	last := len(q.items) - 1
	if last == q.head || q.items[last-1].end <= w.end {
		return
	}
	live := q.items[q.head:last]
	at := q.head + sort.Search(len(live), func(i int) bool { return live[i].end > w.end })
	copy(q.items[at+1:], q.items[at:last])
	q.items[at] = w
}

// complete moves everything that ends at or below end into the responses.
func (q *waitQueue) complete(end record.Offset, code cluster.Code, out []Response) []Response {
	for q.head < len(q.items) && q.items[q.head].end <= end {
		w := &q.items[q.head]
		out = append(out, Response{Request: w.request, Code: code, Base: w.base})
		q.head++
	}
	return out
}

// refuse answers what ends above end: it never reached the log.
func (q *waitQueue) refuse(end record.Offset, code cluster.Code, out []Response) []Response {
	last := len(q.items)
	for last > q.head && q.items[last-1].end > end {
		last--
		out = append(out, Response{Request: q.items[last].request, Code: code, Base: -1})
	}
	q.items = q.items[:last]
	return out
}

// fail answers everything.
func (q *waitQueue) fail(code cluster.Code, out []Response) []Response {
	for _, w := range q.items[q.head:] {
		out = append(out, Response{Request: w.request, Code: code, Base: w.base})
	}
	q.items, q.head = q.items[:0], 0
	return out
}

// expire answers what waits since before its deadline.
func (q *waitQueue) expire(now time.Duration, code cluster.Code, out []Response) []Response {
	if q.len() == 0 || now < q.earliest {
		return out
	}
	kept := q.items[:0]
	q.earliest = 1<<63 - 1
	for _, w := range q.items[q.head:] {
		if w.deadline <= now {
			out = append(out, Response{Request: w.request, Code: code, Base: w.base})
			continue
		}
		q.earliest = min(q.earliest, w.deadline)
		kept = append(kept, w)
	}
	q.items, q.head = kept, 0
	return out
}
