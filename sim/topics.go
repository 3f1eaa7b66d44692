package sim

import (
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
)

// Bounds of what one history has.
const (
	maxTopics         = 3 // alive at one time
	maxLivePartitions = 5
)

// topic is one topic under one id, from its creation to the end of the history. A topic that is made anew under an old name is another one.
type topic struct {
	id     cluster.TopicID
	name   string
	number int64 // in the order of creation, from 1
	gone   bool
}

// topicPlan is what a topic is to be created with.
type topicPlan struct {
	name       string
	partitions int
	factor     int // replication factor
	configs    cluster.Configs
}

// drawTopics chooses the topics that a history begins with.
func drawTopics(s *scheduler, m *mixture, opts Options) []topicPlan {
	if opts.Partitions > 0 {
		plan := drawTopic(s, m, 0)
		plan.partitions = opts.Partitions
		return []topicPlan{plan}
	}
	var plans []topicPlan
	for n := range 1 + s.rng.IntN(maxTopics) {
		plans = append(plans, drawTopic(s, m, n))
	}
	return plans
}

// topicNames are those that topics have; groups read the first.
func topicNames() []string { return []string{groupTopic, "lake", "brook"} }

// drawTopic chooses the settings of a topic.
func drawTopic(s *scheduler, m *mixture, n int) topicPlan {
	plan := topicPlan{name: topicNames()[n], partitions: 1 + s.rng.IntN(2), factor: replicationFactor}
	if n > 0 {
		plan.partitions = 1
	}
	min := 2
	switch {
	case s.chance(150):
		plan.factor, min = 2, 1+s.rng.IntN(2)
	case s.chance(150) && m.founders > replicationFactor:
		plan.factor = 4
	}
	plan.configs = plan.configs.With("min.insync.replicas", fmt.Sprint(min)).With("segment.bytes", fmt.Sprint(1024<<s.rng.IntN(5)))
	return plan
}

// createCommand makes the command that creates a topic under a new id, placed on the brokers of an image.
func (w *World) createCommand(plan topicPlan, image *cluster.Image) (cluster.CreateTopic, error) {
	w.topicIDs++
	assignment, err := placement.Assign(placement.Request{Brokers: placement.Brokers(image), Partitions: plan.partitions, ReplicationFactor: plan.factor, Seed: w.rng.Uint64()})
	configs := plan.configs
	if w.opts.Plant == PlantUncleanElection {
		configs = configs.With("unclean.leader.election.enable", "true")
	}
	return cluster.CreateTopic{ID: cluster.TopicID{7, byte(w.topicIDs >> 8), byte(w.topicIDs)}, Name: plan.name, Assignment: assignment, Configs: configs}, err
}

// createTopics creates what the history begins with; there are no faults yet.
func (w *World) createTopics() {
	for _, plan := range w.mix.topics {
		cmd, err := w.createCommand(plan, w.meta.state.Image())
		w.check.must(err)
		w.meta.propose(cmd, func(res cluster.Result, failed bool) {
			if failed || res.Code != cluster.CodeNone {
				w.check.fail("the topic is not created: %s", res.Message)
			}
		})
	}
}

// partitionCreated notes a partition that the metadata has from here on, and sends clients to it.
func (w *World) partitionCreated(tp cluster.TopicPartition, image *cluster.Image) {
	t := w.topics[tp.Topic]
	if t == nil {
		made, _ := image.Topic(tp.Topic)
		t = &topic{id: tp.Topic, name: made.Name, number: int64(len(w.topics) + 1)}
		w.topics[tp.Topic] = t
		w.note("topic "+t.name, t.number)
	}
	w.partitions = append(w.partitions, tp)
	w.check.ledgers[tp] = &ledger{tp: tp, topic: t, tried: map[cluster.BrokerID]retention{}}
	if w.load != nil {
		w.load.attend(tp)
	}
}

// partitionDeleted notes that a partition has gone with its topic.
func (w *World) partitionDeleted(tp cluster.TopicPartition) {
	l := w.check.ledgers[tp]
	l.gone, l.topic.gone = true, true
	w.cov.PartitionsDeleted++
	w.note("deleted", l.topic.number, int64(tp.Partition))
}

// readByGroups lists the partitions that groups read at present.
func (w *World) readByGroups() []cluster.TopicPartition {
	return slices.DeleteFunc(w.live(), func(tp cluster.TopicPartition) bool { return w.topics[tp.Topic].name != groupTopic })
}

// gone reports whether a partition was deleted with its topic.
func (w *World) gone(tp cluster.TopicPartition) bool {
	l := w.check.ledgers[tp]
	return l != nil && l.gone
}

// live lists the partitions that are there, in the order in which they came.
func (w *World) live() []cluster.TopicPartition {
	var out []cluster.TopicPartition
	for _, tp := range w.partitions {
		if !w.check.ledgers[tp].gone {
			out = append(out, tp)
		}
	}
	return out
}

// named is a partition's name in reports: the topic's, its number as topics of one name follow each other, and the partition's.
func (w *World) named(tp cluster.TopicPartition) string {
	l := w.check.ledgers[tp]
	if l == nil {
		return tp.String()
	}
	return fmt.Sprintf("%s#%d-%d", l.topic.name, l.topic.number, tp.Partition)
}

// key is a partition in the notes of a history.
func (w *World) key(tp cluster.TopicPartition) int64 {
	if l := w.check.ledgers[tp]; l != nil {
		return l.topic.number<<8 | int64(tp.Partition)
	}
	return -1
}
