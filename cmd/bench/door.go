package main

import (
	"context"
	"fmt"
	"time"
)

// door is a protocol through which a cluster is loaded: Moldau's own API, or Kafka's with either of two clients. Every connection of a run is one
// door, so that none shares sockets or buffers with another.
type door interface {
	// prepare creates the topic for a run that produces, if it is not there, and waits until every partition has a leader.
	prepare(ctx context.Context, p parts) (topicFacts, error)
	// ends says where each partition ends.
	ends(ctx context.Context, partitions int32) (drainEnd, error)
	// produceBatch sends a whole batch. done is called once, at any time, unless an error says that the door is of no use any more.
	produceBatch(partition int32, batch []byte, done func(error)) error
	// produceRecords sends n records one by one, as programs do. failed is told of every record that was refused but the last; done is called once for the last.
	produceRecords(partition int32, n int, values *payload, failed func(error), done func(bytes int, err error))
	// read counts what the partitions hold into w: to drain's end, or until ctx ends or the count is reached.
	read(ctx context.Context, w *watch, partitions []int32, drain drainEnd, fromStart bool) error
	// writtenBatches are batches that the client has made of records; 0 where it does not say.
	writtenBatches() (batches, records int64)
	close()
}

// topicFacts are what a run has to know of its topic.
type topicFacts struct {
	partitions    int32
	brokerVersion string // empty: the protocol does not say it
}

// drainEnd is how far each partition has to be read; empty: until the time is over.
type drainEnd map[int32]int64

// openDoors makes as many doors as the run has connections.
func openDoors(s *settings, p parts) (doors []door, err error) {
	open := openNative
	switch {
	case s.Protocol == protocolKafka && s.API == apiBatch:
		open = openKafkaRaw
	case s.Protocol == protocolKafka:
		open = openKafka
	}
	for range s.Connections {
		d, err := open(s, p)
		if err != nil {
			closeAll(doors)
			return nil, err
		}
		doors = append(doors, d)
	}
	return doors, nil
}

func closeAll(doors []door) {
	for _, d := range doors {
		d.close()
	}
}

// findEnd asks where the backlog ends.
func findEnd(ctx context.Context, d door, s *settings, p parts, partitions int32) (drainEnd, error) {
	if p.produce || s.Tail {
		return nil, nil
	}
	end, err := d.ends(ctx, partitions)
	if err != nil {
		return nil, fmt.Errorf("find the end of %s: %w", s.Topic, err)
	}
	total := int64(0)
	for _, offset := range end {
		total += offset
	}
	if total == 0 {
		return nil, fmt.Errorf("topic %s is empty: produce to it first", s.Topic)
	}
	return end, nil
}

// retryPause is the time between two questions while a partition has no leader that answers.
const retryPause = 50 * time.Millisecond

// awaitLeaders asks until every partition has a leader. ask says whether it is so.
func awaitLeaders(ctx context.Context, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for {
		led, err := ask(ctx)
		switch {
		case err != nil:
			return err
		case led:
			return nil
		case !pause(ctx, retryPause):
			return fmt.Errorf("not every partition has a leader after %v", settle)
		}
	}
}

// idempotent says whether batches carry a producer id: those that the client builds, as long as the window allows.
func (s *settings) idempotent(p parts) bool {
	const window = 5
	if !p.produce || s.API != apiRecords || s.InFlight > window {
		return false
	}
	return s.Acks == "isr" || s.Acks == "leader" && s.Protocol == protocolGRPC
}

// backlog is what a reader still has to read of its share of a drain.
type backlog map[int32]int64

func (d drainEnd) share(partitions []int32) backlog {
	b := backlog{}
	for _, p := range partitions {
		if end := d[p]; end > 0 {
			b[p] = end
		}
	}
	return b
}

// reached notes that a partition was read up to next.
func (b backlog) reached(partition int32, next int64) {
	if end, ok := b[partition]; ok && next >= end {
		delete(b, partition)
	}
}

// wants says whether a reader goes on: a drain until nothing is left, a tail until enough is counted.
func (w *watch) wants(drain drainEnd, b backlog) bool {
	if drain != nil {
		return len(b) > 0
	}
	return w.settings.Count == 0 || w.consumed.records.Load() < w.settings.Count
}
