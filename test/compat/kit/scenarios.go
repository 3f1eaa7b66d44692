package kit

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// scenario is one capability of one client.
type scenario struct {
	client Client
	topic  string
}

// numbered are n records whose values tell them apart; keys repeat every 20.
func numbered(from, n int) []Record {
	var out []Record
	for i := from; i < from+n; i++ {
		out = append(out, Record{Key: fmt.Appendf(nil, "key-%02d", i%20), Value: fmt.Appendf(nil, "value-%08d with some text that compresses, compresses, compresses", i)})
	}
	return out
}

// send opens a producer, sends all and closes it.
func (s *scenario) send(ctx context.Context, how Producing, records []Record) error {
	p, err := s.client.Producer(ctx, s.topic, how)
	if err != nil {
		return err
	}
	if err := p.Send(ctx, records); err != nil {
		p.Close()
		return fmt.Errorf("send: %w", err)
	}
	return p.Close()
}

// roundTrip sends records to a new topic with one partition and reads them back, with the client's fetch limits and with those given.
func (s *scenario) roundTrip(ctx context.Context, records []Record, maxBytes ...int) error {
	if err := s.client.CreateTopic(ctx, s.topic, 1); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	if err := s.send(ctx, Producing{Codec: "none"}, records); err != nil {
		return err
	}
	for _, limit := range append([]int{0}, maxBytes...) {
		got, err := s.client.Read(ctx, Reading{Topic: s.topic, Partitions: 1, N: len(records), MaxBytes: limit})
		if err != nil {
			return fmt.Errorf("read with max bytes %d: %w", limit, err)
		}
		if err := same(records, got); err != nil {
			return fmt.Errorf("read with max bytes %d: %w", limit, err)
		}
	}
	return nil
}

// same compares records in order, null and empty apart.
func same(want, got []Record) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d records came, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if !bytes.Equal(w.Key, g.Key) || (w.Key == nil) != (g.Key == nil) {
			return fmt.Errorf("record %d: key %.40q (null %t), want %.40q (null %t)", i, g.Key, g.Key == nil, w.Key, w.Key == nil)
		}
		if !bytes.Equal(w.Value, g.Value) || (w.Value == nil) != (g.Value == nil) {
			return fmt.Errorf("record %d: value of %d bytes %.40q (null %t), want %d bytes %.40q (null %t)", i, len(g.Value), g.Value, g.Value == nil, len(w.Value), w.Value, w.Value == nil)
		}
		if !slices.EqualFunc(w.Headers, g.Headers, func(a, b Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }) {
			return fmt.Errorf("record %d: headers %v, want %v", i, g.Headers, w.Headers)
		}
	}
	return nil
}

// produce sends n records over three partitions and reads each of them back exactly once, those of a key in their order.
func (s *scenario) produce(ctx context.Context, how Producing, n int) error {
	if err := s.client.CreateTopic(ctx, s.topic, 3); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	records := numbered(0, n)
	if err := s.send(ctx, how, records); err != nil {
		return err
	}
	got, err := s.client.Read(ctx, Reading{Topic: s.topic, Partitions: 3, N: n})
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if err := inOrder(got); err != nil {
		return err
	}
	slices.SortFunc(got, func(a, b Record) int { return bytes.Compare(a.Value, b.Value) })
	return same(records, got)
}

// inOrder checks that every partition came from offset 0 without a gap, and the records of a key in the order in which they were sent.
func inOrder(got []Record) error {
	next := map[int32]int64{}
	last := map[string]Record{}
	for _, r := range got {
		if r.Offset != next[r.Partition] {
			return fmt.Errorf("partition %d: offset %d came, want %d", r.Partition, r.Offset, next[r.Partition])
		}
		next[r.Partition]++
		before, ok := last[string(r.Key)]
		if ok && (bytes.Compare(before.Value, r.Value) >= 0 || before.Partition != r.Partition) {
			return fmt.Errorf("key %s: %.14q of partition %d came after %.14q of partition %d", r.Key, r.Value, r.Partition, before.Value, before.Partition)
		}
		last[string(r.Key)] = r
	}
	return nil
}

func (s *scenario) consume(ctx context.Context) error {
	begin := time.Now().Add(-time.Minute)
	if err := s.produce(ctx, Producing{Codec: "lz4"}, 5000); err != nil {
		return err
	}
	got, err := s.client.Read(ctx, Reading{Topic: s.topic, Partitions: 3, N: 1})
	if err != nil {
		return err
	}
	if len(got) != 1 || got[0].Time.Before(begin) || got[0].Time.After(time.Now().Add(time.Minute)) {
		return fmt.Errorf("one record was asked for, %+v came", got)
	}
	return nil
}

// seekTime sends two halves with a moment between them and reads from that moment.
func (s *scenario) seekTime(ctx context.Context) error {
	if err := s.client.CreateTopic(ctx, s.topic, 1); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	if err := s.send(ctx, Producing{Codec: "gzip"}, numbered(0, 50)); err != nil {
		return err
	}
	if err := pause(ctx, 20*time.Millisecond); err != nil {
		return err
	}
	from := time.Now().Truncate(time.Millisecond)
	if err := pause(ctx, 20*time.Millisecond); err != nil {
		return err
	}
	second := numbered(50, 50)
	if err := s.send(ctx, Producing{Codec: "gzip"}, second); err != nil {
		return err
	}
	got, err := s.client.Read(ctx, Reading{Topic: s.topic, Partitions: 1, N: len(second), From: from})
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if len(got) > 0 && got[0].Offset != 50 {
		return fmt.Errorf("the first record from %s has offset %d, want 50", from, got[0].Offset)
	}
	return same(second, got)
}

func (s *scenario) headers(ctx context.Context) error {
	return s.roundTrip(ctx, []Record{
		{Key: []byte("a"), Value: []byte("none")},
		{Key: []byte("b"), Value: []byte("some"), Headers: []Header{{"one", []byte("1")}, {"two", []byte("zwei")}, {"one", []byte("again")}}},
	})
}

func (s *scenario) nulls(ctx context.Context) error {
	return s.roundTrip(ctx, []Record{{Key: []byte("k"), Value: []byte("v")}, {Value: []byte("no key")}, {Key: []byte("tombstone")}, {}, {Key: []byte("k"), Value: []byte("end")}})
}

// big has records near the usual limit of a megabyte between small ones, which must come even where a fetch allows less than their size.
func (s *scenario) big(ctx context.Context) error {
	var records []Record
	for i, size := range []int{10, 950_000, 10, 500_000, 10} {
		value := make([]byte, size)
		for j := range value {
			value[j] = "0123456789abcdefghijklmnopqrstuvwxyz"[rand.IntN(36)]
		}
		records = append(records, Record{Key: fmt.Appendf(nil, "key-%d", i), Value: value})
	}
	return s.roundTrip(ctx, records, 10_000)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Eventually repeats a check until it passes; when ctx ends, the last failure is returned. What an administrator has changed is known to every broker
// a moment later.
func Eventually(ctx context.Context, what string, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}
