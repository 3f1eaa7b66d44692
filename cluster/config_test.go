package cluster

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/record"
)

func TestConfigTablesAreWellFormed(t *testing.T) {
	for name, table := range map[string][]ConfigKey{"topic": TopicKeys(), "broker": BrokerKeys()} {
		if !slices.IsSortedFunc(table, func(a, b ConfigKey) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s keys are not sorted", name)
		}
		for i := range table {
			k := &table[i]
			if i > 0 && table[i-1].Name == k.Name {
				t.Errorf("%s twice", k.Name)
			}
			if k.Doc == "" || k.Type.String() == "UNKNOWN" {
				t.Errorf("%s has no documentation or type", k.Name)
			}
			if k.Default == "" {
				continue // decided elsewhere, or an empty list
			}
			if v, err := k.Parse(k.Default); err != nil || v != k.Default {
				t.Errorf("%s: its own default %q is not canonical: %q %v", k.Name, k.Default, v, err)
			}
		}
	}
}

// Every name that Kafka 4 knows for a topic must be accepted: tools set them without asking.
func TestEveryKafkaTopicConfigIsKnown(t *testing.T) {
	names := `cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level delete.retention.ms file.delete.delay.ms
		flush.messages flush.ms follower.replication.throttled.replicas index.interval.bytes leader.replication.throttled.replicas local.retention.bytes
		local.retention.ms max.compaction.lag.ms max.message.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type
		min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate remote.log.copy.disable remote.log.delete.on.disable
		remote.storage.enable retention.bytes retention.ms segment.bytes segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable`
	for _, name := range strings.Fields(names) {
		if _, ok := TopicKey(name); !ok {
			t.Errorf("%s is not known", name)
		}
	}
}

func TestParseConfigValues(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"retention.ms", " 1000 ", "1000"},
		{"retention.ms", "-1", "-1"},
		{"cleanup.policy", "compact , delete", "compact,delete"},
		{"unclean.leader.election.enable", "TRUE", "true"},
		{"min.cleanable.dirty.ratio", "0.25", "0.25"},
		{"follower.replication.throttled.replicas", "", ""},
		{"segment.bytes", "2147483647", "2147483647"},
	} {
		got, err := ParseConfigs(ConfigTopic, []ConfigEntry{{c.key, c.value}})
		if err != nil {
			t.Errorf("%s=%q: %v", c.key, c.value, err)
		} else if v, _ := got.Get(c.key); v != c.want {
			t.Errorf("%s=%q: %q, want %q", c.key, c.value, v, c.want)
		}
	}
	refused := []ConfigEntry{
		{"no.such.key", "1"}, {"retention.ms", "-2"}, {"retention.ms", "7d"}, {"retention.ms", ""}, {"retention.ms", "9223372036854775808"},
		{"segment.bytes", "2147483648"}, // case 21: past the format's limit
		{"segment.bytes", "0"}, {"cleanup.policy", "shred"}, {"cleanup.policy", ""}, {"unclean.leader.election.enable", "yes"},
		{"min.cleanable.dirty.ratio", "1.5"}, {"min.cleanable.dirty.ratio", "NaN"}, {"flush.policy", "never"}, {"min.insync.replicas", "0"},
		{"remote.storage.enable", "true"}, {"compression.type", "brotli"}, {"num.partitions", "3"},
		{"follower.replication.throttled.replicas", "\xff"}, {"follower.replication.throttled.replicas", strings.Repeat("1", maxConfigValue+1)},
	}
	for _, e := range refused {
		if got, err := ParseConfigs(ConfigTopic, []ConfigEntry{e}); code(err) != CodeInvalidConfig {
			t.Errorf("%s=%q: %v %v", e.Key, e.Value, got, err)
		}
	}
	twice := []ConfigEntry{{"retention.ms", "1"}, {"retention.ms", "2"}}
	if _, err := ParseConfigs(ConfigTopic, twice); code(err) != CodeInvalidConfig {
		t.Error("a key given twice passes")
	}
	crossed := []ConfigEntry{{"min.compaction.lag.ms", "10"}, {"max.compaction.lag.ms", "5"}}
	if _, err := ParseConfigs(ConfigTopic, crossed); code(err) != CodeInvalidConfig {
		t.Error("min.compaction.lag.ms above max.compaction.lag.ms passes")
	}
}

