package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a raw reader asks for at once, in bytes, and how long a broker may wait for the first of them.
const (
	fetchBytes          = 16 << 20
	fetchPartitionBytes = 4 << 20
	fetchWaitMs         = 500
	fetchBuffer         = 64 << 10
)

// fetcher reads the partitions of one leader over one connection, one request after another.
type fetcher struct {
	w          *watch
	topic      string
	partitions []int32
	next       map[int32]int64
	left       backlog
}

func (f *fetcher) run(ctx context.Context, address string, drain drainEnd) error {
	nc, hangUp, err := dialWithin(ctx, address)
	if err != nil {
		return err
	}
	defer hangUp()
	in := bufio.NewReaderSize(nc, fetchBuffer)
	var request, answer []byte
	for f.w.wants(drain, f.left) {
		request = f.appendRequest(request[:0], drain)
		if _, err = nc.Write(request); err == nil {
			answer, err = readAnswer(in, answer)
		}
		if err == nil {
			err = f.count(answer)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("consume %s from %s: %w", f.topic, address, err)
		}
	}
	return nil
}

// appendRequest asks for every partition that is not at its end, the one after another first that the last answer began with: a broker fills an answer in
// the order of the request.
func (f *fetcher) appendRequest(b []byte, drain drainEnd) []byte {
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = f.topic
	f.partitions = append(f.partitions[1:], f.partitions[0])
	for _, p := range f.partitions {
		if _, open := f.left[p]; drain != nil && !open {
			continue
		}
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.FetchOffset, part.PartitionMaxBytes = p, f.next[p], fetchPartitionBytes
		topic.Partitions = append(topic.Partitions, part)
	}
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.ReplicaID, req.SessionEpoch = fetchVersion, -1, -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.Topics = fetchWaitMs, 1, fetchBytes, append(req.Topics, topic)
	body := req.AppendTo(nil)
	return append(appendHeader(b, keyFetch, fetchVersion, 0, len(body)), body...)
}

func (f *fetcher) count(answer []byte) error {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = fetchVersion
	if err := resp.ReadFrom(answer[4:]); err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	for i := range resp.Topics {
		for k := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[k]
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			next, err := f.w.countBatches(p.RecordBatches, f.next[p.Partition])
			if err != nil {
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			f.next[p.Partition] = next
			f.left.reached(p.Partition, next)
		}
	}
	return nil
}
