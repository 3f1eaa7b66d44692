package broker

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
)

// MaxPartitionsPerTopic bounds one topic; a cluster has its own bound.
const MaxPartitionsPerTopic = 10_000

// CreateTopic creates a topic. It answers when this broker has applied the creation. Errors are *cluster.Error.
func (b *Broker) CreateTopic(ctx context.Context, spec TopicSpec) (CreatedTopic, error) {
	if err := b.Image().CheckNewTopicName(spec.Name); err != nil {
		return CreatedTopic{}, err
	}
	configs, err := cluster.ParseConfigs(cluster.ConfigTopic, spec.Configs)
	if err != nil {
		return CreatedTopic{}, err
	}
	assignment, err := b.assignment(spec)
	if err != nil {
		return CreatedTopic{}, err
	}
	notes := append(notEnforced(configs), notReached(configs, len(assignment[0]))...)
	cmd := cluster.CreateTopic{ID: cluster.DrawUUID(crand.Read), Name: spec.Name, Assignment: assignment, Configs: configs, CreatedMs: b.clock.WallMs()}
	if spec.ValidateOnly {
		return CreatedTopic{Topic: cluster.Topic{
			Name: spec.Name, Partitions: int32(len(assignment)), ReplicationFactor: int16(len(assignment[0])), Configs: configs,
		}, Notes: notes}, nil
	}
	if _, err := b.propose(ctx, cmd); err != nil {
		return CreatedTopic{}, err
	}
	t, ok := b.Image().Topic(cmd.ID)
	if !ok { // deleted again at once
		return CreatedTopic{}, unknownTopic(TopicRef{Name: spec.Name})
	}
	return CreatedTopic{Topic: *t, Notes: notes}, nil
}

// assignment resolves defaults and places the replicas, unless the client has placed them.
func (b *Broker) assignment(spec TopicSpec) ([][]cluster.BrokerID, error) {
	if spec.Assignment != nil {
		return spec.Assignment, b.checkAssignment(spec.Assignment)
	}
	partitions, rf := spec.Partitions, spec.ReplicationFactor
	dynamic := b.Image().BrokerConfig(b.id)
	if partitions == -1 {
		partitions = cmp.Or(int32(dynamic.Partitions), b.options.DefaultPartitions)
	}
	if rf == -1 {
		rf = cmp.Or(int16(dynamic.ReplicationFactor), b.options.DefaultReplication)
	}
	if partitions < 1 || partitions > MaxPartitionsPerTopic {
		return nil, cluster.Refuse(cluster.CodeInvalidPartitions, fmt.Sprintf("%d partitions; between 1 and %d are possible", partitions, MaxPartitionsPerTopic))
	}
	return b.place(int(partitions), int(rf))
}

// place asks for a placement on the brokers that are there now.
func (b *Broker) place(partitions, rf int) ([][]cluster.BrokerID, error) {
	if n := b.Image().BrokerCount(); rf < 1 || rf > n {
		return nil, cluster.Refuse(cluster.CodeInvalidReplication,
			fmt.Sprintf("replication factor %d; %d brokers are registered, so between 1 and %d is possible (retry if brokers are still starting)", rf, n, n))
	}
	return placement.Assign(placement.Request{
		Brokers: placement.Brokers(b.Image()), Partitions: partitions, ReplicationFactor: rf, Seed: rand.Uint64(),
	})
}

func (b *Broker) checkAssignment(assignment [][]cluster.BrokerID) error {
	bad := func(format string, args ...any) error {
		return cluster.Refuse(cluster.CodeInvalidAssignment, fmt.Sprintf(format, args...))
	}
	if len(assignment) == 0 || len(assignment) > MaxPartitionsPerTopic {
		return bad("an assignment names the replicas of each partition; %d partitions are named", len(assignment))
	}
	img := b.Image()
	for p, replicas := range assignment {
		if len(replicas) == 0 || len(replicas) != len(assignment[0]) {
			return bad("partition %d has %d replicas, partition 0 has %d", p, len(replicas), len(assignment[0]))
		}
		seen := make(map[cluster.BrokerID]bool, len(replicas))
		for _, r := range replicas {
			if _, ok := img.Broker(r); !ok {
				return cluster.Refuse(cluster.CodeUnknownBroker, fmt.Sprintf("partition %d names broker %d, which is not registered", p, r))
			}
			if seen[r] {
				return bad("partition %d names broker %d twice", p, r)
			}
			seen[r] = true
		}
	}
	return nil
}

// DeleteTopic deletes a topic with its records, configs and committed offsets.
func (b *Broker) DeleteTopic(ctx context.Context, ref TopicRef) error {
	t, err := b.Topic(ctx, ref)
	if err != nil {
		return err
	}
	_, err = b.propose(ctx, cluster.DeleteTopic{ID: t.ID})
	return err
}

// AddPartitions grows a topic to total partitions. assignment, if not nil, names the replicas of the new ones.
func (b *Broker) AddPartitions(ctx context.Context, ref TopicRef, total int32, assignment [][]cluster.BrokerID) error {
	t, err := b.Topic(ctx, ref)
	if err != nil {
		return err
	}
	more := int(total - t.Partitions)
	if more <= 0 || total > MaxPartitionsPerTopic {
		return cluster.Refuse(cluster.CodeInvalidPartitions,
			fmt.Sprintf("topic %s has %d partitions; give a higher total, at most %d (partitions are never removed)", t.Name, t.Partitions, MaxPartitionsPerTopic))
	}
	if assignment == nil {
		assignment, err = b.place(more, b.Image().ReplicationFactor(t))
	} else if len(assignment) != more {
		err = cluster.Refuse(cluster.CodeInvalidAssignment, fmt.Sprintf("%d partitions are new, %d are assigned", more, len(assignment)))
	} else {
		err = b.checkAssignment(assignment)
	}
	if err != nil {
		return err
	}
	_, err = b.propose(ctx, cluster.AddPartitions{Topic: t.ID, Have: t.Partitions, Assignment: assignment})
	return err
}
