package main

import (
	"context"
	"io"
	"runtime"
	"time"
)

// settle bounds the wait for what is under way when a run ends.
const settle = 30 * time.Second

// measure does one run.
func measure(ctx context.Context, name string, p parts, s *settings, talk io.Writer) (*result, error) {
	doors, err := openDoors(s, p)
	if err != nil {
		return nil, err
	}
	defer closeAll(doors)
	topic, err := doors[0].prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	r := &result{
		Command: name, Version: version, BrokerVersion: topic.brokerVersion, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.NumCPU(), StartedMs: time.Now().UnixMilli(), Settings: s.printed(p), TopicPartitions: topic.partitions,
	}
	w := newWatch(s)
	stopProgress := w.progress(talk)
	defer stopProgress()
	var drain drainEnd
	if p.consume {
		if drain, err = findEnd(ctx, doors[0], s, p, topic.partitions); err != nil {
			return nil, err
		}
	}
	if s.Cold {
		if r.Cold, err = dropPages(s.BrokerData); err != nil {
			return nil, err
		}
	}
	if err := w.run(ctx, doors, p, topic.partitions, drain); err != nil {
		return nil, err
	}
	stopProgress()
	w.fill(r, p)
	r.countBatches(doors)
	return r, nil
}
