package admission

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

var (
	plainID     = cluster.TopicID{1}
	compactedID = cluster.TopicID{2}
	wall        = time.UnixMilli(1_800_000_000_000)
)

func testChecker() *Checker {
	tx := cluster.EmptyImage().Txn()
	tx.PutTopic(plainTopic("1000"))
	tx.PutTopic(&cluster.Topic{ID: compactedID, Name: "compacted", Partitions: 1, ReplicationFactor: 1, Configs: cluster.Configs{{Key: "cleanup.policy", Value: "compact"}}})
	image := tx.Commit(1)
	return NewChecker(Config{Image: func() *cluster.Image { return image }, MaxDecompressed: 1 << 20, Now: func() time.Time { return wall }})
}

func plainTopic(maxBytes string) *cluster.Topic {
	return &cluster.Topic{ID: plainID, Name: "plain", Partitions: 1, ReplicationFactor: 1, Configs: cluster.Configs{{Key: "max.message.bytes", Value: maxBytes}}}
}

func built(t testing.TB, opts record.BuilderOptions, timestamp int64, keys ...string) []byte {
	t.Helper()
	b := record.NewBuilder(opts)
	for _, key := range keys {
		var k []byte
		if key != "" {
			k = []byte(key)
		}
		b.Append(timestamp, k, make([]byte, 100), nil)
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return batch.Bytes()
}

func TestCheck_WhatMayNotEnterALog(t *testing.T) {
	now := wall.UnixMilli()
	good := built(t, record.BuilderOptions{}, now, "k")
	damaged := bytes.Clone(good)
	damaged[len(damaged)-1] ^= 1
	for name, x := range map[string]struct {
		id     cluster.TopicID
		topic  string
		batch  []byte
		want   cluster.Code
		blamed []int32
	}{
		"good":                         {id: plainID, batch: good},
		"good, by name":                {topic: "plain", batch: good},
		"a topic that is not there":    {topic: "new", batch: good},
		"nothing":                      {id: plainID, want: cluster.CodeInvalidRecord},
		"damaged":                      {id: plainID, batch: damaged, want: cluster.CodeCorrupt},
		"two batches":                  {id: plainID, batch: append(bytes.Clone(good), good...), want: cluster.CodeInvalidRecord},
		"above max.message.bytes":      {id: plainID, batch: built(t, record.BuilderOptions{}, now, slices.Repeat([]string{"k"}, 20)...), want: cluster.CodeTooLarge},
		"its name has the same bounds": {topic: "plain", batch: built(t, record.BuilderOptions{}, now, slices.Repeat([]string{"k"}, 20)...), want: cluster.CodeTooLarge},
		"from the year 2100":           {id: plainID, batch: built(t, record.BuilderOptions{}, 4_102_444_800_000, "k"), want: cluster.CodeInvalidTimestamp, blamed: []int32{0}},
		"no key where keys are needed": {id: compactedID, batch: built(t, record.BuilderOptions{}, now, "a", "", "b"), want: cluster.CodeInvalidRecord, blamed: []int32{1}},
	} {
		refusal, blamed := testChecker().Check(x.id, x.topic, bytes.Clone(x.batch))
		got := cluster.CodeNone
		if refusal != nil {
			got = refusal.Code
		}
		if got != x.want || !slices.Equal(blamed, x.blamed) {
			t.Errorf("%s: %v, records %v; want %v, %v", name, refusal, blamed, x.want, x.blamed)
		}
	}
}

// The limits of a topic follow the metadata.
func TestCheck_LimitsFollowTheMetadata(t *testing.T) {
	c := testChecker()
	image := c.cfg.Image()
	c.cfg.Image = func() *cluster.Image { return image }
	batch := built(t, record.BuilderOptions{}, wall.UnixMilli(), slices.Repeat([]string{"k"}, 20)...)
	if refusal, _ := c.Check(plainID, "", batch); refusal == nil {
		t.Fatal("a batch above the bound has passed")
	}
	tx := image.Txn()
	tx.PutTopic(plainTopic("100000"))
	image = tx.Commit(2)
	if refusal, _ := c.Check(plainID, "", batch); refusal != nil {
		t.Errorf("the bound was raised: %v", refusal)
	}
}

// Whatever the bytes are, Check answers, and what it lets in is one batch whose records can be read.
func FuzzCheck(f *testing.F) {
	for _, codec := range []record.Codec{record.CodecNone, record.CodecGzip, record.CodecSnappy, record.CodecLZ4, record.CodecZstd} {
		f.Add(built(f, record.BuilderOptions{Codec: codec}, wall.UnixMilli(), "a", "b"))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if refusal, _ := testChecker().Check(plainID, "", raw); refusal != nil {
			return
		}
		batch, err := record.Parse(raw)
		if err != nil || batch.Size() != len(raw) || batch.IsTransactional() {
			t.Fatalf("let in: %v, %d of %d bytes", err, batch.Size(), len(raw))
		}
		if err := batch.Validate(record.Limits{MaxDecompressed: 1 << 20}); err != nil {
			t.Fatalf("let in: %v", err)
		}
	})
}
