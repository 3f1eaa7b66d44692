package cluster

import (
	"strconv"
	"time"
)

// brokerKeys is every dynamic key of brokers and the cluster default: the defaults of topic keys, under the names that Kafka gives them, and what Moldau's
// brokers and coordinators take from metadata. Sorted by name; never changed.
var brokerKeys = buildBrokerKeys()

const whereUnset = " Unset, the broker's own configuration decides."

// ownKeys are the dynamic keys that are not the default of a topic key.
var ownKeys = [...]ConfigKey{
	{Name: "auto.create.topics.enable", Type: ConfigBoolean, Default: "", ClusterWide: true, Enforced: true,
		Doc: "Create a topic when a client asks for one that does not exist. Unset, the broker's own configuration decides."},
	{Name: "auto.leader.rebalance.enable", Type: ConfigBoolean, Default: "true", ClusterWide: true, Enforced: true,
		Doc: "Move leadership back to the preferred replica when it is in sync."},
	{Name: "default.replication.factor", Type: ConfigInt, Default: "0", min: 0, max: 32767, ClusterWide: true, Enforced: true,
		Doc: "The replication factor of topics created without one. 0: the broker's own configuration decides (3 where three or more brokers were expected, else 1)."},
	{Name: "follower.replication.throttled.rate", Type: ConfigLong, Default: "9223372036854775807", min: 0, max: maxInt64,
		Doc: "Bytes a second that throttled followers may fetch. Accepted and reported; replication is not throttled yet."},
	{Name: "group.initial.rebalance.delay.ms", Type: ConfigInt, Default: "3000", min: 0, max: maxInt32, ClusterWide: true, Enforced: true,
		Doc: "How long a new classic group waits for more members before its first rebalance." + whereUnset},
	{Name: "group.max.session.timeout.ms", Type: ConfigInt, Default: "1800000", min: 1, max: maxInt32, ClusterWide: true, Enforced: true,
		Doc: "The longest session timeout that a group member may ask for." + whereUnset},
	{Name: "group.max.size", Type: ConfigInt, Default: "2147483647", min: 1, max: maxInt32, ClusterWide: true, Enforced: true,
		Doc: "The most members that a group may have." + whereUnset},
	{Name: "group.min.session.timeout.ms", Type: ConfigInt, Default: "6000", min: 1, max: maxInt32, ClusterWide: true, Enforced: true,
		Doc: "The shortest session timeout that a group member may ask for." + whereUnset},
	{Name: "leader.replication.throttled.rate", Type: ConfigLong, Default: "9223372036854775807", min: 0, max: maxInt64,
		Doc: "Bytes a second that throttled leaders may send. Accepted and reported; replication is not throttled yet."},
	{Name: "max.connections", Type: ConfigInt, Default: "2147483647", min: 0, max: maxInt32, Enforced: true,
		Doc: "The most Kafka connections of one broker, at most 10,000."},
	{Name: "max.connections.per.ip", Type: ConfigInt, Default: "2147483647", min: 0, max: maxInt32, Enforced: true,
		Doc: "The most Kafka connections of one broker from one address, at most 4,000."},
	{Name: "num.partitions", Type: ConfigInt, Default: "0", min: 0, max: maxInt32, ClusterWide: true, Enforced: true,
		Doc: "The partitions of topics created without a number. 0: the broker's own configuration decides (6)."},
	{Name: "offset.metadata.max.bytes", Type: ConfigInt, Default: "4096", min: 0, max: 1 << 20, ClusterWide: true, Enforced: true,
		Doc: "The largest metadata text of a committed offset." + whereUnset},
	{Name: "offsets.retention.minutes", Type: ConfigInt, Default: "10080", min: 1, max: maxInt32, ClusterWide: true, Enforced: true,
		Doc: "How long the committed offsets of a group stay after the group became empty." + whereUnset},
	{Name: "producer.id.expiration.ms", Type: ConfigInt, Default: "86400000", min: 1, max: maxInt32, ClusterWide: true, Enforced: true,
		Doc: "How long a partition remembers a producer that no longer writes to it." + whereUnset},
	{Name: "replica.lag.time.max.ms", Type: ConfigLong, Default: "10000", min: 100, max: maxInt64, ClusterWide: true, Enforced: true,
		Doc: "How long a follower may be behind before it leaves the ISR." + whereUnset},
}

// buildBrokerKeys joins ownKeys with the synonyms of topic keys and sorts them.
func buildBrokerKeys() []ConfigKey {
	out := append([]ConfigKey(nil), ownKeys[:]...)
	for _, k := range topicKeys {
		if k.Synonym == "" {
			continue
		}
		k.Doc = "The default of the topic config " + k.Name + ". " + k.Doc
		k.Name, k.Synonym, k.ClusterWide = k.Synonym, "", true
		out = append(out, k)
	}
	sortKeys(out)
	return out
}

