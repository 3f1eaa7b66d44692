package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine bounds a line, in bytes. A recorder that has more to say of one operation (a replica's log) writes several events.
const MaxLine = 4 << 20

// LineError is a line that cannot be used.
type LineError struct {
	File string
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("history: %s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap is the reason.
func (e *LineError) Unwrap() error { return e.Err }

// ErrLineTooLong is a line above MaxLine.
var ErrLineTooLong = errors.New("line is too long")

// Reader reads the events of one file, a line at a time.
type Reader struct {
	name    string
	in      *bufio.Reader
	long    []byte
	line    int
	torn    bool
	decoder decoder
}

// NewReader reads from in; name stands in errors.
func NewReader(name string, in io.Reader) *Reader {
	return &Reader{name: name, in: bufio.NewReaderSize(in, 1<<16)}
}

// Next reads the next event; e.Records are overwritten, all else is the caller's. The error is io.EOF at the end and a *LineError for a line that is no
// event. A last line that its writer could not finish, because it was killed, is not an error: see Torn. Empty lines are skipped, also between CR and LF.
func (r *Reader) Next(e *Event) error {
	for {
		text, whole, err := r.read()
		if err != nil {
			return err
		}
		if len(text) == 0 || string(text) == "\r" {
			if !whole {
				return io.EOF
			}
			continue
		}
		if err := plausible(text); err != nil {
			return r.error(err)
		}
		if err := r.decoder.decode(text, e); err == nil {
			return nil
		} else if whole {
			return r.error(err)
		}
		r.torn = true
		return io.EOF
	}
}

// Lines that cannot be the beginning of an event, finished or not: the file is another.
var (
	errNotJSON = errors.New("not a JSON object: it does not begin with '{'")
	errBOM     = errors.New("it begins with a byte order mark: a history is UTF-8 without one")
)

func plausible(line []byte) error {
	if bytes.HasPrefix(line, []byte("\xef\xbb\xbf")) {
		return errBOM
	}
	if text := bytes.TrimLeft(line, " \t\r"); len(text) > 0 && text[0] != '{' {
		return errNotJSON
	}
	return nil
}

// Line is the number of the last line read, from 1.
func (r *Reader) Line() int { return r.line }

// Torn says, after io.EOF, that the last line is incomplete and was left out.
func (r *Reader) Torn() bool { return r.torn }

// read returns a line without its newline, and whether it had one.
func (r *Reader) read() (text []byte, whole bool, err error) {
	r.line++
	text, err = r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.long = append(r.long[:0], text...)
		for errors.Is(err, bufio.ErrBufferFull) && len(r.long) <= MaxLine {
			text, err = r.in.ReadSlice('\n')
			r.long = append(r.long, text...)
		}
		text = r.long
		if len(text) > MaxLine {
			return nil, false, r.error(ErrLineTooLong)
		}
	}
	switch {
	case err == nil:
		return text[:len(text)-1], true, nil
	case errors.Is(err, io.EOF):
		return text, false, nil
	default:
		return nil, false, r.error(err)
	}
}

func (r *Reader) error(err error) error { return &LineError{File: r.name, Line: r.line, Err: err} }
