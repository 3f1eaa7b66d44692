package state_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/codec"
	"github.com/moldau-log/moldau/controller/state"
	"github.com/moldau-log/moldau/record"
)

// The random test drives a State with commands as a controller, brokers, coordinators and an operator would propose them, right and stale ones. After each it
// holds the state against a model of what the rules are for: no acknowledged record is lost by a clean election, and no
// (partition, leader epoch) is led by two lives of brokers.
func TestRandomCommandsKeepTheRules(t *testing.T) {
	choices, kept := 0, 0
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := newRun(t, seed)
			for range 400 {
				r.apply(r.command())
			}
			r.checkReplay()
			choices, kept = choices+r.choices, kept+r.kept
		})
	}
	if choices < 50 || kept < 10 {
		t.Errorf("replicas that have restarted were elected %d times only, and all that failed at once were kept %d times", choices, kept)
	}
}

type run struct {
	t      *testing.T
	rng    *rand.Rand
	state  *state.State
	log    [][]byte // encoded commands
	result []cluster.Result
	// snapshots by the number of commands before them.
	snapshots map[int][]byte
	complete  map[cluster.TopicPartition]map[copyOf]bool
	ledBy     map[reign]cluster.BrokerEpoch
	nextID    byte
	choices   int // elections of replicas that have restarted
	kept      int // times that more than one complete replica failed at once
}

// copyOf is one replica's data: it dies with its directory.
type copyOf struct {
	broker cluster.BrokerID
	dir    cluster.DirectoryID
}

type reign struct {
	tp    cluster.TopicPartition
	epoch record.LeaderEpoch
}

func newRun(t *testing.T, seed uint64) *run {
	r := &run{t: t, rng: rand.New(rand.NewPCG(seed, 1)), state: state.New(), snapshots: map[int][]byte{},
		complete: map[cluster.TopicPartition]map[copyOf]bool{}, ledBy: map[reign]cluster.BrokerEpoch{}}
	r.apply(cluster.InitCluster{Cluster: cluster.UUID{1}, FeatureLevel: int32(cluster.LevelFirst + seed%2)})
	for b := range cluster.BrokerID(4) {
		r.apply(r.register(b))
		r.apply(cluster.UnfenceBroker{Broker: b, Epoch: r.epochOf(b)})
	}
	var shards cluster.AssignShards
	for id := range cluster.ShardID(cluster.ShardCount) {
		shards.Moves = append(shards.Moves, cluster.ShardMove{Shard: id, Leader: cluster.BrokerID(id % 4)})
	}
	r.apply(shards)
	return r
}

func (r *run) apply(cmd cluster.Command) {
	r.t.Helper()
	encoded, err := codec.EncodeCommand(cmd)
	if err != nil {
		r.t.Fatal(err)
	}
	before := r.state.Image()
	res := r.state.Apply(before.Index()+1, cmd)
	r.log = append(r.log, encoded)
	r.result = append(r.result, res)
	r.model(before, cmd, res)
	if r.rng.IntN(40) == 0 {
		r.snapshots[len(r.log)] = r.snapshot(r.state)
	}
}

func (r *run) snapshot(s *state.State) []byte {
	var out bytes.Buffer
	if err := codec.WriteSnapshot(&out, s.Snapshot().Records()); err != nil {
		r.t.Fatal(err)
	}
	return out.Bytes()
}

// checkReplay builds the state again, from the beginning and from every snapshot, out of bytes only.
func (r *run) checkReplay() {
	want := r.snapshot(r.state)
	r.snapshots[0] = r.snapshot(state.New())
	for at, snap := range r.snapshots {
		s, err := state.Restore(codec.ReadSnapshot(bytes.NewReader(snap)))
		if err != nil {
			r.t.Fatal(err)
		}
		if !bytes.Equal(r.snapshot(s), snap) {
			r.t.Fatalf("the snapshot after %d commands does not survive a restore", at)
		}
		for i := at; i < len(r.log); i++ {
			cmd, err := codec.DecodeCommand(r.log[i])
			if err != nil {
				r.t.Fatal(err)
			}
			if res := s.Apply(s.Image().Index()+1, cmd); !reflect.DeepEqual(normal(res), normal(r.result[i])) {
				r.t.Fatalf("command %d %+v: %+v after a restore, %+v at first", i, cmd, res, r.result[i])
			}
		}
		if !bytes.Equal(r.snapshot(s), want) {
			r.t.Fatalf("the state differs when it is rebuilt from the snapshot after %d commands", at)
		}
	}
}

// normal takes a result through the codec, which does not tell nil from empty.
func normal(res cluster.Result) cluster.Result {
	b, err := codec.EncodeResult(res)
	if err != nil {
		panic(err)
	}
	out, err := codec.DecodeResult(b)
	if err != nil {
		panic(err)
	}
	return out
}

// model follows which copies are complete, and checks what must hold.
func (r *run) model(before *cluster.Image, cmd cluster.Command, res cluster.Result) {
	r.t.Helper()
	img := r.state.Image()
	r.loseCopies(cmd, res)
	for c := range cluster.Diff(before, img).Partitions() {
		if c.New == nil {
			delete(r.complete, c.Key)
			continue
		}
		r.modelChange(c, cmd)
	}
	for tp, p := range img.AllPartitions() {
		r.checkPartition(img, tp, p, cmd)
	}
}

