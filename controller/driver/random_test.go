package driver

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/placement"
	"github.com/moldau-log/moldau/controller/state"
	"github.com/moldau-log/moldau/record"
)

// TestItSettlesAfterAnyTrouble runs a driver with brokers that come and go, proposals that are lost, and changes of the controller. Then all is healed, and
// the cluster must come to rest: every broker works, every partition has its preferred leader, shards are even, and nothing is proposed any more.
func TestItSettlesAfterAnyTrouble(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 400 {
				w.trouble()
			}
			w.heal()
		})
	}
}

type world struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Duration
	state   *state.State
	driver  *Driver
	leads   bool
	alive   map[cluster.BrokerID]bool
	drains  map[cluster.BrokerID]bool
	failed  map[cluster.BrokerID]bool // has a failed log
	pending []Proposal
	next    time.Duration
	made    int // proposals so far
	runs    byte
}

const worldBrokers = 5

func newWorld(t *testing.T, seed uint64) *world {
	config := DefaultConfig()
	config.LeaderMoves, config.ShardMoves, config.Batch = 3, 2, 2
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 2)), state: state.New(), driver: New(config), alive: map[cluster.BrokerID]bool{}, drains: map[cluster.BrokerID]bool{}, failed: map[cluster.BrokerID]bool{}}
	w.must(cluster.InitCluster{Cluster: uid("c"), FeatureLevel: int32(cluster.LevelFirst + seed%2)})
	for b := range cluster.BrokerID(worldBrokers) {
		w.register(b)
		br, _ := w.state.Image().Broker(b)
		w.must(cluster.UnfenceBroker{Broker: b, Epoch: br.Epoch})
	}
	for n := range 8 {
		a, err := placement.Assign(placement.Request{Brokers: placement.Brokers(w.state.Image()), Partitions: 5, ReplicationFactor: 1 + n%4, Seed: uint64(n)})
		if err != nil {
			t.Fatal(err)
		}
		w.must(cluster.CreateTopic{ID: cluster.TopicID{byte(n + 1)}, Name: fmt.Sprint("t", n), Assignment: a})
	}
	w.lead()
	return w
}

func (w *world) must(cmd cluster.Command) {
	w.t.Helper()
	if res := w.state.Apply(w.state.Image().Index()+1, cmd); res.Code != cluster.CodeNone {
		w.t.Fatalf("%T: %s %s", cmd, res.Code, res.Message)
	}
}

func (w *world) step(in Input) {
	w.t.Helper()
	e := w.driver.Step(w.now, in)
	if e.Deadline < w.now {
		w.t.Fatalf("a deadline in the past after %T", in)
	}
	w.pending = append(w.pending, e.Propose...)
	w.made += len(e.Propose)
	w.next = e.Deadline
	if e.Reply != nil && e.Reply.MayShutDown {
		b := in.(Heartbeat).Broker
		w.alive[b], w.drains[b] = false, false
	}
}

func (w *world) lead() {
	w.leads = true
	w.step(BecameLeader{Image: w.state.Image()})
}

func (w *world) register(b cluster.BrokerID) {
	w.runs++
	c := cluster.RegisterBroker{PreviousEpoch: cluster.NoBrokerEpoch, Broker: cluster.Broker{ID: b, Directory: cluster.UUID{1, byte(b)},
		Incarnation: cluster.UUID{2, byte(b), w.runs}, MinLevel: 1, MaxLevel: cluster.LevelNewest}, LogsTold: true}
	for tp := range w.state.Image().AllPartitions() {
		c.Logs = append(c.Logs, cluster.ReplicaLog{Partition: tp, Log: cluster.LogPosition{LogEnd: record.Offset(w.rng.IntN(3))}})
	}
	w.must(c)
	w.alive[b], w.drains[b], w.failed[b] = true, false, false
	w.step(ImageChanged{Image: w.state.Image()})
}

// trouble is one random event, and some time.
func (w *world) trouble() {
	b := cluster.BrokerID(w.rng.IntN(worldBrokers))
	switch n := w.rng.IntN(100); {
	case n < 40:
		w.beatAll()
	case n < 60:
		w.commit(w.rng.IntN(4) > 0)
	case n < 65:
		w.alive[b] = false
	case n < 70:
		w.register(b)
	case n < 73:
		w.drains[b] = true
	case n < 76:
		w.step(PeerRefused{Broker: b})
	case n < 78:
		w.pending = nil // whatever happens to them, this leadership does not hear of it
		w.step(LostLeadership{})
		w.leads = false
	case n < 82:
		if !w.leads {
			w.lead()
		}
	case n < 90:
		w.catchUp(w.rng.IntN(3))
	case n < 92:
		w.reassign()
	case n < 94:
		w.failLog(b)
	default:
		w.step(Tick{})
	}
	w.now += time.Duration(w.rng.IntN(300)) * time.Millisecond
}

func (w *world) beatAll() {
	for b := range cluster.BrokerID(worldBrokers) {
		if br, ok := w.state.Image().Broker(b); ok && w.alive[b] {
			w.step(Heartbeat{Broker: b, Epoch: br.Epoch, Applied: w.state.Image().Index(), WantDrain: w.drains[b]})
		}
	}
}

