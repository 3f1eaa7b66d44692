package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// TestScripts runs the scripts in testdata: commands, one a line, and what they change. A line is a verb and key=value arguments; epochs that are
// not given are the present ones.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{state: New()}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "apply":
				return s.applyLines(t, d.Input)
			case "show":
				return s.show()
			}
			t.Fatalf("unknown directive %q", d.Cmd)
			return ""
		})
	})
}

type script struct{ state *State }

// applyLines applies each line and prints its result with what changed.
func (s *script) applyLines(t *testing.T, input string) string {
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		before := s.state.Image()
		res := s.state.Apply(before.Index()+1, s.parse(t, line))
		out.WriteString(printResult(res))
		out.WriteString(printDelta(cluster.Diff(before, s.state.Image())))
	}
	return out.String()
}

type args map[string]string

// parse reads one line into a command.
func (s *script) parse(t *testing.T, line string) cluster.Command {
	words := strings.Fields(line)
	a := args{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		a[k] = v
	}
	img := s.state.Image()
	id := cluster.BrokerID(a.num("broker", 0))
	epoch := cluster.NoBrokerEpoch
	if b, ok := img.Broker(id); ok {
		epoch = b.Epoch
	}
	epoch = cluster.BrokerEpoch(a.num("epoch", int64(epoch)))
	switch words[0] {
	case "init":
		return cluster.InitCluster{Cluster: uid("cluster"), FeatureLevel: int32(a.num("level", 1)), CreatedMs: 1}
	case "register":
		return s.register(a, id)
	case "fence":
		return cluster.FenceBroker{Broker: id, Epoch: epoch}
	case "unfence":
		return cluster.UnfenceBroker{Broker: id, Epoch: epoch}
	case "drain":
		return cluster.DrainBroker{Broker: id, Epoch: epoch}
	case "unregister":
		return cluster.UnregisterBroker{Broker: id}
	case "pids":
		return cluster.AllocateProducerIDs{Broker: id, Epoch: epoch, Count: a.num("count", 100)}
	case "level":
		return cluster.SetFeatureLevel{Level: int32(a.num("to", 1))}
	}
	if c := s.parseTopic(words[0], a); c != nil {
		return c
	}
	if c := s.parsePartition(words[0], a); c != nil {
		return c
	}
	if c := s.parseGroup(words[0], a, id); c != nil {
		return c
	}
	t.Fatalf("unknown line %q", line)
	return nil
}

func (s *script) register(a args, id cluster.BrokerID) cluster.Command {
	c := cluster.RegisterBroker{PreviousEpoch: cluster.BrokerEpoch(a.num("previous", -1)), Live: a.has("live"), Damaged: s.partitions(a["damaged"])}
	c.Broker = cluster.Broker{ID: id, Directory: uid(a.str("dir", fmt.Sprint("d", id))), Incarnation: uid(a.str("run", fmt.Sprint("run", s.state.Image().Index()))), MinLevel: 1,
		MaxLevel: int32(a.num("max", 1))}
	for _, run := range split(a["starts"], ",") {
		c.PreviousStarts = append(c.PreviousStarts, uid(run))
	}
	c.LogsTold = a.has("logs")
	for _, log := range split(a["logs"], ",") { // t-0:2/100/50 is a log of t-0 that ends at 100 with a record of epoch 2, and begins at 50
		tp, at, _ := strings.Cut(log, ":")
		var l cluster.ReplicaLog
		l.Partition = s.partitions(tp)[0]
		if n, err := fmt.Sscanf(at+"/0", "%d/%d/%d", &l.Log.LastEpoch, &l.Log.LogEnd, &l.Log.LogStart); n < 3 {
			panic(err)
		}
		c.Logs = append(c.Logs, l)
	}
	for _, tp := range s.partitions(a["unopened"]) {
		c.Logs = append(c.Logs, cluster.ReplicaLog{Partition: tp, Log: cluster.UnknownLog})
	}
	if a.has("cluster") {
		c.Cluster = uid(a["cluster"])
	}
	return c
}

