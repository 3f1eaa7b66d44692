package codec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/moldau-log/moldau/cluster"
	metadatav1 "github.com/moldau-log/moldau/proto/moldau/metadata/v1"
)

func records() []cluster.SnapshotRecord {
	header := cluster.SnapshotHeader{Index: 77, Cluster: uid(9), CreatedMs: 5, FeatureLevel: 1, NextProducerID: 1001}
	for i := range header.Shards {
		header.Shards[i] = cluster.Shard{Leader: cluster.BrokerID(i%3) - 1, Epoch: cluster.ShardEpoch(i), NextSequence: int64(i) * 3}
	}
	return []cluster.SnapshotRecord{
		header,
		cluster.SnapshotBroker{Broker: &cluster.Broker{ID: 2, Epoch: 70, Directory: uid(2), Incarnation: uid(3), Fenced: true}},
		cluster.SnapshotTopic{Topic: &cluster.Topic{ID: uid(1), Name: "t", Partitions: 8, ReplicationFactor: 3, CreatedMs: 4, Configs: cluster.Configs{{Key: "a", Value: "b"}}}},
		cluster.SnapshotPartition{Key: tp, Partition: partition()},
		cluster.SnapshotConfigs{Resource: cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}, Configs: cluster.Configs{{Key: "a", Value: "b"}}},
		cluster.SnapshotTombstone{Tombstone: cluster.Tombstone{Partition: tp, Directory: uid(4)}},
		cluster.SnapshotGroup{Group: &cluster.GroupState{Group: "g", Type: cluster.GroupNative, Epoch: 3, Members: []cluster.GroupMember{{ID: "m"}}}},
		cluster.SnapshotOffsets{Group: "g", Topic: uid(1), Offsets: []cluster.PartitionOffset{{Partition: 1, Committed: cluster.CommittedOffset{Offset: 5, LeaderEpoch: -1}}}},
		cluster.SnapshotEnd{Records: 8},
	}
}

func snapshotBytes(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := WriteSnapshot(&out, slices.Values(records())); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func readAll(r io.Reader) (out []cluster.SnapshotRecord, err error) {
	for rec, err := range ReadSnapshot(r) {
		if err != nil {
			return out, err
		}
		out = append(out, rec)
	}
	return out, nil
}

func TestSnapshotRoundTrips(t *testing.T) {
	got, err := readAll(iotest.OneByteReader(bytes.NewReader(snapshotBytes(t))))
	if err != nil || !reflect.DeepEqual(got, records()) {
		t.Errorf("got %+v (%v)", got, err)
	}
	seen := map[string]bool{}
	for _, r := range records() {
		seen[fmt.Sprintf("%T", r)] = true
	}
	if want := (&metadatav1.SnapshotRecord{}).ProtoReflect().Descriptor().Oneofs().ByName("record").Fields().Len(); len(seen) != want {
		t.Errorf("%d kinds of record are tested, the format has %d", len(seen), want)
	}
}

func TestSnapshotBytesArePinned(t *testing.T) {
	b := snapshotBytes(t)
	var out strings.Builder
	for chunk := range slices.Chunk(b, 64) {
		fmt.Fprintln(&out, hex.EncodeToString(chunk))
	}
	golden(t, "snapshot.golden", out.String())
}

func TestDamagedSnapshotsAreRefused(t *testing.T) {
	good := snapshotBytes(t)
	// Every cut but those at a record's border, and every flipped byte, is noticed here or by the end mark.
	for i := range good {
		if got, err := readAll(bytes.NewReader(good[:i])); err == nil && len(got) == len(records()) {
			t.Fatalf("cut at %d: all records", i)
		} else if err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut at %d: %v", i, err)
		}
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		if got, err := readAll(bytes.NewReader(bad)); err == nil {
			t.Fatalf("flipped byte %d: %d records and no error", i, len(got))
		}
	}
}

func TestSnapshotReaderErrorIsPassedOn(t *testing.T) {
	broken := errors.New("disk")
	_, err := readAll(io.MultiReader(bytes.NewReader(snapshotBytes(t)[:20]), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || errors.Is(err, ErrMalformed) {
		t.Errorf("got %v", err)
	}
	if err := WriteSnapshot(failingWriter{broken}, slices.Values(records())); !errors.Is(err, broken) {
		t.Errorf("write: %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
