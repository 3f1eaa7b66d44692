package main

import (
	"context"
	"fmt"
	"time"

	"github.com/moldau-log/moldau/internal/history"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/test/soak/load"
)

// topicSpec is one topic that lives as long as the run.
type topicSpec struct {
	name                 string
	partitions, replicas int32
	configs              map[string]string
}

// topics of every run. All keep everything: what retention removes is no loss, and hides one.
var topicSpecs = []topicSpec{
	{name: "alpha", partitions: 4, replicas: 3},
	{name: "beta", partitions: 2, replicas: 3, configs: map[string]string{"segment.bytes": "262144"}},
	{name: "pair", partitions: 2, replicas: 2},
}

func (s *soak) createTopics() error {
	for _, t := range topicSpecs {
		req := &moldauv1.CreateTopicRequest{Topic: t.name, Partitions: t.partitions, ReplicationFactor: t.replicas,
			Configs: []*moldauv1.ConfigEntry{{Key: "retention.ms", Value: "-1"}}}
		for k, v := range t.configs {
			req.Configs = append(req.Configs, &moldauv1.ConfigEntry{Key: k, Value: v})
		}
		ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
		_, err := s.cluster.admin.CreateTopic(ctx, req)
		cancel()
		if err != nil {
			return fmt.Errorf("soak: create topic %s: %w", t.name, err)
		}
		s.topics.Set(t.name, t.partitions)
	}
	return nil
}

// startLoad starts the clients.
func (s *soak) startLoad() {
	l := load.New(s.cluster.addresses(), s.seed, s.rec, s.topics)
	s.load = l
	each := max(s.rate/6, 1)
	l.Go("kp1", l.KafkaProducer(each, history.AcksISR))
	l.Go("kp2", l.KafkaProducer(each, history.AcksISR))
	l.Go("kp3", l.KafkaProducer(each, history.AcksLeader))
	l.Go("np1", l.NativeProducer(each, history.AcksISR))
	l.Go("np2", l.NativeProducer(each, history.AcksISR))
	l.Go("np3", l.NativeProducer(each, history.AcksLeader))
	l.Go("kc1", l.KafkaConsumer("", "alpha", "beta", "pair"))
	l.Go("kc2", l.KafkaConsumer(rack(int(s.seed)%s.brokers), "alpha", "pair"))
	for i := range 3 {
		l.Go(fmt.Sprint("km", i), l.KafkaMember("kgroup", "alpha", "pair"))
		l.Go(fmt.Sprint("nm", i), l.NativeMember("ngroup", "alpha", "beta"))
	}
	l.Go("ask1", l.Asker([]string{"alpha", "beta", "pair"}, "kgroup", "ngroup"))
	l.Go("ask2", l.Asker([]string{"alpha", "beta", "pair"}, "kgroup", "ngroup"))
	l.Go("out1", l.Outside("outside", "alpha", "beta"))
	l.Go("kv1", l.KafkaVisitor("alpha", "beta", "pair"))
	l.Go("nv1", l.NativeVisitor("alpha", "beta", "pair"))
	l.Go("admin", l.Admin("alpha", "beta"))
	l.Go("nc1", l.NativeConsumer("alpha", "beta", "pair"))
}
