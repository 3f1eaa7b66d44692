package state_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/state"
)

// What Records lists for a shard must build the same shard again: it is what a new coordinator loads.
func TestRecordsRebuildAShard(t *testing.T) {
	r := newRun(t, 99)
	for range 600 {
		r.apply(r.command())
	}
	was := r.state.Groups()
	if was.GroupCount() == 0 {
		t.Fatal("the run left no group")
	}
	again := state.FromSnapshot(r.state.Snapshot())
	listed := 0
	for id := range cluster.ShardID(cluster.ShardCount) {
		var recs []cluster.GroupRecord
		for g := range was.GroupsIn(id) {
			listed++
			recs = append(recs, cluster.GroupDeleted{Group: g.Group})
		}
		for rec := range was.Records(id) {
			recs = append(recs, rec)
		}
		shard := again.Groups().Shard(id)
		res := again.Apply(again.Image().Index()+1, cluster.GroupAppend{Broker: shard.Leader, Batches: []cluster.GroupBatch{{Shard: id, ShardEpoch: shard.Epoch, Sequence: shard.NextSequence, Records: recs}}})
		if res.Items[0].Code != cluster.CodeNone {
			t.Fatalf("shard %d: %s", id, res.Items[0].Code)
		}
	}
	if listed != was.GroupCount() {
		t.Errorf("%d groups in shards, %d in all", listed, was.GroupCount())
	}
	if a, b := groupsOf(was), groupsOf(again.Groups()); !reflect.DeepEqual(a, b) {
		t.Errorf("got %v\nwant %v", b, a)
	}
}

func groupsOf(v *state.GroupView) []string {
	var out []string
	for g := range v.Groups() {
		out = append(out, fmt.Sprintf("%+v", *g))
		for tp, o := range v.Offsets(g.Group) {
			got, ok := v.Offset(g.Group, tp)
			out = append(out, fmt.Sprint(tp, o, got, ok))
		}
		if s, ok := v.Group(g.Group); !ok || s != g {
			out = append(out, "not found by name")
		}
	}
	return out
}

// A view is a snapshot: what is applied later does not show in it.
func TestViewsDoNotChange(t *testing.T) {
	r := newRun(t, 5)
	for range 200 {
		r.apply(r.command())
	}
	view := r.state.Groups()
	before, index := groupsOf(view), view.Index()
	for range 200 {
		r.apply(r.command())
	}
	if !reflect.DeepEqual(groupsOf(view), before) || view.Index() != index || reflect.DeepEqual(groupsOf(r.state.Groups()), before) {
		t.Error("the view changed, or nothing did")
	}
}
