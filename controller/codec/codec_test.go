package codec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/moldau-log/moldau/cluster"
	metadatav1 "github.com/moldau-log/moldau/proto/moldau/metadata/v1"
	"github.com/moldau-log/moldau/record"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

func uid(n byte) (u cluster.UUID) {
	for i := range u {
		u[i] = n + byte(i)
	}
	return u
}

var tp = cluster.TopicPartition{Topic: uid(1), Partition: 7}

// commands has every command with every field set, and variants with special values.
func commands() []cluster.Command {
	member := cluster.GroupMember{ID: "m\xff", InstanceID: "i", ClientID: "c", ClientHost: "h", Rack: "r", Epoch: 3, Topics: []string{"t", ""}, SessionTimeoutMs: 4,
		RebalanceMs: 5, Assigned: []cluster.TopicPartition{tp}, Target: []cluster.TopicPartition{tp}, Revoking: []cluster.TopicPartition{tp}, Metadata: []byte{1}, Assignment: []byte{2}}
	return []cluster.Command{
		cluster.InitCluster{Cluster: uid(9), FeatureLevel: 1, CreatedMs: 1700000000000},
		cluster.RegisterBroker{Broker: cluster.Broker{ID: 1, Directory: uid(2), Incarnation: uid(3), PeerAddress: "b1:9093", Rack: "a", Version: "1.0",
			Listeners: []cluster.Listener{{Name: "kafka", Host: "b1", Port: 9092}}, MinLevel: 1, MaxLevel: 2, Fenced: true, Draining: true},
			Cluster: uid(9), PreviousEpoch: 5, Damaged: []cluster.TopicPartition{tp}, Live: true},
		cluster.RegisterBroker{Broker: cluster.Broker{Epoch: cluster.NoBrokerEpoch}, PreviousEpoch: cluster.NoBrokerEpoch},
		cluster.RegisterBroker{Broker: cluster.Broker{Epoch: cluster.NoBrokerEpoch}, LogsTold: true, Logs: []cluster.ReplicaLog{{Partition: tp, Log: cluster.LogPosition{LastEpoch: 3, LogEnd: 9}},
			{Partition: tp, Log: cluster.LogPosition{LastEpoch: record.NoEpoch}}}},
		cluster.RegisterBroker{Broker: cluster.Broker{Epoch: cluster.NoBrokerEpoch}, Logs: []cluster.ReplicaLog{{Partition: tp, Log: cluster.UnknownLog}}},
		cluster.RegisterBroker{Broker: cluster.Broker{Epoch: cluster.NoBrokerEpoch}, LogsTold: true, Logs: []cluster.ReplicaLog{{Partition: tp, Log: cluster.LogPosition{LastEpoch: 3, LogStart: 8, LogEnd: 9}}}},
		cluster.RegisterBroker{Broker: cluster.Broker{Epoch: cluster.NoBrokerEpoch}, PreviousEpoch: 5, PreviousStarts: []cluster.IncarnationID{uid(4), uid(5)}},
		cluster.UnregisterBroker{Broker: 3},
		cluster.FenceBroker{Broker: 3, Epoch: 17},
		cluster.UnfenceBroker{Broker: 3, Epoch: 17},
		cluster.DrainBroker{Broker: 3, Epoch: 17},
		cluster.CreateTopic{ID: uid(1), Name: "orders", Assignment: [][]cluster.BrokerID{{0, 1, 2}, {1, 2, 0}}, Configs: cluster.Configs{{Key: "retention.ms", Value: "1"}}, CreatedMs: 8},
		cluster.DeleteTopic{ID: uid(1)},
		cluster.AddPartitions{Topic: uid(1), Have: 2, Assignment: [][]cluster.BrokerID{{0}}},
		cluster.AlterConfigs{Resource: cluster.ConfigResource{Kind: cluster.ConfigBroker, Name: "3"}, Ops: []cluster.ConfigOp{{Key: "k", Value: "v"}, {Key: "d", Delete: true}}},
		cluster.ElectLeaders{Changes: []cluster.PartitionChange{{Partition: tp, PartitionEpoch: 3, Leader: cluster.NoBroker, BumpEpoch: true, Unclean: true, Offline: []cluster.BrokerID{0, 1}}}},
		cluster.AlterPartition{Leader: 2, LeaderBroker: 30, Changes: []cluster.ISRChange{{Partition: tp, LeaderEpoch: -1, PartitionEpoch: 4, ISR: []cluster.ISRMember{{Broker: 0, Epoch: 1}, {Broker: 2, Epoch: 30}}}}},
		cluster.Reassign{Partition: tp, Replicas: []cluster.BrokerID{4, 5}},
		cluster.FinishReassign{Partition: tp, PartitionEpoch: 6},
		cluster.SetLogStart{Partition: tp, LeaderEpoch: 2, LogStart: 1000},
		cluster.AllocateProducerIDs{Broker: 1, Epoch: 17, Count: 1000},
		cluster.AssignShards{Moves: []cluster.ShardMove{{Shard: 63, Epoch: 2, Leader: cluster.NoBroker}, {Shard: 0, Epoch: 1, Leader: 1}}},
		cluster.ConfirmRemoved{Tombstones: []cluster.Tombstone{{Partition: tp, Directory: uid(2)}}},
		cluster.SetFeatureLevel{Level: 2},
		cluster.GroupAppend{Broker: 1, NowMs: 99, Batches: []cluster.GroupBatch{{Shard: 5, ShardEpoch: 6, Sequence: 7, Records: []cluster.GroupRecord{
			cluster.GroupState{Group: "g\xfe", Type: cluster.GroupClassic, Epoch: 2, Assignor: "range", Protocol: "consumer", Leader: "m", Members: []cluster.GroupMember{member}, EmptySinceMs: 11},
			cluster.GroupDeleted{Group: "g"},
			cluster.OffsetCommitted{Group: "g", Partition: tp, Committed: cluster.CommittedOffset{Offset: 12, LeaderEpoch: -1, Metadata: "m\xff", CommittedMs: 13}},
			cluster.OffsetDeleted{Group: "g", Partition: tp},
		}}}},
		cluster.GroupAppend{Broker: 1, Batches: []cluster.GroupBatch{{Shard: 5, ShardEpoch: 6, Sequence: 8, Records: []cluster.GroupRecord{
			cluster.OffsetCommitted{Group: "g", Partition: tp, Committed: cluster.CommittedOffset{Offset: 12, CommittedMs: 13, Number: cluster.CommitNumber{Committer: 1 << 63, Sequence: 14}}},
		}}}},
	}
}

