package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// chunkBytes is how much of standard input is read at once, and the least room that a read is given is a quarter of it.
const chunkBytes = 64 << 10

// piece is what one read of standard input completed.
type piece struct {
	lines   [][]byte // without their ends; nobody writes to them any more
	tooLong []int64  // lengths of lines above the bound, which are not kept
}

// lineReader cuts a stream into lines. It looks at each byte once and copies an unfinished line only when its buffer is full, which doubles: the
// work is linear in the input however long a line is, and a line above the bound is counted and not kept.
type lineReader struct {
	in    io.Reader
	bound int // of a line in bytes

	buf     []byte
	start   int   // of the unfinished line in buf
	skipped int64 // bytes of an unfinished line above the bound that are gone from buf; 0: none
}

// next reads once. With io.EOF, or any other error, comes what is there; a last line without end counts.
func (r *lineReader) next() (piece, error) {
	r.makeRoom()
	seen := len(r.buf)
	n, err := r.in.Read(r.buf[seen:cap(r.buf)])
	r.buf = r.buf[:seen+n]
	var p piece
	for {
		i := bytes.IndexByte(r.buf[seen:], '\n')
		if i < 0 {
			break
		}
		r.end(&p, seen+i)
		seen += i + 1
		r.start = seen
	}
	if len(r.buf)-r.start > r.bound || r.skipped > 0 {
		r.skipped += int64(len(r.buf) - r.start)
		r.buf = r.buf[:r.start]
	}
	if err != nil && (len(r.buf) > r.start || r.skipped > 0) {
		r.end(&p, len(r.buf))
		r.start = len(r.buf)
	}
	return p, err
}

// end completes the line that ends before buf[i].
func (r *lineReader) end(p *piece, i int) {
	if n := r.skipped + int64(i-r.start); n > int64(r.bound) {
		p.tooLong = append(p.tooLong, n)
	} else {
		p.lines = append(p.lines, r.buf[r.start:i:i])
	}
	r.skipped = 0
}

// makeRoom gives the next read a new buffer where the old one, whose lines are in use elsewhere, is nearly full. The unfinished line moves along.
func (r *lineReader) makeRoom() {
	if cap(r.buf)-len(r.buf) >= chunkBytes/4 {
		return
	}
	rest := r.buf[r.start:]
	r.buf = append(make([]byte, 0, chunkBytes+2*len(rest)), rest...)
	r.start = 0
}

// readLines sends the lines of each read together, so that a person at a terminal sees every line go at once and a file goes in large pieces.
func readLines(ctx context.Context, in io.Reader, bound int, out chan<- piece) error {
	r := &lineReader{in: in, bound: bound}
	for {
		p, err := r.next()
		if len(p.lines)+len(p.tooLong) > 0 {
			select {
			case out <- p:
			case <-ctx.Done():
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read standard input: %w", err)
		}
	}
}
