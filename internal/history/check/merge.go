package check

import (
	"container/heap"
	"errors"
	"fmt"
	"io"

	"github.com/moldau-log/moldau/internal/history"
)

// window is how many events of a file may be held to put them in the order of their times: recorders with several goroutines write almost in order.
const window = 1024

// errLate refuses a line that comes behind what was judged by then.
var errLate = fmt.Errorf("it is out of order: lines may be in the order of their times but for %d; sort the file by t, or give each client a file of its own", window)

// Source is one file of a history.
type Source struct {
	Name   string
	Reader *history.Reader
}

// NewSource reads a file by its name in errors.
func NewSource(name string, in io.Reader) Source { return Source{name, history.NewReader(name, in)} }

// Merge gives all events of some files to a checker, by time, as well as a window of lines in each file allows. Events of one client in one file stay in their order.
// It stops at the first error: a line that is none, one that comes too late, or an event that a recorder must not write, with its file and line.
func (c *Checker) Merge(sources []Source) error {
	m := &merge{checker: c}
	for i := range sources {
		m.files = append(m.files, mergeFile{Source: sources[i], last: map[string]int64{}})
	}
	for i := range m.files {
		for range window {
			if err := m.pull(i); err != nil {
				return err
			}
		}
	}
	for m.Len() > 0 {
		next := heap.Pop(m).(*queued)
		err := errLate
		if next.key >= m.judged {
			err = c.Add(&next.event)
		}
		m.judged = next.key
		if err != nil {
			return &history.LineError{File: m.files[next.file].Name, Line: next.line, Err: err}
		}
		m.free = append(m.free, next)
		if err := m.pull(next.file); err != nil {
			return err
		}
	}
	return nil
}

// merge is a heap of events that were read and not given to the checker yet.
type merge struct {
	checker *Checker
	files   []mergeFile
	waiting []*queued
	free    []*queued
	judged  int64 // key of the event before
}

type mergeFile struct {
	Source
	done bool
	// last is, for each client, the time of its last event: a later one is not put before it.
	last map[string]int64
}

type queued struct {
	event history.Event
	key   int64 // its time, or that of its client's event before if that is later
	file  int
	line  int
}

// pull reads the next event of a file into the heap.
func (m *merge) pull(file int) error {
	f := &m.files[file]
	if f.done {
		return nil
	}
	q := m.take()
	err := f.Reader.Next(&q.event)
	if errors.Is(err, io.EOF) {
		f.done = true
		m.free = append(m.free, q)
		if f.Reader.Torn() {
			m.checker.Torn(fmt.Sprintf("%s:%d", f.Name, f.Reader.Line()))
		}
		return nil
	}
	if err != nil {
		return err
	}
	q.key = max(q.event.Time, f.last[q.event.Client])
	f.last[q.event.Client] = q.key
	q.file, q.line = file, f.Reader.Line()
	heap.Push(m, q)
	return nil
}

func (m *merge) take() *queued {
	if n := len(m.free); n > 0 {
		q := m.free[n-1]
		m.free = m.free[:n-1]
		return q
	}
	return &queued{}
}

func (m *merge) Len() int { return len(m.waiting) }

func (m *merge) Less(i, j int) bool {
	a, b := m.waiting[i], m.waiting[j]
	if a.key != b.key {
		return a.key < b.key
	}
	if a.file != b.file {
		return a.file < b.file
	}
	return a.line < b.line
}

func (m *merge) Swap(i, j int) { m.waiting[i], m.waiting[j] = m.waiting[j], m.waiting[i] }

// Push and Pop are for container/heap.
func (m *merge) Push(x any) { m.waiting = append(m.waiting, x.(*queued)) }

// Pop takes the last.
func (m *merge) Pop() any {
	n := len(m.waiting) - 1
	q := m.waiting[n]
	m.waiting = m.waiting[:n]
	return q
}
