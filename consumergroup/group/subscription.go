package group

import (
	"encoding/binary"

	"github.com/moldau-log/moldau/cluster"
)

// subscription reads the topics that a member of the group subscribes to from its metadata; nil when they cannot be known. In the log none and
// not known are the same.
func (t *turn) subscription(metadata []byte) []string {
	if t.c.protocolType != ProtocolTypeConsumer {
		return nil
	}
	return subscribedTopics(metadata)
}

// subscribedTopics reads the beginning of the metadata of a consumer, which is the same in all versions (KIP-429 and others only add to it):
//
//	version int16 | count int32 | count * (length int16, name) | ...
//
// It returns nil when the metadata are something else. All that rests on it is which offsets expire and may be deleted.
func subscribedTopics(metadata []byte) []string {
	const header = 2 + 4
	if len(metadata) < header {
		return nil
	}
	count := int32(binary.BigEndian.Uint32(metadata[2:]))
	rest := metadata[header:]
	if count < 0 || count > MaxTopicsOfMember {
		return nil
	}
	names := make([]string, 0, count)
	for range count {
		if len(rest) < 2 {
			return nil
		}
		n := int(int16(binary.BigEndian.Uint16(rest)))
		if n < 0 || n > cluster.MaxTopicNameLen || len(rest) < 2+n {
			return nil
		}
		names = append(names, string(rest[2:2+n]))
		rest = rest[2+n:]
	}
	return sortedTopics(names)
}