func (s *script) parseTopic(verb string, a args) cluster.Command {
	name := a["topic"]
	var topic cluster.TopicID
	if tp, ok := s.state.Image().TopicByName(name); ok {
		topic = tp.ID
	}
	switch verb {
	case "create":
		c := cluster.CreateTopic{ID: uid(a.str("id", name)), Name: name, Assignment: assignment(a["replicas"]), CreatedMs: 5}
		for _, kv := range split(a["config"], ",") {
			k, v, _ := strings.Cut(kv, ":")
			c.Configs = append(c.Configs, cluster.ConfigEntry{Key: k, Value: v})
		}
		return c
	case "delete":
		return cluster.DeleteTopic{ID: topic}
	case "grow":
		return cluster.AddPartitions{Topic: topic, Have: int32(a.num("have", 0)), Assignment: assignment(a["replicas"])}
	case "config":
		c := cluster.AlterConfigs{Resource: cluster.ConfigResource{Kind: cluster.ConfigTopic, Name: name}}
		if name == "" {
			c.Resource.Kind = cluster.ConfigClusterDefault
		}
		for _, kv := range split(a["set"], ",") {
			k, v, _ := strings.Cut(kv, ":")
			c.Ops = append(c.Ops, cluster.ConfigOp{Key: k, Value: v})
		}
		for _, k := range split(a["unset"], ",") {
			c.Ops = append(c.Ops, cluster.ConfigOp{Key: k, Delete: true})
		}
		return c
	}
	return nil
}

func (s *script) parsePartition(verb string, a args) cluster.Command {
	tp := cluster.TopicPartition{Partition: -1}
	p := &cluster.Partition{}
	if list := s.partitions(a["p"]); len(list) == 1 {
		tp = list[0]
		if have, ok := s.state.Image().Partition(tp); ok {
			p = have
		}
	}
	epoch := cluster.PartitionEpoch(a.num("pepoch", int64(p.PartitionEpoch)))
	lepoch := record.LeaderEpoch(a.num("lepoch", int64(p.LeaderEpoch)))
	switch verb {
	case "elect":
		return cluster.ElectLeaders{Changes: []cluster.PartitionChange{{Partition: tp, PartitionEpoch: epoch, Leader: cluster.BrokerID(a.num("leader", -1)),
			BumpEpoch: a.has("bump"), Unclean: a.has("unclean"), Offline: ids(a["offline"])}}}
	case "isr":
		c := cluster.ISRChange{Partition: tp, LeaderEpoch: lepoch, PartitionEpoch: epoch}
		for _, b := range ids(a["set"]) {
			c.ISR = append(c.ISR, cluster.ISRMember{Broker: b, Epoch: cluster.BrokerEpoch(a.num(fmt.Sprint("epoch", b), int64(s.epochOf(b))))})
		}
		from := cluster.BrokerID(a.num("from", int64(p.Leader)))
		return cluster.AlterPartition{Leader: from, LeaderBroker: cluster.BrokerEpoch(a.num("fromepoch", int64(s.epochOf(from)))), Changes: []cluster.ISRChange{c}}
	case "reassign":
		return cluster.Reassign{Partition: tp, Replicas: ids(a["to"])}
	case "finish":
		return cluster.FinishReassign{Partition: tp, PartitionEpoch: epoch}
	case "trim":
		return cluster.SetLogStart{Partition: tp, LeaderEpoch: lepoch, LogStart: record.Offset(a.num("to", 0))}
	case "confirm":
		return cluster.ConfirmRemoved{Tombstones: []cluster.Tombstone{{Partition: cluster.TopicPartition{Topic: uid(a["id"])}, Directory: uid(a["dir"])}}}
	}
	return nil
}