// reassign begins to move a random partition to random brokers.
func (w *world) reassign() {
	to := []cluster.BrokerID{0, 1, 2, 3, 4}
	w.rng.Shuffle(len(to), func(i, j int) { to[i], to[j] = to[j], to[i] })
	skip := w.rng.IntN(w.state.Image().PartitionCount())
	for tp := range w.state.Image().AllPartitions() {
		if skip--; skip < 0 {
			w.state.Apply(w.state.Image().Index()+1, cluster.Reassign{Partition: tp, Replicas: to[:1+w.rng.IntN(3)]})
			break
		}
	}
	w.step(ImageChanged{Image: w.state.Image()})
}

func (w *world) failLog(b cluster.BrokerID) {
	br, _ := w.state.Image().Broker(b)
	for tp, p := range w.state.Image().AllPartitions() {
		if p.HasReplica(b) && w.alive[b] && w.rng.IntN(3) == 0 {
			w.failed[b] = true
			w.step(Heartbeat{Broker: b, Epoch: br.Epoch, Applied: w.state.Image().Index(), Offline: []cluster.TopicPartition{tp}})
			return
		}
	}
}

// commit applies what is proposed, or loses it.
func (w *world) commit(apply bool) {
	done := w.pending
	w.pending = nil
	for _, p := range done {
		if !apply {
			w.step(ProposalDone{ID: p.ID, Failed: true})
			continue
		}
		res := w.state.Apply(w.state.Image().Index()+1, p.Command)
		in := []Input{ProposalDone{ID: p.ID, Result: res}, ImageChanged{Image: w.state.Image()}}
		if w.rng.IntN(2) == 0 {
			in[0], in[1] = in[1], in[0]
		}
		w.step(in[0])
		w.step(in[1])
	}
}

// catchUp lets some leaders take a replica back into the ISR.
func (w *world) catchUp(oneIn int) {
	for tp, p := range w.state.Image().AllPartitions() {
		if p.Leader == cluster.NoBroker || oneIn > 0 && w.rng.IntN(oneIn+1) > 0 {
			continue
		}
		c := cluster.ISRChange{Partition: tp, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
		for _, b := range p.Replicas {
			if br, ok := w.state.Image().Broker(b); ok && (b == p.Leader || br.Eligible()) {
				c.ISR = append(c.ISR, cluster.ISRMember{Broker: b, Epoch: br.Epoch})
			}
		}
		leader, _ := w.state.Image().Broker(p.Leader)
		w.state.Apply(w.state.Image().Index()+1, cluster.AlterPartition{Leader: p.Leader, LeaderBroker: leader.Epoch, Changes: []cluster.ISRChange{c}})
	}
	w.step(ImageChanged{Image: w.state.Image()})
}

// heal restarts what is down, drains, or has a failed log, and lets time pass without trouble.
func (w *world) heal() {
	if !w.leads {
		w.lead()
	}
	for b := range cluster.BrokerID(worldBrokers) {
		if br, _ := w.state.Image().Broker(b); !w.alive[b] || w.drains[b] || w.failed[b] || br.Draining {
			w.register(b)
		}
	}
	for range 60 * 4 {
		w.quarter()
	}
	before := w.made
	for range 30 * 4 {
		w.quarter()
	}
	if w.made != before {
		w.t.Errorf("%d proposals in a cluster at rest", w.made-before)
	}
	for b := range w.state.Image().Brokers() {
		r := w.driver.Step(w.now, Heartbeat{Broker: b.ID, Epoch: b.Epoch, Applied: w.state.Image().Index()}).Reply
		if r.Fenced || r.MayShutDown || r.Code != cluster.CodeNone {
			w.t.Errorf("broker %d is answered %+v", b.ID, *r)
		}
	}
	counts := map[cluster.BrokerID]int{}
	for i := range cluster.ShardID(cluster.ShardCount) {
		counts[w.state.Image().Shard(i).Leader]++
	}
	for b := range w.state.Image().Brokers() {
		if !b.Eligible() {
			w.t.Errorf("broker %d does not work: %+v", b.ID, b)
		}
		if n := counts[b.ID]; n < cluster.ShardCount/worldBrokers || n > cluster.ShardCount/worldBrokers+1 {
			w.t.Errorf("broker %d has %d shards", b.ID, n)
		}
	}
	for tp, p := range w.state.Image().AllPartitions() {
		if p.Leader != p.Replicas[0] || len(p.ISR) != len(p.Replicas) || len(p.Adding)+len(p.Removing) > 0 {
			w.t.Errorf("%v: %+v", tp, *p)
		}
	}
}

// quarter is 250 ms without trouble: all beat, what is proposed is applied, followers catch up, and the driver is woken when it wants to be.
func (w *world) quarter() {
	w.beatAll()
	w.commit(true)
	w.catchUp(0)
	w.commit(true)
	end := w.now + 250*time.Millisecond
	for wakes := 0; w.next < end; wakes++ {
		if wakes > 10 {
			w.t.Fatal("the driver wants to be woken again and again")
		}
		w.now = w.next
		w.step(Tick{})
		w.commit(true)
	}
	w.now = end
}
