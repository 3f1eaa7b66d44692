package cluster

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxConfigValue bounds one configuration value in bytes: all of them are in the memory of every broker.
const maxConfigValue = 16 << 10

// ConfigType is the type of a configuration value, in the words of Kafka's DescribeConfigs.
type ConfigType int8

// The types of configuration values. The numbers are those of Kafka's wire.
const (
	ConfigBoolean ConfigType = 1
	ConfigString  ConfigType = 2
	ConfigInt     ConfigType = 3
	ConfigLong    ConfigType = 5
	ConfigDouble  ConfigType = 6
	ConfigList    ConfigType = 7
)

// String gives the name that Kafka's tools print.
func (t ConfigType) String() string {
	switch t {
	case ConfigBoolean:
		return "BOOLEAN"
	case ConfigString:
		return "STRING"
	case ConfigInt:
		return "INT"
	case ConfigLong:
		return "LONG"
	case ConfigDouble:
		return "DOUBLE"
	case ConfigList:
		return "LIST"
	}
	return "UNKNOWN"
}

// ConfigKey describes one configuration key.
type ConfigKey struct {
	Name    string
	Type    ConfigType
	Default string
	Doc     string
	// Enforced says that the value has its effect. A key that is not enforced is accepted, stored and reported, because tools set and read it.
	Enforced bool
	// Synonym is, for a topic key, the cluster-default key that gives its default; empty when there is none.
	Synonym string
	// ClusterWide keys may be set for the cluster default only: a value that differed between brokers would make them disagree.
	ClusterWide bool

	// min and max bound Int, Long and Double; oneOf the items of String and List when it is not nil.
	min, max float64
	oneOf    []string
	// set takes the value of a topic key over; nil where no code asks for it.
	set func(c *TopicConfig, value string)
}

// Parse checks a value and gives it back in canonical form (no surrounding blanks, lower-case booleans). Numbers are plain decimal, in the
// unit that the key's name ends in.
func (k *ConfigKey) Parse(value string) (string, error) {
	v := strings.TrimSpace(value)
	if !utf8.ValidString(v) || len(v) > maxConfigValue {
		return "", Refuse(CodeInvalidConfig, fmt.Sprintf("the value for %s is no text of at most %d bytes", k.Name, maxConfigValue))
	}
	switch k.Type {
	case ConfigBoolean:
		v = strings.ToLower(v)
		if v != "true" && v != "false" {
			return "", k.refuse(value, "true or false is needed")
		}
		if k.oneOf != nil && !slices.Contains(k.oneOf, v) {
			return "", k.refuse(value, "only "+strings.Join(k.oneOf, ", ")+" is possible")
		}
	case ConfigInt, ConfigLong:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return "", k.refuse(value, "a whole number is needed")
		}
		if err := k.checkRange(value, float64(n)); err != nil {
			return "", err
		}
		v = strconv.FormatInt(n, 10)
	case ConfigDouble:
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return "", k.refuse(value, "a number is needed")
		}
		if err := k.checkRange(value, f); err != nil {
			return "", err
		}
	case ConfigList:
		for _, item := range splitList(v) {
			if k.oneOf != nil && !slices.Contains(k.oneOf, item) {
				return "", k.refuse(value, fmt.Sprintf("%q is none of %s", item, strings.Join(k.oneOf, ", ")))
			}
		}
		v = strings.Join(splitList(v), ",")
		if v == "" && k.oneOf != nil {
			return "", k.refuse(value, "at least one of "+strings.Join(k.oneOf, ", ")+" is needed")
		}
	case ConfigString:
		if k.oneOf != nil && !slices.Contains(k.oneOf, v) {
			return "", k.refuse(value, "one of "+strings.Join(k.oneOf, ", ")+" is needed")
		}
	}
	return v, nil
}

func (k *ConfigKey) checkRange(value string, f float64) error {
	if f < k.min {
		return k.refuse(value, "the smallest allowed value is "+strconv.FormatFloat(k.min, 'f', -1, 64))
	}
	if f > k.max {
		return k.refuse(value, "the largest allowed value is "+strconv.FormatFloat(k.max, 'f', -1, 64))
	}
	return nil
}

func (k *ConfigKey) refuse(value, why string) error {
	return Refuse(CodeInvalidConfig, fmt.Sprintf("invalid value %q for %s: %s", value, k.Name, why))
}

