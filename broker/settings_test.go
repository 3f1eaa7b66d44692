package broker

import (
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
)

// TestGroupSettings: a broker's dynamic configs are stronger than the cluster's, and both than its own configuration, which counts where neither says anything.
func TestGroupSettings(t *testing.T) {
	m := newMetadata(t, 2)
	b := &Broker{id: 1, options: Options{Groups: consumergroup.DefaultConfig()}}
	b.options.Groups.OffsetsRetention, b.options.Groups.Group.MaxMembers = 20*time.Second, 7
	if got := b.groupSettings(m.state.Image()); got != b.options.Groups.Settings() {
		t.Errorf("with nothing set: %+v", got)
	}
	set := func(res cluster.ConfigResource, key, value string) {
		m.apply(cluster.AlterConfigs{Resource: res, Ops: []cluster.ConfigOp{{Key: key, Value: value}}})
	}
	all := cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}
	set(all, "group.max.size", "3")
	set(all, "group.min.session.timeout.ms", "6000")
	set(all, "group.max.session.timeout.ms", "9000")
	set(all, "group.initial.rebalance.delay.ms", "0")
	set(all, "offset.metadata.max.bytes", "10")
	set(all, "offsets.retention.minutes", "2")
	want := consumergroup.Settings{MinSession: 6 * time.Second, MaxSession: 9 * time.Second, MaxMembers: 3, MaxOffsetMetadata: 10, OffsetsRetention: 2 * time.Minute}
	if got := b.groupSettings(m.state.Image()); got != want {
		t.Errorf("of the cluster: %+v, want %+v", got, want)
	}
	set(cluster.ConfigResource{Kind: cluster.ConfigBroker, Name: "1"}, "group.max.size", "5")
	if got := b.groupSettings(m.state.Image()); got.MaxMembers != 5 {
		t.Errorf("of the broker: %+v", got)
	}
}

// TestWithOwn: what is reported as effective is what counts.
func TestWithOwn(t *testing.T) {
	m := newMetadata(t, 2)
	m.apply(cluster.AlterConfigs{Resource: cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}, Ops: []cluster.ConfigOp{{Key: "num.partitions", Value: "4"}}})
	b := &Broker{id: 1, options: Options{Groups: consumergroup.DefaultConfig(), DefaultPartitions: 6, DefaultReplication: 3, LagMax: 10 * time.Second}}
	want := map[string]struct {
		value  string
		source cluster.ConfigSource
	}{
		"num.partitions": {"4", cluster.SourceClusterDefault}, "default.replication.factor": {"3", cluster.SourceStatic}, "group.max.size": {"1000", cluster.SourceStatic},
		"replica.lag.time.max.ms": {"10000", cluster.SourceDefault}, "group.min.session.timeout.ms": {"1000", cluster.SourceStatic},
	}
	for _, e := range b.withOwn(m.state.Image().DescribeBrokerConfig(1)) {
		if w, ok := want[e.Key.Name]; ok && (e.Value != w.value || e.Source != w.source) {
			t.Errorf("%s is %s from %d, want %+v", e.Key.Name, e.Value, e.Source, w)
		}
	}
}
