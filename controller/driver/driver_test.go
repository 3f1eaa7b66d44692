package driver

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/state"
	"github.com/moldau-log/moldau/record"
)

// TestScripts runs the scripts in testdata: a driver in front of a real controller state. Each line is one input at the time of the script's clock; its
// effects are printed below it. "commit" applies all outstanding proposals, "lose" drops them.
//
//	setup 1,2,3          registered, unfenced brokers, the first coordinates every shard, and the driver leads
//	found                a cluster without brokers, and the driver leads
//	+250ms               the clock
//	quiet 5s             the clock, while every broker beats each 250 ms (replies are not printed)
//	beat 1 [applied=N] [drain] [offline=t-0] [refusing=2] [epoch=N]
//	do <command>         a command of somebody else: register, create, isr, reassign, config
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		r := &rig{t: t, state: state.New(), driver: New(DefaultConfig())}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			r.t, r.out = t, &strings.Builder{}
			for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
				r.line(line)
			}
			return r.out.String()
		})
	})
}

type rig struct {
	t       *testing.T
	state   *state.State
	driver  *Driver
	now     time.Duration
	pending []Proposal
	next    time.Duration
	out     *strings.Builder
	mute    bool // no replies are printed
}

func (r *rig) line(line string) {
	words := strings.Fields(line)
	args := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		args[k] = v
	}
	switch words[0] {
	case "setup":
		level := cluster.LevelFirst
		if args["level"] == "newest" {
			level = cluster.LevelNewest
		}
		r.setup(words[1], int32(level))
	case "found":
		r.apply(cluster.InitCluster{Cluster: uid("c"), FeatureLevel: 1})
		r.step(BecameLeader{Image: r.state.Image()})
	case "lead":
		r.step(BecameLeader{Image: r.state.Image()})
	case "depose":
		r.pending = nil
		r.step(LostLeadership{})
	case "tick":
		r.step(Tick{})
	case "beat":
		r.beat(words[1], args)
	case "quiet":
		r.quiet(words[1], args["of"])
	case "refused":
		r.step(PeerRefused{Broker: broker(words[1])})
	case "commit":
		r.commit(func(p Proposal) (cluster.Result, bool) {
			return r.state.Apply(r.state.Image().Index()+1, p.Command), false
		})
	case "lose":
		r.commit(func(Proposal) (cluster.Result, bool) { return cluster.Result{}, true })
	case "do":
		r.do(words[1], args)
	case "show":
		r.show()
	default:
		if !strings.HasPrefix(words[0], "+") {
			r.t.Fatalf("unknown line %q", line)
		}
		by, err := time.ParseDuration(words[0][1:])
		if err != nil {
			r.t.Fatal(err)
		}
		r.now += by
	}
}

func (r *rig) setup(list string, level int32) {
	r.apply(cluster.InitCluster{Cluster: uid("c"), FeatureLevel: level})
	for _, w := range strings.Split(list, ",") {
		r.do("register", map[string]string{"broker": w})
	}
	for b := range r.state.Image().Brokers() {
		r.apply(cluster.UnfenceBroker{Broker: b.ID, Epoch: b.Epoch})
	}
	var all cluster.AssignShards
	for s := range cluster.ShardID(cluster.ShardCount) {
		all.Moves = append(all.Moves, cluster.ShardMove{Shard: s, Leader: broker(list[:1])})
	}
	r.apply(all)
	r.step(BecameLeader{Image: r.state.Image()})
}

func (r *rig) apply(cmd cluster.Command) {
	if res := r.state.Apply(r.state.Image().Index()+1, cmd); res.Code != cluster.CodeNone {
		r.t.Fatalf("%T: %s %s", cmd, res.Code, res.Message)
	}
}

// step gives one input and prints the effects.
func (r *rig) step(in Input) {
	e := r.driver.Step(r.now, in)
	if e.Reply != nil && !r.mute {
		fmt.Fprintf(r.out, "%v reply %s fenced=%v shutdown=%v\n", r.now, e.Reply.Code, e.Reply.Fenced, e.Reply.MayShutDown)
	}
	for _, p := range e.Propose {
		fmt.Fprintf(r.out, "%v propose %s\n", r.now, describe(p.Command))
	}
	r.pending = append(r.pending, e.Propose...)
	r.next = e.Deadline
}

// quiet lets a time pass in which all brokers, or some, send their heartbeats.
func (r *rig) quiet(text, of string) {
	d, err := time.ParseDuration(text)
	if err != nil {
		r.t.Fatal(err)
	}
	r.mute = true
	for end := r.now + d; r.now < end; {
		r.now += 250 * time.Millisecond
		for b := range r.state.Image().Brokers() {
			if of == "" || slices.Contains(brokers(of), b.ID) {
				r.beat(strconv.Itoa(int(b.ID)), nil)
			}
		}
	}
	r.mute = false
}

// commit ends all outstanding proposals, in order, with the image before the outcome, and prints what comes of it.
func (r *rig) commit(outcome func(Proposal) (cluster.Result, bool)) {
	done := r.pending
	r.pending = nil
	for _, p := range done {
		res, failed := outcome(p)
		for i, it := range res.Items {
			if it.Code != cluster.CodeNone {
				fmt.Fprintf(r.out, "%v refused item %d: %s\n", r.now, i, it.Code)
			}
		}
		if res.Code != cluster.CodeNone {
			fmt.Fprintf(r.out, "%v refused: %s\n", r.now, res.Code)
		}
		r.step(ProposalDone{ID: p.ID, Result: res, Failed: failed})
		r.step(ImageChanged{Image: r.state.Image()})
	}
}

