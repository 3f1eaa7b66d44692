package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
)

// kafkaRaw is Kafka's protocol with as little client as there can be, so that the brokers are what is measured: whole batches go out with one copy, and fetched
// ones are checked against their checksum where they lie. It has one connection per leader and direction. It does not follow a leader that moves: the
// run fails. Topics and offsets are asked for with franz-go.
type kafkaRaw struct {
	*kafkaDoor
	routes func() (map[int32]*pipeline, error) // the connection to each partition's leader, made when first asked for
	lines  []*pipeline
}

func openKafkaRaw(s *settings, p parts) (door, error) {
	k, err := newKafkaDoor(s, p)
	if err != nil {
		return nil, err
	}
	r := &kafkaRaw{kafkaDoor: k}
	r.routes = sync.OnceValues(r.connect)
	return r, nil
}

func (r *kafkaRaw) connect() (map[int32]*pipeline, error) {
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	leaders, err := r.leaders(ctx)
	if err != nil {
		return nil, err
	}
	byAddress, routes := map[string]*pipeline{}, map[int32]*pipeline{}
	for partition, address := range leaders {
		line, ok := byAddress[address]
		if !ok {
			if line, err = dialPipeline(ctx, address, r.s); err != nil {
				return nil, err
			}
			byAddress[address] = line
			r.lines = append(r.lines, line)
		}
		routes[partition] = line
	}
	return routes, nil
}

func (r *kafkaRaw) close() {
	for _, line := range r.lines {
		line.close()
	}
	r.kafkaDoor.close()
}

func (r *kafkaRaw) produceBatch(partition int32, batch []byte, done func(error)) error {
	routes, err := r.routes()
	if err != nil {
		return err
	}
	line, ok := routes[partition]
	if !ok {
		return fmt.Errorf("topic %s has no partition %d", r.s.Topic, partition)
	}
	return line.send(partition, batch, done)
}

// read has a reader for every leader.
func (r *kafkaRaw) read(ctx context.Context, w *watch, partitions []int32, drain drainEnd, fromStart bool) error {
	at := int64(atEnd)
	if fromStart {
		at = atStart
	}
	next, err := r.offsets(ctx, partitions, at)
	if err != nil {
		return err
	}
	leaders, err := r.leaders(ctx)
	if err != nil {
		return err
	}
	byLeader := map[string][]int32{}
	for _, p := range partitions {
		byLeader[leaders[p]] = append(byLeader[leaders[p]], p)
	}
	all, ctx := errgroup.WithContext(ctx)
	for address, share := range byLeader {
		f := &fetcher{w: w, topic: r.s.Topic, partitions: share, next: map[int32]int64{}, left: drain.share(share)}
		for _, p := range share {
			f.next[p] = next[p]
		}
		all.Go(func() error { return f.run(ctx, address, drain) })
	}
	return all.Wait()
}

func hostPort(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// dialWithin connects, and hangs up when the context ends or hangUp is called.
func dialWithin(ctx context.Context, address string) (nc net.Conn, hangUp func(), err error) {
	var d net.Dialer
	if nc, err = d.DialContext(ctx, "tcp", address); err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	return nc, func() {
		stop()
		nc.Close()
	}, nil
}
