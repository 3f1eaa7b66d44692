package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// othersPoll is how often a member asks how far the others have come.
const othersPoll = 250 * time.Millisecond

// reader prints what a consumer delivers, knows when to end, and notices records that come twice.
//
// Invariant: before each Poll everything that earlier Polls delivered has been written to standard output, or its position was moved back. So
// what the consumer commits has been written.
type reader struct {
	a       *app
	topic   string
	group   string
	print   appendRecord
	out     *bufio.Writer
	left    int64 // records to print; below 0: no limit
	ends    map[client.TopicPartition]endOf
	seen    map[client.TopicPartition]int64 // next offset after what was printed
	twice   int64
	lost    int64 // times that the log had lost what was read
	askedAt time.Time
	buf     []byte
}

func newReader(a *app, topic string, f consumeFlags, print appendRecord) *reader {
	r := &reader{a: a, topic: topic, group: f.group, print: print, out: bufio.NewWriterSize(a.out, 64<<10), left: f.count, seen: map[client.TopicPartition]int64{}}
	if r.left == 0 {
		r.left = -1
	}
	return r
}

// run reads until the count is reached, the end is, or ctx ends.
func (r *reader) run(ctx context.Context, c *client.Client, consumer *client.Consumer) error {
	for r.left != 0 && !r.atEnd(ctx, c, consumer) {
		pollCtx, cancel := context.WithTimeout(ctx, consumePoll)
		records, err := consumer.Poll(pollCtx)
		cancel()
		if err != nil {
			if err := r.judge(ctx, err); err != nil || ctx.Err() != nil {
				return errors.Join(err, r.interrupted(ctx))
			}
			continue
		}
		written, err := r.write(records)
		if err != nil {
			written = 0 // how much of it arrived is not known: read it again another time
		}
		r.moveBack(consumer, records[written:])
		if errors.Is(err, syscall.EPIPE) {
			return nil // whoever reads standard output has enough
		}
		if err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
	}
	return nil
}

// interrupted is nil for somebody who pressed Ctrl-C or only wanted to read for a while.
func (r *reader) interrupted(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && (r.left > 0 || r.ends != nil) {
		return &coded{code: exitTimeout, err: fmt.Errorf("consume %s: not done within %v", r.topic, r.a.timeout)}
	}
	return nil
}

// judge decides whether reading goes on after an error of Poll.
func (r *reader) judge(ctx context.Context, err error) error {
	var loss *client.DataLossError
	switch {
	case errors.As(err, &loss):
		r.lost++
		r.a.say("%s", reason(err))
		tp := client.TopicPartition{Topic: loss.Topic, Partition: loss.Partition}
		if e, ok := r.ends[tp]; ok && loss.End < loss.Position {
			r.ends[tp] = endOf{e.start, min(e.end, loss.End)}
		}
		return nil
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return nil // nothing came for a while
	case errors.Is(err, client.ErrNoOffset):
		return hinted(fmt.Errorf("consume %s: %w", r.topic, err), "`moldau topic describe %s` shows the offsets that the log has.", r.topic)
	}
	return err
}

// write prints records, at most as many as are wanted, and flushes them out.
func (r *reader) write(records []client.Record) (int, error) {
	if r.left >= 0 {
		records = records[:min(int64(len(records)), r.left)]
	}
	for i := range records {
		rec := &records[i]
		tp := client.TopicPartition{Topic: rec.Topic, Partition: rec.Partition}
		if rec.Offset < r.seen[tp] {
			r.twice++
		} else {
			r.seen[tp] = rec.Offset + 1
		}
		r.buf = r.print(r.buf[:0], rec)
		if _, err := r.out.Write(r.buf); err != nil {
			return i, err
		}
	}
	if r.left > 0 {
		r.left -= int64(len(records))
	}
	return len(records), r.out.Flush()
}

// moveBack makes the consumer forget that it has delivered records.
func (r *reader) moveBack(consumer *client.Consumer, records []client.Record) {
	moved := map[client.TopicPartition]bool{}
	for i := range records {
		tp := client.TopicPartition{Topic: records[i].Topic, Partition: records[i].Partition}
		if !moved[tp] {
			moved[tp] = true
			_ = consumer.Seek(tp, records[i].Offset) // a partition that is not ours any more is not committed either
		}
	}
}

// atEnd says whether everything that was there at the start has been read: by this process, or by other members of the group.
func (r *reader) atEnd(ctx context.Context, c *client.Client, consumer *client.Consumer) bool {
	if r.ends == nil {
		return false
	}
	positions := consumer.Positions()
	var others []client.TopicPartition
	for tp, e := range r.ends {
		p, mine := positions[tp]
		switch {
		case e.end <= e.start:
		case mine && p.Offset < e.end:
			return false
		case !mine && r.group == "" && r.seen[tp] < e.end:
			return false // not looked up yet
		case !mine && r.group != "":
			others = append(others, tp)
		}
	}
	return len(others) == 0 || r.othersAtEnd(ctx, c, others)
}

// othersAtEnd asks the group how far it has come in partitions that this member does not have.
func (r *reader) othersAtEnd(ctx context.Context, c *client.Client, tps []client.TopicPartition) bool {
	if time.Since(r.askedAt) < othersPoll {
		return false
	}
	r.askedAt = time.Now()
	req := &moldauv1.FetchOffsetsRequest{Group: r.group}
	for _, tp := range tps {
		req.Partitions = append(req.Partitions, &moldauv1.TopicPartition{Topic: tp.Topic, Partition: tp.Partition})
	}
	resp, err := c.FetchOffsets(ctx, req)
	if err != nil || len(resp.GetOffsets()) != len(tps) {
		return false
	}
	for i, o := range resp.GetOffsets() {
		if o.GetError() != nil || o.GetCommittedOffset() < r.ends[tps[i]].end {
			return false
		}
	}
	return true
}

// farewell tells what a reader should know.
func (r *reader) farewell() {
	if r.twice > 0 {
		r.a.say("%d records were read twice: the group gave partitions back that this member had read further than it had committed", r.twice)
	}
	if r.lost > 0 {
		r.a.say("%d times the log no longer had what was read from it", r.lost)
	}
}