// BrokerConfig is the effective dynamic configuration of one broker. Two of them can be compared
// with ==.
type BrokerConfig struct {
	// AutoCreate is "true", "false", or empty where the broker's own configuration decides.
	AutoCreate           string
	AutoLeaderRebalance  bool
	ReplicationFactor    int // 0: the broker's own configuration decides
	Partitions           int // 0: the broker's own configuration decides
	InitialRebalance     time.Duration
	MinSessionTimeout    time.Duration
	MaxSessionTimeout    time.Duration
	GroupMaxSize         int
	MaxConnections       int
	MaxConnectionsPerIP  int
	OffsetMetadataMax    int
	OffsetsRetention     time.Duration
	ProducerIDExpiration time.Duration
	ReplicaLagMax        time.Duration
}

// BrokerConfig gives the effective dynamic configuration of a broker: what is set on it, else the cluster default, else the built-in default.
func (i *Image) BrokerConfig(id BrokerID) BrokerConfig {
	own := i.Configs(ConfigResource{Kind: ConfigBroker, Name: strconv.Itoa(int(id))})
	base := i.clusterDefault()
	get := func(name string) string {
		if v, ok := own.Get(name); ok {
			return v
		}
		if v, ok := base.Get(name); ok {
			return v
		}
		k, _ := BrokerKey(name)
		return k.Default
	}
	num := func(name string) int {
		var n int64
		setInt(&n, get(name))
		return int(n)
	}
	millis := func(name string) (d time.Duration) {
		setMillis(&d, get(name))
		return d
	}
	return BrokerConfig{
		AutoCreate:           get("auto.create.topics.enable"),
		AutoLeaderRebalance:  get("auto.leader.rebalance.enable") == "true",
		ReplicationFactor:    num("default.replication.factor"),
		Partitions:           num("num.partitions"),
		InitialRebalance:     millis("group.initial.rebalance.delay.ms"),
		MinSessionTimeout:    millis("group.min.session.timeout.ms"),
		MaxSessionTimeout:    millis("group.max.session.timeout.ms"),
		GroupMaxSize:         num("group.max.size"),
		MaxConnections:       num("max.connections"),
		MaxConnectionsPerIP:  num("max.connections.per.ip"),
		OffsetMetadataMax:    num("offset.metadata.max.bytes"),
		OffsetsRetention:     time.Duration(num("offsets.retention.minutes")) * time.Minute,
		ProducerIDExpiration: millis("producer.id.expiration.ms"),
		ReplicaLagMax:        millis("replica.lag.time.max.ms"),
	}
}

// BrokerMillis gives a duration that is set in milliseconds on a broker, else as the cluster default; otherwise where neither is: what the broker's own
// configuration says is stronger than a built-in default.
func (i *Image) BrokerMillis(id BrokerID, key string, otherwise time.Duration) time.Duration {
	value, ok := i.Configs(ConfigResource{Kind: ConfigBroker, Name: strconv.Itoa(int(id))}).Get(key)
	if !ok {
		value, ok = i.clusterDefault().Get(key)
	}
	if ok {
		setMillis(&otherwise, value)
	}
	return otherwise
}

// BrokerInt is BrokerMillis for a number.
func (i *Image) BrokerInt(id BrokerID, key string, otherwise int64) int64 {
	value, ok := i.Configs(ConfigResource{Kind: ConfigBroker, Name: strconv.Itoa(int(id))}).Get(key)
	if !ok {
		value, ok = i.clusterDefault().Get(key)
	}
	if ok {
		setInt(&otherwise, value)
	}
	return otherwise
}

// DescribeBrokerConfig lists the effective value of every dynamic key for one broker, or for the cluster default itself with NoBroker, in
// the order of names. Keys without a value anywhere are listed with an empty one.
func (i *Image) DescribeBrokerConfig(id BrokerID) []EffectiveConfig {
	var own Configs
	if id != NoBroker {
		own = i.Configs(ConfigResource{Kind: ConfigBroker, Name: strconv.Itoa(int(id))})
	}
	base := i.clusterDefault()
	out := make([]EffectiveConfig, 0, len(brokerKeys))
	for n := range brokerKeys {
		k := &brokerKeys[n]
		e := EffectiveConfig{Key: k, Value: k.Default, Source: SourceDefault}
		if v, ok := own.Get(k.Name); ok {
			e.Value, e.Source = v, SourceBroker
		} else if v, ok := base.Get(k.Name); ok {
			e.Value, e.Source = v, SourceClusterDefault
		}
		out = append(out, e)
	}
	return out
}
