package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// maxPending bounds what a Writer holds that is not written yet, in bytes. Write waits at the bound: a history with holes would be worthless.
const maxPending = 1 << 20

// ErrClosed is a Write after Close.
var ErrClosed = errors.New("history: writer is closed")

// Writer appends events to a file. What is pending goes out at once, in as few writes as the file's speed asks for, so that a recorder that is killed
// loses at most what the kernel had not taken yet. The first error stays: every later call returns it.
type Writer struct {
	out io.WriteCloser

	mu      sync.Mutex // guards what follows; never held while out is written
	changed sync.Cond
	pending []byte
	spare   []byte // the buffer that is not pending
	writing bool
	closed  bool
	err     error
	done    chan struct{}
}

// Create opens a file for appending, and creates it if it is not there. The torn last line of an earlier writer is cut off, so that no line is glued to it.
func Create(path string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	if err := cutTorn(f); err != nil {
		return nil, errors.Join(fmt.Errorf("history: cut a torn line: %w", err), f.Close())
	}
	return NewWriter(f), nil
}

// cutTorn truncates a file to the end of its last whole line.
func cutTorn(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	tail := make([]byte, min(info.Size(), MaxLine))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil {
		return err
	}
	torn := len(tail) - 1 - bytes.LastIndexByte(tail, '\n')
	if torn == MaxLine {
		return ErrLineTooLong
	}
	if torn == 0 {
		return nil
	}
	return f.Truncate(info.Size() - int64(torn))
}

// NewWriter writes to out, which Close closes.
func NewWriter(out io.WriteCloser) *Writer {
	w := &Writer{out: out, done: make(chan struct{})}
	w.changed.L = &w.mu
	go w.run()
	return w
}

// Write appends one event; e may be used again at once. It may be called by many goroutines. Write the invoke before the operation begins: a completion
// whose invoke comes later in the file is refused by the checks. A recorder that may itself be killed calls Flush in between, or what it sent and could not
// note will be reported as a phantom.
func (w *Writer) Write(e *Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending) >= maxPending && w.err == nil && !w.closed {
		w.changed.Wait()
	}
	if w.err != nil {
		return w.err
	}
	if w.closed {
		return ErrClosed
	}
	w.pending = e.AppendJSON(w.pending)
	w.changed.Broadcast()
	return nil
}

// Flush waits until everything that was written before is with the operating system.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for (w.writing || len(w.pending) > 0) && w.err == nil {
		w.changed.Wait()
	}
	return w.err
}

// Close writes what is pending and closes the file. It returns the first error of the writer's life.
func (w *Writer) Close() error {
	w.mu.Lock()
	already := w.closed
	w.closed = true
	w.changed.Broadcast()
	w.mu.Unlock()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	if already {
		return w.err
	}
	if err := w.out.Close(); err != nil && w.err == nil {
		w.err = fmt.Errorf("history: close: %w", err)
	}
	return w.err
}

// run writes what is pending until the writer is closed.
func (w *Writer) run() {
	defer close(w.done)
	for {
		batch, ok := w.take()
		if !ok {
			return
		}
		_, err := w.out.Write(batch)
		w.wrote(batch, err)
	}
}

// take waits for something to write; ok is false when there will be no more.
func (w *Writer) take() (batch []byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending) == 0 && !w.closed {
		w.changed.Wait()
	}
	if len(w.pending) == 0 || w.err != nil {
		return nil, false
	}
	batch, w.pending, w.spare, w.writing = w.pending, w.spare[:0], nil, true
	return batch, true
}

func (w *Writer) wrote(batch []byte, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing, w.spare = false, batch
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("history: write: %w", err)
	}
	w.changed.Broadcast()
}