// splitList splits a comma-separated list, without blanks and empty items.
func splitList(v string) []string {
	var out []string
	for item := range strings.SplitSeq(v, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// findKey looks a key up in a table sorted by name.
func findKey(table []ConfigKey, name string) (*ConfigKey, bool) {
	i, ok := slices.BinarySearchFunc(table, name, func(k ConfigKey, n string) int { return strings.Compare(k.Name, n) })
	if !ok {
		return nil, false
	}
	return &table[i], true
}

func sortKeys(table []ConfigKey) {
	slices.SortFunc(table, func(a, b ConfigKey) int { return strings.Compare(a.Name, b.Name) })
}

// TopicKey describes a topic configuration key.
func TopicKey(name string) (*ConfigKey, bool) { return findKey(topicKeys[:], name) }

// TopicKeys lists every topic configuration key in the order of names. The list must not be changed.
func TopicKeys() []ConfigKey { return topicKeys[:] }

// BrokerKey describes a dynamic configuration key of brokers and the cluster default.
func BrokerKey(name string) (*ConfigKey, bool) { return findKey(brokerKeys, name) }

// BrokerKeys lists every dynamic key of brokers and the cluster default in the order of names. The list must not be changed.
func BrokerKeys() []ConfigKey { return brokerKeys }

// ParseConfigs checks a set of values for a resource of one kind and gives it back sorted and in canonical form. A key given twice is
// refused. The error is an *Error with CodeInvalidConfig.
func ParseConfigs(kind ConfigKind, in []ConfigEntry) (Configs, error) {
	out := Configs{}
	for _, e := range in {
		if _, twice := out.Get(e.Key); twice {
			return nil, Refuse(CodeInvalidConfig, fmt.Sprintf("the config %s is given twice", e.Key))
		}
		v, err := parseConfig(kind, e.Key, e.Value)
		if err != nil {
			return nil, err
		}
		out = out.With(e.Key, v)
	}
	if kind == ConfigTopic {
		if err := checkTogether(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ParseConfigOps checks changes of the set values c of a resource of one kind and gives them back with canonical values: the form in which they are
// proposed, for controller/state takes values as they are. The error is an *Error with CodeInvalidConfig.
func ParseConfigOps(kind ConfigKind, c Configs, ops []ConfigOp) ([]ConfigOp, error) {
	if _, err := c.Alter(kind, ops); err != nil {
		return nil, err
	}
	out := slices.Clone(ops)
	for i, op := range out {
		if op.Delete {
			continue
		}
		v, err := parseConfig(kind, op.Key, op.Value)
		if err != nil {
			return nil, err
		}
		out[i].Value = v
	}
	return out, nil
}

// Alter applies ops in order to the set values c of a resource of one kind and gives the new set. The error is an *Error with
// CodeInvalidConfig. Removing what is not set changes nothing.
func (c Configs) Alter(kind ConfigKind, ops []ConfigOp) (Configs, error) {
	out := c
	for _, op := range ops {
		if op.Delete {
			if _, set := out.Get(op.Key); set {
				out = out.Without(op.Key)
			} else if _, err := lookupKey(kind, op.Key); err != nil {
				return nil, err
			}
			continue
		}
		v, err := parseConfig(kind, op.Key, op.Value)
		if err != nil {
			return nil, err
		}
		out = out.With(op.Key, v)
	}
	if kind == ConfigTopic {
		if err := checkTogether(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func lookupKey(kind ConfigKind, key string) (*ConfigKey, error) {
	find := TopicKey
	if kind != ConfigTopic {
		find = BrokerKey
	}
	k, ok := find(key)
	if !ok {
		return nil, Refuse(CodeInvalidConfig, fmt.Sprintf("unknown %s config %q", kind, key))
	}
	return k, nil
}

func parseConfig(kind ConfigKind, key, value string) (string, error) {
	k, err := lookupKey(kind, key)
	if err != nil {
		return "", err
	}
	if kind == ConfigBroker && k.ClusterWide {
		return "", Refuse(CodeInvalidConfig, fmt.Sprintf("%s holds for the whole cluster: set it on the cluster default, not on one broker", key))
	}
	return k.Parse(value)
}

// String names the kind for people.
func (k ConfigKind) String() string {
	switch k {
	case ConfigTopic:
		return "topic"
	case ConfigBroker:
		return "broker"
	}
	return "cluster"
}