// loseCopies forgets the copies that a registration reports as damaged or that an old disk lacks.
func (r *run) loseCopies(cmd cluster.Command, res cluster.Result) {
	c, ok := cmd.(cluster.RegisterBroker)
	if !ok || res.Code != cluster.CodeNone {
		return
	}
	for tp, have := range r.complete {
		p, _ := r.state.Image().Partition(tp)
		damaged := slices.Contains(c.Damaged, tp)
		if damaged && len(p.Replicas) > 1 {
			delete(have, copyOf{c.Broker.ID, c.Broker.Directory})
		}
	}
}

func (r *run) modelChange(c cluster.Change[cluster.TopicPartition, *cluster.Partition], cmd cluster.Command) {
	p := c.New
	if _, ok := cmd.(cluster.UnfenceBroker); ok && !r.mayBeUnclean(c.Key) {
		r.checkChoice(c.Old, p.Leader)
	}
	if elect, ok := cmd.(cluster.ElectLeaders); ok && r.state.Image().FeatureLevel() >= cluster.LevelLogs {
		r.checkTakenOut(c, elect.Changes[0].Offline)
	}
	_, proposal := cmd.(cluster.AlterPartition)
	switch {
	case c.Old == nil:
		r.complete[c.Key] = map[copyOf]bool{}
		r.addCopies(c.Key, p, p.ISR)
	case p.UncleanLast && p.LeaderEpoch != c.Old.LeaderEpoch:
		r.complete[c.Key] = map[copyOf]bool{}
		r.addCopies(c.Key, p, p.ISR)
	case proposal:
		r.addCopies(c.Key, p, p.ISR) // the leader has seen that they are complete
	}
}

func (r *run) addCopies(tp cluster.TopicPartition, p *cluster.Partition, who []cluster.BrokerID) {
	for _, b := range who {
		r.complete[tp][copyOf{b, p.Directory(b)}] = true
	}
}

func (r *run) checkPartition(img *cluster.Image, tp cluster.TopicPartition, p *cluster.Partition, cmd cluster.Command) {
	r.t.Helper()
	have := r.complete[tp]
	for _, b := range append(slices.Clone(p.ISR), p.ELR...) {
		if !have[copyOf{b, p.Directory(b)}] {
			r.t.Fatalf("after %+v: %v: broker %d is electable and not complete: %+v (complete: %v)", cmd, tp, b, *p, have)
		}
	}
	for _, b := range p.ISR {
		if br, ok := img.Broker(b); len(p.ISR) > 1 && (!ok || br.Fenced || br.Directory != p.Directory(b)) {
			r.t.Fatalf("after %+v: %v: broker %d is in the ISR, and fenced or without its copy: %+v", cmd, tp, b, *p)
		}
	}
	t, _ := img.Topic(tp.Topic)
	if p.Leader == cluster.NoBroker {
		return
	}
	leader, ok := img.Broker(p.Leader)
	if !ok || leader.Fenced || leader.Directory != p.Directory(p.Leader) {
		r.t.Fatalf("after %+v: %v is led by a broker that cannot: %+v", cmd, tp, *p)
	}
	key := reign{tp, p.LeaderEpoch}
	if was, seen := r.ledBy[key]; seen && was != leader.Epoch {
		r.t.Fatalf("after %+v: %v epoch %d is led by two lives, %d and %d", cmd, tp, p.LeaderEpoch, was, leader.Epoch)
	}
	r.ledBy[key] = leader.Epoch
	if len(p.ISR) >= img.MinISR(t, p) {
		// The watermark may move without everybody else from here on.
		for c := range have {
			if !p.InISR(c.broker) || p.Directory(c.broker) != c.dir {
				delete(have, c)
			}
		}
	}
}

// checkChoice holds the election of a replica that has restarted to its condition: all that are complete have, and none came back with more (case 60).
func (r *run) checkChoice(p *cluster.Partition, leader cluster.BrokerID) {
	r.t.Helper()
	log, back := p.HasReturned(leader)
	if !back || p.Leader != cluster.NoBroker {
		return
	}
	r.choices++
	if len(p.Returned) < len(p.ISR)+len(p.ELR) || slices.ContainsFunc(p.Returned, func(o cluster.Returned) bool { return !o.Log.Known() || p.CompareLogs(log, o.Log) < 0 }) {
		r.t.Fatalf("broker %d is elected, which has restarted: %+v", leader, *p)
	}
}

// checkTakenOut holds a report of logs that do not work to what it may do: it takes places only where another complete replica is left, and else none.
func (r *run) checkTakenOut(c cluster.Change[cluster.TopicPartition, *cluster.Partition], offline []cluster.BrokerID) {
	r.t.Helper()
	if c.Old == nil || c.New.UncleanLast && c.New.LeaderEpoch != c.Old.LeaderEpoch {
		return
	}
	complete := slices.Concat(c.Old.ISR, c.Old.ELR)
	works := func(b cluster.BrokerID) bool { return !slices.Contains(offline, b) }
	if len(offline) == 0 || slices.ContainsFunc(complete, works) {
		return
	}
	if !slices.Equal(c.Old.ISR, c.New.ISR) || !slices.Equal(c.Old.ELR, c.New.ELR) || slices.ContainsFunc(complete, func(b cluster.BrokerID) bool { return !c.New.Unopened(b) }) {
		r.t.Fatalf("%v were reported at once, and %+v became %+v", offline, *c.Old, *c.New)
	}
	if len(complete) > 1 {
		r.kept++
	}
}

// mayBeUnclean reports whether a topic prefers any leader to none.
func (r *run) mayBeUnclean(tp cluster.TopicPartition) bool {
	t, ok := r.state.Image().Topic(tp.Topic)
	return ok && r.state.Image().UncleanElection(t)
}