func TestAlterConfigs(t *testing.T) {
	c, err := Configs(nil).Alter(ConfigTopic, []ConfigOp{{Key: "retention.ms", Value: "5"}, {Key: "flush.policy", Value: "os"}, {Key: "retention.ms", Delete: true}})
	if err != nil || len(c) != 1 || c[0] != (ConfigEntry{"flush.policy", "os"}) {
		t.Fatal(c, err)
	}
	if same, err := c.Alter(ConfigTopic, []ConfigOp{{Key: "segment.ms", Delete: true}}); err != nil || len(same) != 1 {
		t.Fatal(same, err)
	}
	if _, err := c.Alter(ConfigTopic, []ConfigOp{{Key: "nonsense", Delete: true}}); code(err) != CodeInvalidConfig {
		t.Fatal("an unknown key is removed:", err)
	}
	if _, err := c.Alter(ConfigBroker, []ConfigOp{{Key: "log.retention.ms", Value: "1"}}); code(err) != CodeInvalidConfig {
		t.Fatal("a cluster-wide key is set on one broker:", err)
	}
	if _, err := c.Alter(ConfigClusterDefault, []ConfigOp{{Key: "log.retention.ms", Value: "1"}}); err != nil {
		t.Fatal(err)
	}
}

func TestParseConfigOpsGivesCanonicalValues(t *testing.T) {
	ops := []ConfigOp{{Key: "unclean.leader.election.enable", Value: " TRUE "}, {Key: "retention.ms", Delete: true}, {Key: "cleanup.policy", Value: "compact , delete"}}
	got, err := ParseConfigOps(ConfigTopic, nil, ops)
	want := []ConfigOp{{Key: "unclean.leader.election.enable", Value: "true"}, {Key: "retention.ms", Delete: true}, {Key: "cleanup.policy", Value: "compact,delete"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v (%v)", got, err)
	}
	if _, err := ParseConfigOps(ConfigTopic, Configs{{"max.compaction.lag.ms", "5"}}, []ConfigOp{{Key: "min.compaction.lag.ms", Value: "6"}}); code(err) != CodeInvalidConfig {
		t.Errorf("values that do not go together: %v", err)
	}
}

func TestTopicConfigPrecedence(t *testing.T) {
	topic := &Topic{ID: id(1), Name: "t", ReplicationFactor: 3, Configs: Configs{{"flush.policy", "interval"}, {"retention.ms", "5000"}}}
	txn := EmptyImage().Txn()
	txn.PutConfigs(ConfigResource{Kind: ConfigClusterDefault}, Configs{{"log.retention.ms", "7000"}, {"log.segment.bytes", "4096"}, {"min.insync.replicas", "1"}})
	i := txn.Commit(1)
	want := DefaultTopicConfig()
	want.FlushPolicy, want.RetentionAge, want.SegmentBytes, want.MinISR = FlushInterval, 5*time.Second, 4096, 1
	if got := i.TopicConfig(topic); got != want {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	if got := EmptyImage().TopicConfig(&Topic{}); got != DefaultTopicConfig() {
		t.Fatalf("with nothing set: %+v", got)
	}
	source := map[string]ConfigSource{"flush.policy": SourceTopic, "segment.bytes": SourceClusterDefault, "segment.ms": SourceDefault}
	for _, e := range i.DescribeTopicConfig(topic) {
		if s, ok := source[e.Key.Name]; ok && s != e.Source {
			t.Errorf("%s: source %d, want %d", e.Key.Name, e.Source, s)
		}
	}
}

// The built-in defaults are written twice, as values and as the table's text: they must agree.
func TestDefaultsAgreeWithTheTable(t *testing.T) {
	got := DefaultTopicConfig()
	for _, k := range TopicKeys() {
		if k.Name != "min.insync.replicas" { // unset derives from the replication factor
			got.set(k.Name, k.Default)
		}
	}
	if want := DefaultTopicConfig(); got != want {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func TestTopicConfigReadsEveryEnforcedKey(t *testing.T) {
	other := map[string]string{"cleanup.policy": "compact", "compression.type": "zstd", "flush.policy": "os", "message.timestamp.type": "LogAppendTime",
		"unclean.leader.election.enable": "true"}
	for _, k := range TopicKeys() {
		if !k.Enforced {
			continue
		}
		v := other[k.Name]
		if v == "" {
			v = "77"
		}
		cfg := DefaultTopicConfig()
		if cfg.set(k.Name, v); cfg == DefaultTopicConfig() {
			t.Errorf("%s=%s changes nothing though it is enforced", k.Name, v)
		}
	}
}

func TestMinISRDerivesFromTheReplicationFactor(t *testing.T) {
	for rf, want := range map[int]int{1: 1, 2: 1, 3: 2, 4: 3, 5: 3} {
		if got := EffectiveMinISR(0, rf); got != want {
			t.Errorf("RF %d: %d, want %d", rf, got, want)
		}
	}
	i := EmptyImage()
	grows := &Partition{Replicas: []BrokerID{1, 2, 3}, Adding: []BrokerID{2, 3}}
	if got := i.MinISR(&Topic{}, grows); got != 1 {
		t.Errorf("while RF 1 grows to 3: %d, want 1", got)
	}
	p := &Partition{Replicas: []BrokerID{1, 2, 3, 4}, Adding: []BrokerID{4}, Removing: []BrokerID{1}}
	for set, want := range map[string]int{"": 2, "1": 1, "3": 3, "9": 3} {
		topic := &Topic{}
		if set != "" {
			topic.Configs = Configs{{"min.insync.replicas", set}}
		}
		if got := i.MinISR(topic, p); got != want {
			t.Errorf("min.insync.replicas=%q: %d, want %d", set, got, want)
		}
	}
}

func TestBrokerConfigPrecedence(t *testing.T) {
	txn := EmptyImage().Txn()
	txn.PutConfigs(ConfigResource{Kind: ConfigClusterDefault}, Configs{{"max.connections", "50"}, {"offsets.retention.minutes", "2"}})
	txn.PutConfigs(ConfigResource{Kind: ConfigBroker, Name: "4"}, Configs{{"max.connections", "9"}})
	i := txn.Commit(1)
	if a, b := i.BrokerConfig(4), i.BrokerConfig(5); a.MaxConnections != 9 || b.MaxConnections != 50 || b.OffsetsRetention != 2*time.Minute {
		t.Fatalf("%+v\n%+v", a, b)
	}
	if c := i.BrokerConfig(1); c.ReplicaLagMax != 10*time.Second || !c.AutoLeaderRebalance || c.AutoCreate != "" || c.MaxConnectionsPerIP != math.MaxInt32 {
		t.Fatalf("defaults: %+v", c)
	}
}

func TestDescribeBrokerConfigSaysWhereValuesComeFrom(t *testing.T) {
	txn := EmptyImage().Txn()
	txn.PutConfigs(ConfigResource{Kind: ConfigClusterDefault}, Configs{{"log.retention.ms", "5"}, {"max.connections", "50"}})
	txn.PutConfigs(ConfigResource{Kind: ConfigBroker, Name: "4"}, Configs{{"max.connections", "9"}})
	i := txn.Commit(1)
	for _, c := range []struct {
		broker BrokerID
		key    string
		value  string
		source ConfigSource
	}{
		{4, "max.connections", "9", SourceBroker},
		{5, "max.connections", "50", SourceClusterDefault},
		{NoBroker, "max.connections", "50", SourceClusterDefault},
		{4, "log.retention.ms", "5", SourceClusterDefault},
		{4, "num.partitions", "0", SourceDefault},
	} {
		found := false
		for _, e := range i.DescribeBrokerConfig(c.broker) {
			if e.Key.Name == c.key {
				found = true
				if e.Value != c.value || e.Source != c.source {
					t.Errorf("%d %s: %q from %d, want %q from %d", c.broker, c.key, e.Value, e.Source, c.value, c.source)
				}
			}
		}
		if !found {
			t.Errorf("%s is not listed", c.key)
		}
	}
	if got := i.Configs(ConfigResource{Kind: ConfigBroker, Name: "5"}); got != nil {
		t.Errorf("broker 5 has %v", got)
	}
}

func TestCompressionType(t *testing.T) {
	var c CompressionType
	setCompression(&c, "producer")
	if _, fixed := c.Codec(); fixed {
		t.Error("producer fixes a codec")
	}
	setCompression(&c, "uncompressed")
	if codec, fixed := c.Codec(); !fixed || codec != record.CodecNone {
		t.Error("uncompressed:", codec, fixed)
	}
}