func (s *script) parseGroup(verb string, a args, id cluster.BrokerID) cluster.Command {
	group := a["group"]
	shard := cluster.ShardOf(group)
	if a.has("shard") {
		shard = cluster.ShardID(a.num("shard", 0))
	}
	have := s.state.Groups().Shard(shard)
	if verb == "shard" && a.has("all") {
		var c cluster.AssignShards
		for each := range cluster.ShardID(cluster.ShardCount) {
			c.Moves = append(c.Moves, cluster.ShardMove{Shard: each, Epoch: s.state.Groups().Shard(each).Epoch, Leader: id})
		}
		return c
	}
	if verb == "shard" {
		return cluster.AssignShards{Moves: []cluster.ShardMove{{Shard: shard, Epoch: cluster.ShardEpoch(a.num("sepoch", int64(have.Epoch))), Leader: id}}}
	}
	var recs []cluster.GroupRecord
	switch verb {
	case "commit":
		for _, tp := range s.partitions(a["p"]) {
			recs = append(recs, cluster.OffsetCommitted{Group: group, Partition: tp, Committed: cluster.CommittedOffset{Offset: record.Offset(a.num("offset", 0)), LeaderEpoch: -1, CommittedMs: 9}})
		}
	case "uncommit":
		for _, tp := range s.partitions(a["p"]) {
			recs = append(recs, cluster.OffsetDeleted{Group: group, Partition: tp})
		}
	case "group":
		recs = append(recs, cluster.GroupState{Group: group, Type: cluster.GroupNative, Epoch: int32(a.num("gen", 1)), Members: []cluster.GroupMember{{ID: "m"}}})
	case "ungroup":
		recs = append(recs, cluster.GroupDeleted{Group: group})
	default:
		return nil
	}
	if _, given := a["broker"]; !given {
		id = have.Leader
	}
	return cluster.GroupAppend{Broker: id, Batches: []cluster.GroupBatch{{Shard: shard, ShardEpoch: cluster.ShardEpoch(a.num("sepoch", int64(have.Epoch))),
		Sequence: a.num("seq", have.NextSequence), Records: recs}}}
}

func (s *script) epochOf(b cluster.BrokerID) cluster.BrokerEpoch {
	if br, ok := s.state.Image().Broker(b); ok {
		return br.Epoch
	}
	return cluster.NoBrokerEpoch
}

// partitions reads "t-0,u-1"; a topic that does not exist has the id of its name.
func (s *script) partitions(text string) []cluster.TopicPartition {
	var out []cluster.TopicPartition
	for _, w := range split(text, ",") {
		name, n, _ := strings.Cut(w, "-")
		id := uid(name)
		if t, ok := s.state.Image().TopicByName(name); ok {
			id = t.ID
		}
		num, _ := strconv.Atoi(n)
		out = append(out, cluster.TopicPartition{Topic: id, Partition: int32(num)})
	}
	return out
}

func (a args) num(key string, def int64) int64 {
	v, ok := a[key]
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s=%q is no number", key, v))
	}
	return n
}

func (a args) str(key, def string) string {
	if v, ok := a[key]; ok {
		return v
	}
	return def
}

func (a args) has(key string) bool { _, ok := a[key]; return ok }

// uid makes an id whose bytes are the name, so that scripts and output stay readable.
func uid(name string) (u cluster.UUID) {
	copy(u[:], name)
	return u
}

func name(u cluster.UUID) string { return strings.TrimRight(string(u[:]), "\x00") }

func split(s, sep string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, sep)
}

func ids(text string) []cluster.BrokerID {
	var out []cluster.BrokerID
	for _, w := range split(text, ",") {
		n, err := strconv.Atoi(w)
		if err != nil {
			panic(err)
		}
		out = append(out, cluster.BrokerID(n))
	}
	return out
}

// assignment reads "1,2,3/2,3,1".
func assignment(text string) [][]cluster.BrokerID {
	var out [][]cluster.BrokerID
	for _, w := range split(text, "/") {
		out = append(out, ids(w))
	}
	return out
}

func printResult(r cluster.Result) string {
	if r.Code != cluster.CodeNone {
		return fmt.Sprintf("%d: %s: %s\n", r.Index, r.Code, r.Message)
	}
	out := fmt.Sprintf("%d: ok", r.Index)
	if r.BrokerEpoch != 0 {
		out += fmt.Sprintf(" broker epoch %d", r.BrokerEpoch)
	}
	if r.FirstProducerID != 0 {
		out += fmt.Sprintf(" first id %d", r.FirstProducerID)
	}
	for _, it := range r.Items {
		out += " [" + it.Code.String()
		if it.NextSequence != 0 {
			out += fmt.Sprintf(" next %d", it.NextSequence)
		}
		out += "]"
	}
	return out + "\n"
}

