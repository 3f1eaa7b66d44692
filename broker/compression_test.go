package broker

import (
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// Case 104: a batch that is to be stored without compression may expand to what the topic takes, and not to what a door decompresses.
func TestCase104_WhatIsStoredPlainIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		topic, all cluster.Configs
		codec      record.Codec
		bound      int
		asked      bool
	}{
		"the producer chooses":     {},
		"zstd":                     {topic: cluster.Configs{{Key: compressionType, Value: "zstd"}}, codec: record.CodecZstd, bound: maxDecompressed, asked: true},
		"none":                     {topic: cluster.Configs{{Key: compressionType, Value: "uncompressed"}, {Key: "max.message.bytes", Value: "1000"}}, bound: 1000, asked: true},
		"none, in all topics":      {all: cluster.Configs{{Key: compressionType, Value: "uncompressed"}}, bound: int(cluster.DefaultTopicConfig().MaxMessageBytes), asked: true},
		"none, and no bound to it": {topic: cluster.Configs{{Key: compressionType, Value: "uncompressed"}, {Key: "max.message.bytes", Value: "2000000000"}}, bound: maxDecompressed, asked: true},
	} {
		tx := cluster.EmptyImage().Txn()
		topic := &cluster.Topic{ID: cluster.TopicID{1}, Name: "t", Partitions: 1, ReplicationFactor: 1, Configs: test.topic}
		tx.PutTopic(topic)
		tx.PutConfigs(cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}, test.all)
		codec, bound, asked := storedCodec(tx.Commit(1), topic)
		if asked != test.asked || asked && (codec != test.codec || bound != test.bound) {
			t.Errorf("%s: %v, %d, %v", name, codec, bound, asked)
		}
	}
}