func TestCommandsRoundTrip(t *testing.T) {
	seen := map[string]bool{}
	for _, cmd := range commands() {
		b, err := EncodeCommand(cmd)
		if err != nil {
			t.Fatalf("%T: %v", cmd, err)
		}
		got, err := DecodeCommand(b)
		if err != nil || !reflect.DeepEqual(got, cmd) {
			t.Errorf("%T:\n got %+v (%v)\nwant %+v", cmd, got, err, cmd)
		}
		seen[fmt.Sprintf("%T", cmd)] = true
	}
	want := (&metadatav1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("command").Fields().Len()
	if len(seen) != want {
		t.Errorf("%d commands are tested, the format has %d", len(seen), want)
	}
}

// The bytes are on every broker's disk: a golden file that changes is a broken format, not a test to be rewritten.
func TestCommandBytesArePinned(t *testing.T) {
	var out strings.Builder
	for _, cmd := range commands() {
		b, err := EncodeCommand(cmd)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%T %s\n", cmd, hex.EncodeToString(b))
	}
	golden(t, "commands.golden", out.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

func TestCase125_WhatANewerVersionWroteIsRefused(t *testing.T) {
	good, err := EncodeCommand(cluster.FenceBroker{Broker: 1, Epoch: 2})
	if err != nil {
		t.Fatal(err)
	}
	newVersion := append([]byte{version + 1}, good[1:]...)
	newCommand := []byte{version, 0xfa, 0x07, 0x00} // field 127, an empty message
	newField := []byte{version, 4<<3 | 2, 4, 8, 1, 15 << 3, 1}
	newResource, err := EncodeCommand(cluster.AlterConfigs{Resource: cluster.ConfigResource{Kind: 9}})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"version": newVersion, "command": newCommand, "field": newField, "resource": newResource, "no command": {version}} {
		if cmd, err := DecodeCommand(b); !errors.Is(err, ErrUnknownCommand) {
			t.Errorf("%s: %v %v", name, cmd, err)
		}
	}
	badID := mustMarshal(t, &metadatav1.Command{Command: &metadatav1.Command_DeleteTopic{DeleteTopic: &metadatav1.DeleteTopic{Id: []byte("short")}}})
	for name, b := range map[string][]byte{"empty": nil, "cut": good[:len(good)-1], "garbage": {version, 0xff, 0xff}, "id": badID} {
		if cmd, err := DecodeCommand(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v %v", name, cmd, err)
		}
	}
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestResultRoundTrips(t *testing.T) {
	r := cluster.Result{Index: 7, Code: cluster.CodeOverloaded, Message: "why", BrokerEpoch: 7, FirstProducerID: 9,
		Items: []cluster.ItemResult{{Code: cluster.CodeNotLeader}, {NextSequence: 4}, {Partition: partition()}}}
	b, err := EncodeResult(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeResult(b)
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("got %+v (%v)\nwant %+v", got, err, r)
	}
	if _, err := DecodeResult(nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("no bytes: %v", err)
	}
}

func partition() *cluster.Partition {
	return &cluster.Partition{Replicas: []cluster.BrokerID{2, 0, 1}, Directories: []cluster.DirectoryID{uid(1), {}, uid(3)}, Adding: []cluster.BrokerID{0},
		Removing: []cluster.BrokerID{1}, ISR: []cluster.BrokerID{2}, ELR: []cluster.BrokerID{0}, Leader: cluster.NoBroker, LeaderEpoch: 4, PartitionEpoch: 5, LogStart: 6,
		LastLeader: 2, UncleanLast: true}
}

func TestBytesOfReturnedReplicasArePinned(t *testing.T) {
	p := partition()
	p.Returned = []cluster.Returned{{Broker: 0, Log: cluster.LogPosition{LastEpoch: record.NoEpoch}}, {Broker: 2, Log: cluster.LogPosition{LastEpoch: 3, LogEnd: 9}}}
	r := cluster.Result{Items: []cluster.ItemResult{{Partition: p}}}
	b, err := EncodeResult(r)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "returned.golden", hex.EncodeToString(b)+"\n")
	if got, err := DecodeResult(b); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("got %+v (%v)\nwant %+v", got, err, r)
	}
}

// A registration tells of every replica: with ten thousand of them it stays far below what one proposal may have (16 MiB).
func TestARegistrationOfTenThousandReplicasIsSmall(t *testing.T) {
	c := cluster.RegisterBroker{LogsTold: true}
	for n := range int32(10_000) {
		c.Logs = append(c.Logs, cluster.ReplicaLog{Partition: cluster.TopicPartition{Topic: uid(byte(n)), Partition: n}, Log: cluster.LogPosition{LastEpoch: 1 << 20, LogEnd: 1 << 40}})
	}
	b, err := EncodeCommand(c)
	if err != nil || len(b) > 512<<10 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if got, err := DecodeCommand(b); err != nil || len(got.(cluster.RegisterBroker).Logs) != 10_000 {
		t.Errorf("decoded with %v", err)
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, cmd := range commands() {
		b, err := EncodeCommand(cmd)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		cmd, err := DecodeCommand(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnknownCommand) {
				t.Fatalf("an untyped error: %v", err)
			}
			return
		}
		again, err := EncodeCommand(cmd)
		if err != nil {
			t.Fatalf("a decoded command cannot be encoded: %v", err)
		}
		back, err := DecodeCommand(again)
		if err != nil || !reflect.DeepEqual(back, cmd) {
			t.Fatalf("%+v became %+v (%v)", cmd, back, err)
		}
		if third, _ := EncodeCommand(back); !bytes.Equal(third, again) {
			t.Fatal("the same command has two encodings")
		}
	})
}

func FuzzReadSnapshot(f *testing.F) {
	f.Add(snapshotBytes(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, err := range ReadSnapshot(bytes.NewReader(b)) {
			if err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnknownCommand) {
				t.Fatalf("an untyped error: %v", err)
			}
		}
	})
}
