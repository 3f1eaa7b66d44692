package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// sender turns lines into records and counts their outcome.
type sender struct {
	a         *app
	client    *client.Client
	template  client.Record
	key       []byte
	delimiter []byte
	limit     int // of a record in bytes
	verbose   bool

	mu     sync.Mutex // guards what follows, and out
	out    *bufio.Writer
	read   int64
	acked  int64
	failed int64 // are not in the log
	bytes  int64 // of acknowledged keys and values
	first  error // why the first failed record failed
	unsure error // why the first record was given up that may be in the log
}

func newSender(a *app, c *client.Client, template client.Record, f produceFlags) *sender {
	s := &sender{a: a, client: c, template: template, delimiter: []byte(f.delimiter), limit: f.limit, verbose: f.verbose, out: bufio.NewWriter(a.out)}
	if f.key != "" {
		s.key = []byte(f.key)
	}
	return s
}

// sendLines produces until standard input or ctx ends.
func (s *sender) sendLines(ctx context.Context) error {
	pieces := make(chan piece, 4)
	readErr := make(chan error, 1)
	go func() { // ends with the input; a read that blocks for ever ends with the process
		readErr <- readLines(ctx, s.a.in, s.limit+len(s.delimiter), pieces)
		close(pieces)
	}()
	for {
		select {
		case p, more := <-pieces:
			if !more {
				return <-readErr
			}
			s.refuse(p.tooLong)
			s.send(ctx, p.lines)
		case <-ctx.Done():
			return nil
		}
	}
}

// refuse counts lines that are longer than a record may be.
func (s *sender) refuse(lengths []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range lengths {
		s.read++
		s.failed++
		s.first = cmp.Or(s.first, fmt.Errorf("%w: a line of %d bytes, limit %d", client.ErrRecordTooLarge, n, s.limit))
	}
}

// send produces lines. The records of one chunk share one allocation and one timestamp.
func (s *sender) send(ctx context.Context, lines [][]byte) {
	s.mu.Lock()
	s.read += int64(len(lines))
	s.mu.Unlock()
	records := make([]client.Record, len(lines))
	now := time.Now()
	for i, line := range lines {
		r := &records[i]
		*r = s.template
		r.Timestamp, r.Key, r.Value = now, s.key, line
		if len(s.delimiter) > 0 {
			if key, value, ok := bytes.Cut(line, s.delimiter); ok {
				r.Key, r.Value = key, value
			}
		}
		s.client.Produce(ctx, r, s.done)
	}
}

// done counts one record's outcome; it is the promise of every record.
func (s *sender) done(r *client.Record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, client.ErrMayBeStored):
		s.unsure = cmp.Or(s.unsure, err)
		return
	case err != nil:
		s.failed++
		s.first = cmp.Or(s.first, err)
		return
	}
	s.acked++
	s.bytes += int64(len(r.Key) + len(r.Value))
	if s.verbose {
		s.print(r)
	}
}

// producedShape is one record of `moldau produce -v -o json`.
type producedShape struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Offset      int64  `json:"offset"`
	TimestampMs int64  `json:"timestamp_ms"`
}

// print writes where a record went. A failed write shows at the last flush.
func (s *sender) print(r *client.Record) {
	shape := producedShape{r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli()}
	switch s.a.output {
	case formatTable, formatWide:
		fmt.Fprintf(s.out, "partition %d offset %d\n", r.Partition, r.Offset)
	case formatName:
		fmt.Fprintf(s.out, "%s:%d:%d\n", r.Topic, r.Partition, r.Offset)
	case formatYAML:
		_ = writeYAML(s.out, []producedShape{shape})
	default:
		_ = json.NewEncoder(s.out).Encode(shape)
	}
}

// producedSummary is `moldau produce -o json`.
type producedSummary struct {
	Topic        string  `json:"topic"`
	Records      int64   `json:"records"`
	Acknowledged int64   `json:"acknowledged"`
	Failed       int64   `json:"failed"`
	Unknown      int64   `json:"unknown"` // may be in the log
	Bytes        int64   `json:"bytes"`
	Seconds      float64 `json:"seconds"`
}

// report prints the summary and says whether anything is not acknowledged. It comes when every record has its outcome.
func (s *sender) report(took time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("write the offsets: %w", err)
	}
	sum := producedSummary{s.template.Topic, s.read, s.acked, s.failed, s.read - s.acked - s.failed, s.bytes, took.Seconds()}
	if !s.verbose && s.a.output != formatTable && s.a.output != formatWide {
		if err := s.a.show(view{names: []string{sum.Topic}, value: sum}); err != nil {
			return err
		}
	}
	lost := fmt.Sprintf("%d failed", sum.Failed)
	if sum.Unknown > 0 {
		lost += fmt.Sprintf(", %d of unknown outcome", sum.Unknown)
	}
	s.a.say("produced %d records, %d bytes in %.3f s, %s", sum.Acknowledged, sum.Bytes, sum.Seconds, lost)
	switch {
	case sum.Unknown > 0:
		return &coded{
			code: exitFailure, hint: s.unsureRemedy(),
			err: fmt.Errorf("%d of %d records may or may not be in the log, %d failed, %d were acknowledged: %w", sum.Unknown, sum.Records, sum.Failed, sum.Acknowledged,
				cmp.Or(s.unsure, errors.New("interrupted"))),
		}
	case sum.Failed > 0:
		return &coded{
			code: exitFailure, hint: s.remedy(s.first),
			err: fmt.Errorf("%d of %d records failed, %d were acknowledged: %w", sum.Failed, sum.Records, sum.Acknowledged, s.first),
		}
	}
	return nil
}

// unsureRemedy is what to do about records of which nobody knows whether they are stored.
func (s *sender) unsureRemedy() string {
	look := fmt.Sprintf("Look with `moldau consume %s` which are there before you send them again: they would be there twice.", s.template.Topic)
	if why := s.remedy(s.unsure); why != "" {
		return look + " " + why
	}
	return look + " `moldau cluster health` says what is wrong; --timeout gives it more time."
}

// remedy is what to do about a failed record.
func (s *sender) remedy(err error) string {
	switch {
	case errors.Is(err, client.ErrRecordTooLarge):
		return fmt.Sprintf("--max-record-bytes raises this command's limit, and `moldau topic alter %s -c max.message.bytes=BYTES` the topic's.", s.template.Topic)
	case client.CodeOf(err) == moldauv1.ErrorCode_ERROR_CODE_TOO_LARGE:
		return fmt.Sprintf("`moldau topic alter %s -c max.message.bytes=BYTES` raises the topic's limit.", s.template.Topic)
	}
	return remedy(err)
}

func (s *sender) progress() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d records, %s acknowledged, %d failed", s.acked, bytesText(s.bytes), s.failed)
}