func printDelta(d *cluster.Delta) string {
	var out strings.Builder
	for c := range d.Brokers() {
		fmt.Fprintf(&out, "  broker %d: %s\n", c.Key, printBroker(c.New))
	}
	for c := range d.Topics() {
		fmt.Fprintf(&out, "  topic %s: %s\n", name(c.Key), printTopic(c.New))
	}
	for c := range d.Partitions() {
		fmt.Fprintf(&out, "  %s-%d: %s\n", name(c.Key.Topic), c.Key.Partition, printPartition(c.New))
	}
	for c := range d.Tombstones() {
		fmt.Fprintf(&out, "  tombstone %s-%d in %s: %v\n", name(c.Key.Partition.Topic), c.Key.Partition.Partition, name(c.Key.Directory), c.New != cluster.Tombstone{})
	}
	var shards []string
	for c := range d.Shards() {
		shards = append(shards, fmt.Sprintf("%d->%d", c.Key, c.New.Leader))
	}
	if len(shards) > 0 {
		fmt.Fprintf(&out, "  shards: %d moved\n", len(shards))
	}
	return out.String()
}

func printBroker(b *cluster.Broker) string {
	switch {
	case b == nil:
		return "gone"
	case b.Fenced && b.Draining:
		return fmt.Sprintf("epoch %d fenced draining", b.Epoch)
	case b.Fenced:
		return fmt.Sprintf("epoch %d fenced", b.Epoch)
	case b.Draining:
		return fmt.Sprintf("epoch %d draining", b.Epoch)
	}
	return fmt.Sprintf("epoch %d live", b.Epoch)
}

func printTopic(t *cluster.Topic) string {
	if t == nil {
		return "gone"
	}
	return fmt.Sprintf("%d partitions %v", t.Partitions, t.Configs)
}

func printPartition(p *cluster.Partition) string {
	if p == nil {
		return "gone"
	}
	out := fmt.Sprintf("leader %d epoch %d/%d replicas %v isr %v", p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.Replicas, p.ISR)
	if len(p.ELR) > 0 {
		out += fmt.Sprintf(" elr %v", p.ELR)
	}
	for _, r := range p.Returned {
		if !r.Log.Known() {
			out += fmt.Sprintf(" %d unopened", r.Broker)
			continue
		}
		out += fmt.Sprintf(" %d back with %d/%d", r.Broker, r.Log.LastEpoch, r.Log.LogEnd)
		if r.Log.LogStart > 0 {
			out += fmt.Sprintf(" from %d", r.Log.LogStart)
		}
	}
	if len(p.Adding)+len(p.Removing) > 0 {
		out += fmt.Sprintf(" adding %v removing %v", p.Adding, p.Removing)
	}
	if p.LogStart != 0 {
		out += fmt.Sprintf(" start %d", p.LogStart)
	}
	if p.LastLeader != cluster.NoBroker {
		out += fmt.Sprintf(" last %d", p.LastLeader)
	}
	if p.UncleanLast {
		out += " unclean"
	}
	for i, d := range p.Directories {
		if name(d) != fmt.Sprint("d", p.Replicas[i]) {
			out += fmt.Sprintf(" %d in %s", p.Replicas[i], name(d))
		}
	}
	return out
}

// show prints groups, offsets and tombstones, which a delta does not tell.
func (s *script) show() string {
	var out strings.Builder
	v := s.state.Groups()
	for g := range v.Groups() {
		fmt.Fprintf(&out, "group %s %s epoch %d:", g.Group, g.Type, g.Epoch)
		for tp, o := range v.Offsets(g.Group) {
			fmt.Fprintf(&out, " %s-%d=%d", name(tp.Topic), tp.Partition, o.Offset)
		}
		out.WriteString("\n")
	}
	for t := range s.state.Image().Tombstones() {
		fmt.Fprintf(&out, "tombstone %s-%d in %s\n", name(t.Partition.Topic), t.Partition.Partition, name(t.Directory))
	}
	counts := map[cluster.BrokerID]int{}
	for i := range cluster.ShardID(cluster.ShardCount) {
		counts[s.state.Image().Shard(i).Leader]++
	}
	var leaders []cluster.BrokerID
	for b := range counts {
		leaders = append(leaders, b)
	}
	slices.Sort(leaders)
	for _, b := range leaders {
		fmt.Fprintf(&out, "%d shards on %d\n", counts[b], b)
	}
	return out.String()
}
