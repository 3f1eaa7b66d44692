package partition

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/replication/session"
	"github.com/moldau-log/moldau/segment"
)

// rotten leads the test partition of two replicas, with one of five batches gone bad on disk since it was written and closed in good order. Opening does
// not look at it; the first read does.
func rotten(t *testing.T, isr ...cluster.BrokerID) *kit {
	t.Helper()
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(2, 1)
	k.isr(1)
	for i := range 5 {
		k.checkProduced(k.produce(sent{values: []string{fmt.Sprint(i)}}.bytes(t), AcksISR), cluster.CodeNone, record.Offset(i))
	}
	k.check(k.manager.Close(context.Background()))
	f, err := disk.OpenFile("data/partitions/"+testTP.String()+"/00000000000000000000.log", vfs.ReadWrite)
	k.check(err)
	_, err = f.WriteAt([]byte{0xff}, 2*int64(len(sent{values: []string{"0"}}.bytes(t)))+65) // in the third
	k.check(err)
	k.check(f.Sync())
	k.check(f.Close())
	if report := k.start(); report.Opened != 1 || len(report.Damaged) != 0 {
		t.Fatalf("load report %+v", report)
	}
	k.isr(1)
	k.elect(1)
	k.checkProduced(k.produce(sent{values: []string{"5"}}.bytes(t), AcksISR), cluster.CodeNone, 5)
	k.isr(isr...)
	return k
}

func (k *kit) read(at record.Offset) ReadResult {
	return k.runner().Read(ReadRequest{Offset: at, MaxBytes: 1, LeaderEpoch: record.NoEpoch, LastEpoch: record.NoEpoch})
}

func TestCase3_DamageFoundByAReadHandsTheLeadershipOver(t *testing.T) {
	k := rotten(t, 1, 2)
	if res := k.read(2); res.Code != cluster.CodeCorrupt || !errors.Is(res.Err, segment.ErrDamaged) {
		t.Errorf("read: %s: %v", res.Code, res.Err)
	}
	k.outputs.await(t, "report to the controller", func() bool { return len(k.outputs.offline) == 1 })
	if !errors.Is(k.outputs.offline[0], segment.ErrDamaged) {
		t.Errorf("reported %v", k.outputs.offline[0])
	}
	if role := k.runner().Role(); role != RoleOffline {
		t.Errorf("the replica is %s", role)
	}
}

func TestCase3_DamageFoundByAReadOfTheOnlyReplicaInSync(t *testing.T) {
	k := rotten(t, 1)
	for range 3 {
		if res := k.read(2); res.Code != cluster.CodeCorrupt {
			t.Errorf("read: %s: %v", res.Code, res.Err)
		}
	}
	// Nobody else has what is whole, so it stays, with what lies in front and what is to come.
	for _, at := range []record.Offset{0, 1} {
		res := k.read(at)
		if res.Code != cluster.CodeNone || res.Slice.Len() == 0 {
			t.Errorf("read at %d: %s: %v", at, res.Code, res.Err)
		}
		res.Slice.Release()
	}
	k.checkProduced(k.produce(sent{values: []string{"6"}}.bytes(t), AcksISR), cluster.CodeNone, 6)
	if role := k.runner().Role(); role != RoleLeader || len(k.outputs.offline) != 0 {
		t.Errorf("the replica is %s, reports %v", role, k.outputs.offline)
	}
}

// A follower that has refused what it was sent asks again where it stands. What it is sent then is checked once more, since the leader counts what it has appended as
// good: otherwise the follower would be sent the same for ever, and the leader would lead on with it.
func TestCase63_WhatAFollowerAsksForAgainIsCheckedAgain(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(3, 1, cluster.ConfigEntry{Key: "min.insync.replicas", Value: "1"})
	k.isr(1)
	for i := range 3 {
		k.checkProduced(k.produce(sent{values: []string{fmt.Sprint(i)}}.bytes(t), AcksISR), cluster.CodeNone, record.Offset(i))
	}
	k.isr(1, 3)
	follower, _ := k.image.Broker(2)
	ask := func(id session.SubscriptionID) fetcher.Reader {
		sink := newSink()
		k.manager.Subscribe(2, follower.Epoch, session.Subscribe{ID: id, Partition: testTP, LeaderEpoch: 1, LastEpoch: record.NoEpoch}, sink)
		return receive(t, sink.accepted)
	}
	read := func(r fetcher.Reader) error {
		got, _, _, _, err := r.ReadReplica(0, 1<<20)
		if err == nil {
			got.Release()
		}
		return err
	}
	first := ask(7)
	k.check(read(first))
	k.check(disk.Flip("data/partitions/"+testTP.String()+"/00000000000000000000.log", int64(len(sent{values: []string{"0"}}.bytes(t)))+65, 1)) // in the second
	k.check(read(first))                                                                                                                       // the follower finds it
	if err := read(ask(8)); !errors.Is(err, segment.ErrDamaged) {
		t.Errorf("asked again: %v", err)
	}
	k.outputs.await(t, "report to the controller", func() bool { return len(k.outputs.offline) == 1 })
	if !errors.Is(k.outputs.offline[0], segment.ErrDamaged) {
		t.Errorf("reported %v", k.outputs.offline[0])
	}
}