func (r *rig) beat(id string, args map[string]string) {
	img := r.state.Image()
	in := Heartbeat{Broker: broker(id), Epoch: cluster.NoBrokerEpoch, Applied: img.Index()}
	if b, ok := img.Broker(in.Broker); ok {
		in.Epoch = b.Epoch
	}
	if v, ok := args["epoch"]; ok {
		in.Epoch = cluster.BrokerEpoch(broker(v))
	}
	if v, ok := args["applied"]; ok {
		in.Applied = uint64(broker(v))
	}
	_, in.WantDrain = args["drain"]
	in.Offline, in.Online = r.partitions(args["offline"]), r.partitions(args["online"])
	for _, w := range split(args["refusing"]) {
		in.Refusing = append(in.Refusing, broker(w))
	}
	r.step(in)
}

// do applies a command of somebody else, and tells the driver.
func (r *rig) do(verb string, args map[string]string) {
	img := r.state.Image()
	switch verb {
	case "register":
		id := broker(args["broker"])
		c := cluster.RegisterBroker{PreviousEpoch: cluster.NoBrokerEpoch, Broker: cluster.Broker{ID: id, Directory: uid(fmt.Sprint("d", id)),
			Incarnation: uid(fmt.Sprint("i", img.Index())), MinLevel: 1, MaxLevel: cluster.LevelNewest}}
		if tp, end, told := strings.Cut(args["logs"], ":"); told { // logs=t-0:100 is one log, which ends at 100
			c.LogsTold = true
			c.Logs = []cluster.ReplicaLog{{Partition: r.partitions(tp)[0], Log: cluster.LogPosition{LogEnd: record.Offset(broker(end))}}}
		}
		for _, tp := range r.partitions(args["unopened"]) {
			c.LogsTold = true
			c.Logs = append(c.Logs, cluster.ReplicaLog{Partition: tp, Log: cluster.UnknownLog})
		}
		r.apply(c)
	case "create":
		c := cluster.CreateTopic{ID: uid(args["topic"]), Name: args["topic"]}
		for _, w := range strings.Split(args["replicas"], "/") {
			c.Assignment = append(c.Assignment, brokers(w))
		}
		r.apply(c)
	case "isr":
		tp := r.partitions(args["p"])[0]
		p, _ := img.Partition(tp)
		c := cluster.ISRChange{Partition: tp, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
		for _, b := range brokers(args["set"]) {
			br, _ := img.Broker(b)
			c.ISR = append(c.ISR, cluster.ISRMember{Broker: b, Epoch: br.Epoch})
		}
		leader, _ := img.Broker(p.Leader)
		r.apply(cluster.AlterPartition{Leader: p.Leader, LeaderBroker: leader.Epoch, Changes: []cluster.ISRChange{c}})
	case "reassign":
		r.apply(cluster.Reassign{Partition: r.partitions(args["p"])[0], Replicas: brokers(args["to"])})
	case "config":
		r.apply(cluster.AlterConfigs{Resource: cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}, Ops: []cluster.ConfigOp{{Key: args["key"], Value: args["value"]}}})
	case "unregister":
		r.apply(cluster.UnregisterBroker{Broker: broker(args["broker"])})
	default:
		r.t.Fatalf("unknown command %q", verb)
	}
	r.step(ImageChanged{Image: r.state.Image()})
}

func (r *rig) partitions(text string) []cluster.TopicPartition {
	var out []cluster.TopicPartition
	for _, w := range split(text) {
		name, n, _ := strings.Cut(w, "-")
		out = append(out, cluster.TopicPartition{Topic: uid(name), Partition: int32(broker(n))})
	}
	return out
}

func (r *rig) show() {
	for tp, p := range r.state.Image().AllPartitions() {
		fmt.Fprintf(r.out, "%s leader %d isr %v\n", printTP(tp), p.Leader, p.ISR)
	}
	count := map[cluster.BrokerID]int{}
	for i := range cluster.ShardID(cluster.ShardCount) {
		count[r.state.Image().Shard(i).Leader]++
	}
	for _, b := range sortedKeys(count) {
		fmt.Fprintf(r.out, "%d shards on %d\n", count[b], b)
	}
	if r.next == NoDeadline {
		fmt.Fprintln(r.out, "no deadline")
		return
	}
	fmt.Fprintf(r.out, "deadline in %v\n", r.next-r.now)
}

func describe(cmd cluster.Command) string {
	switch c := cmd.(type) {
	case cluster.FenceBroker:
		return fmt.Sprintf("fence %d epoch %d", c.Broker, c.Epoch)
	case cluster.UnfenceBroker:
		return fmt.Sprintf("unfence %d epoch %d", c.Broker, c.Epoch)
	case cluster.DrainBroker:
		return fmt.Sprintf("drain %d epoch %d", c.Broker, c.Epoch)
	case cluster.FinishReassign:
		return "finish " + printTP(c.Partition)
	case cluster.AssignShards:
		return fmt.Sprintf("move %d shards", len(c.Moves))
	case cluster.ElectLeaders:
		out := "elect"
		for _, ch := range c.Changes {
			out += fmt.Sprintf(" %s->%d", printTP(ch.Partition), ch.Leader)
			if len(ch.Offline) > 0 {
				out += fmt.Sprintf(" offline %v", ch.Offline)
			}
		}
		return out
	}
	return fmt.Sprintf("%T", cmd)
}

func printTP(tp cluster.TopicPartition) string {
	return fmt.Sprintf("%s-%d", strings.TrimRight(string(tp.Topic[:]), "\x00"), tp.Partition)
}

func uid(name string) (u cluster.UUID) {
	copy(u[:], name)
	return u
}

func broker(text string) cluster.BrokerID {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return cluster.BrokerID(n)
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func brokers(text string) []cluster.BrokerID {
	var out []cluster.BrokerID
	for _, w := range split(text) {
		out = append(out, broker(w))
	}
	return out
}
