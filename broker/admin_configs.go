package broker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/moldau-log/moldau/cluster"
)

// AlterConfigs changes the set values of a topic, a broker or the cluster default, all or none.
func (b *Broker) AlterConfigs(ctx context.Context, res cluster.ConfigResource, ops []cluster.ConfigOp, validateOnly bool) ([]string, error) {
	if err := b.checkResource(ctx, res); err != nil {
		return nil, err
	}
	set := b.setValues(res)
	ops, err := cluster.ParseConfigOps(res.Kind, set, ops)
	if err != nil {
		return nil, err
	}
	altered, err := set.Alter(res.Kind, ops)
	if err != nil {
		return nil, err
	}
	notes := notEnforced(altered)
	img := b.Image()
	if t, ok := img.TopicByName(res.Name); ok && res.Kind == cluster.ConfigTopic {
		notes = append(notes, notReached(altered, img.ReplicationFactor(t))...)
	}
	if validateOnly {
		return notes, nil
	}
	_, err = b.propose(ctx, cluster.AlterConfigs{Resource: res, Ops: ops})
	return notes, err
}

// DescribeConfigs lists the effective value of every key of a resource, in the order of names.
func (b *Broker) DescribeConfigs(ctx context.Context, res cluster.ConfigResource) ([]cluster.EffectiveConfig, error) {
	if err := b.checkResource(ctx, res); err != nil {
		return nil, err
	}
	img := b.Image()
	switch res.Kind {
	case cluster.ConfigTopic:
		t, ok := img.TopicByName(res.Name)
		if !ok {
			return nil, unknownTopic(TopicRef{Name: res.Name})
		}
		return img.DescribeTopicConfig(t), nil
	case cluster.ConfigBroker:
		id, err := strconv.Atoi(res.Name)
		if err != nil {
			return nil, unknownBroker(res.Name)
		}
		entries := img.DescribeBrokerConfig(cluster.BrokerID(id))
		if cluster.BrokerID(id) == b.id {
			entries = b.withOwn(entries)
		}
		return entries, nil
	}
	return img.DescribeBrokerConfig(cluster.NoBroker), nil
}

// setValues gives what is set on the resource itself. A topic's configs belong to the topic.
func (b *Broker) setValues(res cluster.ConfigResource) cluster.Configs {
	img := b.Image()
	if res.Kind == cluster.ConfigTopic {
		if t, ok := img.TopicByName(res.Name); ok {
			return t.Configs
		}
		return nil
	}
	return img.Configs(res)
}

func (b *Broker) checkResource(ctx context.Context, res cluster.ConfigResource) error {
	switch res.Kind {
	case cluster.ConfigTopic:
		_, err := b.Topic(ctx, TopicRef{Name: res.Name})
		return err
	case cluster.ConfigBroker:
		id, err := strconv.Atoi(res.Name)
		if err != nil || strconv.Itoa(id) != res.Name { // "07" is no other name of 7
			return unknownBroker(res.Name)
		}
		if _, ok := b.Image().Broker(cluster.BrokerID(id)); !ok {
			return unknownBroker(res.Name)
		}
		return nil
	case cluster.ConfigClusterDefault:
		return nil
	}
	return cluster.Refuse(cluster.CodeInvalidRequest, "configs belong to a topic, a broker, or the cluster default")
}

func unknownBroker(name string) *cluster.Error {
	return cluster.Refuse(cluster.CodeUnknownBroker, fmt.Sprintf("no broker %q is registered; `moldau cluster brokers` lists them", name))
}

// notReached says when a topic cannot have as many in-sync replicas as min.insync.replicas asks for: the replication factor counts then.
func notReached(configs cluster.Configs, replicationFactor int) []string {
	const key = "min.insync.replicas"
	text, ok := configs.Get(key)
	if !ok {
		return nil
	}
	if n, err := strconv.Atoi(text); err != nil || n <= replicationFactor {
		return nil
	}
	return []string{fmt.Sprintf("%s=%s is above the replication factor %d, which counts instead", key, text, replicationFactor)}
}

// notEnforced says plainly which of the set topic configs do nothing yet.
func notEnforced(configs cluster.Configs) []string {
	var notes []string
	for _, e := range configs {
		k, ok := cluster.TopicKey(e.Key)
		switch {
		case !ok || e.Value == k.Default:
		case e.Key == "cleanup.policy" && strings.Contains(e.Value, "compact"):
			notes = append(notes, "cleanup.policy="+e.Value+": compaction is stored and reported but not enforced yet; no record is removed by key")
		case !k.Enforced:
			notes = append(notes, fmt.Sprintf("%s=%s is stored and reported but not enforced yet", e.Key, e.Value))
		}
	}
	return notes
}
