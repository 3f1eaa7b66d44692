package cluster

import "encoding/binary"

// Keys of the trees. Numbers are big-endian, so that the order of bytes is the order of numbers: iteration, snapshots and every effect that
// Apply computes over all partitions follow it.
const (
	topicKeyLen     = 16
	partitionKeyLen = topicKeyLen + 4
	brokerKeyLen    = 4
	tombstoneKeyLen = 16 + partitionKeyLen
)

func topicKey(id TopicID) [topicKeyLen]byte { return id }

func partitionKey(tp TopicPartition) [partitionKeyLen]byte {
	var k [partitionKeyLen]byte
	copy(k[:], tp.Topic[:])
	binary.BigEndian.PutUint32(k[topicKeyLen:], uint32(tp.Partition))
	return k
}

func parsePartitionKey(k []byte) TopicPartition {
	var tp TopicPartition
	copy(tp.Topic[:], k)
	tp.Partition = int32(binary.BigEndian.Uint32(k[topicKeyLen:]))
	return tp
}

func brokerKey(id BrokerID) [brokerKeyLen]byte {
	var k [brokerKeyLen]byte
	binary.BigEndian.PutUint32(k[:], uint32(id))
	return k
}

func parseBrokerKey(k []byte) BrokerID { return BrokerID(binary.BigEndian.Uint32(k)) }

// tombstoneKey puts the directory first: a broker asks for the tombstones of its own directory.
func tombstoneKey(t Tombstone) [tombstoneKeyLen]byte {
	var k [tombstoneKeyLen]byte
	copy(k[:], t.Directory[:])
	tp := partitionKey(t.Partition)
	copy(k[16:], tp[:])
	return k
}

func parseTombstoneKey(k []byte) Tombstone {
	var t Tombstone
	copy(t.Directory[:], k)
	t.Partition = parsePartitionKey(k[16:])
	return t
}

// configKey is the kind followed by the name.
func configKey(r ConfigResource) []byte {
	return append([]byte{byte(r.Kind)}, r.Name...)
}

func parseConfigKey(k []byte) ConfigResource {
	return ConfigResource{Kind: ConfigKind(k[0]), Name: string(k[1:])}
}
