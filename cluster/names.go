package cluster

import "fmt"

// MaxTopicNameLen is the longest topic name in bytes, as in Kafka.
const MaxTopicNameLen = 249

// MaxGroupIDLen is the longest group id in bytes. Kafka has no bound of its own; ours keeps one id from filling a metadata entry.
const MaxGroupIDLen = 1024

// ParseTopicName checks a topic name: 1 to 249 of the characters a-z A-Z 0-9 . _ -, and neither "." nor "..". The error is an *Error with
// CodeInvalidTopicName. Names never become file names (directories are named by id), but they reach metrics, logs and other systems' files.
func ParseTopicName(name string) error {
	switch {
	case name == "":
		return Refuse(CodeInvalidTopicName, "a topic name must not be empty")
	case name == "." || name == "..":
		return Refuse(CodeInvalidTopicName, `a topic name must not be "." or ".."`)
	case len(name) > MaxTopicNameLen:
		return Refuse(CodeInvalidTopicName, fmt.Sprintf("the topic name has %d characters; at most %d are allowed", len(name), MaxTopicNameLen))
	}
	for i := range len(name) {
		if !topicNameByte(name[i]) {
			return Refuse(CodeInvalidTopicName,
				fmt.Sprintf("the topic name %q has the character %q at %d; allowed are a-z, A-Z, 0-9, '.', '_' and '-'", name, name[i:i+1], i))
		}
	}
	return nil
}

func topicNameByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return c == '.' || c == '_' || c == '-'
}

// CheckNewTopicName checks the name of a topic that is about to be created: its form, that no topic has it, and that none has it but for '.' against
// '_' (metric systems fold the two, so that one topic's numbers would be counted as the other's).
func (i *Image) CheckNewTopicName(name string) error {
	if err := ParseTopicName(name); err != nil {
		return err
	}
	other, ok := i.CollidingName(name)
	switch {
	case !ok:
		return nil
	case other == name:
		return Refuse(CodeTopicExists, fmt.Sprintf("topic %q already exists", name))
	}
	return Refuse(CodeInvalidTopicName, fmt.Sprintf("the topic name %q collides with the existing topic %q: they differ only in '.' and '_'", name, other))
}

// ParseGroupID checks a consumer group id. The error is an *Error with CodeInvalidGroup.
func ParseGroupID(group string) error {
	switch {
	case group == "":
		return Refuse(CodeInvalidGroup, "a group id must not be empty")
	case len(group) > MaxGroupIDLen:
		return Refuse(CodeInvalidGroup, fmt.Sprintf("the group id has %d bytes; at most %d are allowed", len(group), MaxGroupIDLen))
	}
	return nil
}

// ShardOf maps a group to its coordinator shard: 64-bit FNV-1a, both halves folded, modulo ShardCount. The function is part of the
// format of the metadata: it never changes in the life of a cluster.
func ShardOf(group string) ShardID {
	const (
		offset64 = 14695981039346656037
		prime64  = 1099511628211
	)
	h := uint64(offset64)
	for i := range len(group) {
		h = (h ^ uint64(group[i])) * prime64
	}
	return ShardID((h ^ h>>32) % ShardCount)
}
