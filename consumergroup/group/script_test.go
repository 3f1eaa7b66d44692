package group

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/moldau-log/moldau/cluster"
)

// fakeTopics is a set of topics whose names are one letter, which is also their id.
type fakeTopics map[string]int32

func topicID(name string) cluster.TopicID { return cluster.TopicID{0: name[0]} }

func (f fakeTopics) TopicByName(name string) (*cluster.Topic, bool) {
	n, ok := f[name]
	if !ok {
		return nil, false
	}
	return &cluster.Topic{ID: topicID(name), Name: name, Partitions: n}, true
}

func (f fakeTopics) Topic(id cluster.TopicID) (*cluster.Topic, bool) {
	return f.TopicByName(string(id[:1]))
}

// parsePartitions reads "a0 a1 b0".
func parsePartitions(list []string) []cluster.TopicPartition {
	out := []cluster.TopicPartition{}
	for _, s := range list {
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s[1:])
		if err != nil {
			panic(err)
		}
		out = append(out, cluster.TopicPartition{Topic: topicID(s), Partition: int32(n)})
	}
	return out
}

func formatPartitions(list []cluster.TopicPartition) string {
	out := make([]string, len(list))
	for i, tp := range list {
		out[i] = fmt.Sprintf("%c%d", tp.Topic[0], tp.Partition)
	}
	return "[" + strings.Join(out, " ") + "]"
}

// rig runs a script against one group. Time moves only by "advance".
type rig struct {
	t      testing.TB
	group  *Group
	topics fakeTopics
	now    time.Duration
	out    strings.Builder
	// states are all records so far, for a new coordinator.
	records []cluster.GroupRecord
}

const startMs = 1_000_000

func (r *rig) env() Env {
	return Env{Now: r.now, NowMs: startMs + r.now.Milliseconds(), Topics: r.topics}
}

func newRig(t testing.TB) *rig {
	config := DefaultConfig()
	config.MaxMembers = 4
	config.MaxOffsetMetadata = 8
	return &rig{t: t, group: New("g", config), topics: fakeTopics{}}
}

// step hands an input over as the coordinator does, and prints what came of it.
func (r *rig) step(in Input) Output { return r.stepIn(r.env(), in) }

func (r *rig) stepIn(env Env, in Input) Output {
	out := r.group.Step(env, in)
	for _, record := range out.Records {
		r.group.Replay(record)
		r.records = append(r.records, record)
		switch record := record.(type) {
		case cluster.GroupState:
			fmt.Fprintf(&r.out, "record: group epoch %d\n", record.Epoch)
		default:
			fmt.Fprintf(&r.out, "record: %T\n", record)
		}
	}
	for _, x := range out.Removed {
		fmt.Fprintf(&r.out, "removed %s: %s\n", x.Member, x.Reason)
	}
	if len(out.Wake) > 0 {
		fmt.Fprintf(&r.out, "wake %s\n", strings.Join(out.Wake, " "))
	}
	if out.Reply.Code != cluster.CodeNone {
		fmt.Fprintf(&r.out, "%s: %s\n", out.Reply.Code, out.Reply.Message)
	}
	return out
}

// values of one command argument; nil when it is absent.
func arg(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return append([]string{}, a.Vals...)
		}
	}
	return nil
}

func text(d *datadriven.TestData, key string) string {
	if v := arg(d, key); len(v) > 0 {
		return v[0]
	}
	return ""
}

func number(d *datadriven.TestData, key string, or int32) int32 {
	if v := text(d, key); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			panic(err)
		}
		return int32(n)
	}
	return or
}

func duration(d *datadriven.TestData, key string) time.Duration {
	v := text(d, key)
	if v == "" {
		return 0
	}
	out, err := time.ParseDuration(v)
	if err != nil {
		panic(err)
	}
	return out
}

func (r *rig) heartbeat(d *datadriven.TestData, epoch int32) {
	hb := Heartbeat{
		Group: "g", MemberID: d.CmdArgs[0].Key, InstanceID: text(d, "instance"), Epoch: number(d, "epoch", epoch),
		SessionTimeout: duration(d, "session"), RebalanceTimeout: duration(d, "rebalance"), Assignor: text(d, "assignor"),
		Poll: arg(d, "poll") != nil,
	}
	if topics := arg(d, "topics"); topics != nil {
		hb.Topics = slices.DeleteFunc(topics, func(s string) bool { return s == "" })
	}
	if owned := arg(d, "owned"); owned != nil {
		hb.Owned = parsePartitions(owned)
	}
	if v := text(d, "seen"); v == "old" {
		hb.Seen = 1
	} else if v == "now" {
		hb.Seen = version(r.group.member(hb.MemberID))
	}
	out := r.step(hb)
	if out.Reply.Code != cluster.CodeNone {
		return
	}
	m := out.Reply.Member
	fmt.Fprintf(&r.out, "epoch %d", m.Epoch)
	if m.Changed {
		fmt.Fprintf(&r.out, " assigned %s revoke %s", formatPartitions(m.Assigned), formatPartitions(m.Revoke))
	}
	if epoch == EpochJoin {
		fmt.Fprintf(&r.out, " session %s heartbeat %s", m.SessionTimeout, m.HeartbeatInterval)
	}
	fmt.Fprintln(&r.out)
}

// offsetsOf reads "a0=5 a1=6".
func offsetsOf(d *datadriven.TestData) []CommitOffset {
	var out []CommitOffset
	for _, a := range d.CmdArgs {
		if len(a.Key) != 2 || a.Key[1] < '0' || a.Key[1] > '9' || a.Key[0] == 'm' {
			continue
		}
		n, err := strconv.ParseInt(a.Vals[0], 10, 64)
		if err != nil {
			panic(err)
		}
		out = append(out, CommitOffset{Partition: parsePartitions([]string{a.Key})[0], Offset: n, Metadata: text(d, "metadata"), LeaderEpoch: -1})
	}
	return out
}

func (r *rig) codes(out Output) {
	if out.Reply.Code == cluster.CodeNone {
		fmt.Fprintf(&r.out, "%v\n", out.Reply.Codes)
	}
}

func (r *rig) show() {
	if out := r.group.describe(r.env()); out.Reply.Code != cluster.CodeNone {
		fmt.Fprintf(&r.out, "%s\n", out.Reply.Code)
		return
	}
	d := r.group.describe(r.env()).Reply.Description
	fmt.Fprintf(&r.out, "%s %s epoch %d %s empty since %d\n", d.Type, d.State, d.Epoch, d.Assignor, max(-1, d.EmptySinceMs-startMs))
	for _, m := range d.Members {
		name := m.ID
		if m.InstanceID != "" {
			name += "/" + m.InstanceID
		}
		fmt.Fprintf(&r.out, "  %s epoch %d assigned %s target %s revoking %s\n", name, m.Epoch,
			formatPartitions(m.Assigned), formatPartitions(m.Target), formatPartitions(m.Revoking))
	}
	r.showOffsets(d.Offsets)
}

func (r *rig) showOffsets(offsets []FetchedOffset) {
	for _, o := range offsets {
		value := "none"
		if o.Found {
			value = fmt.Sprintf("%d %q", o.Committed.Offset, o.Committed.Metadata)
		}
		fmt.Fprintf(&r.out, "  %s = %s\n", formatPartitions([]cluster.TopicPartition{o.Partition}), value)
	}
}

// takeOver replays everything into a new group, as another broker would.
func (r *rig) takeOver() {
	config := r.group.config
	r.group = New("g", config)
	for _, record := range r.records {
		r.group.Replay(record)
	}
	r.step(NewCoordinator{})
	r.step(TopicsChanged{})
}

func (r *rig) run(d *datadriven.TestData) string {
	r.out.Reset()
	switch d.Cmd {
	case "topics":
		r.topics = fakeTopics{}
		for _, a := range d.CmdArgs {
			r.topics[a.Key] = number(d, a.Key, 0)
		}
		r.step(TopicsChanged{})
	case "join":
		r.heartbeat(d, EpochJoin)
	case "hb":
		r.heartbeat(d, 0)
	case "leave":
		r.heartbeat(d, EpochLeave)
	case "away":
		r.heartbeat(d, EpochStaticLeave)
	case "advance":
		r.now += duration(d, "by")
		r.step(Tick{})
	case "takeover":
		r.takeOver()
	case "commit":
		r.codes(r.step(Commit{Group: "g", MemberID: text(d, "member"), InstanceID: text(d, "instance"),
			Epoch: number(d, "epoch", NoMemberEpoch), Sequence: int64(number(d, "sequence", 0)), Offsets: offsetsOf(d)}))
	case "reset":
		r.codes(r.step(Reset{Group: "g", Offsets: offsetsOf(d)}))
	case "fetch":
		in := FetchOffsets{Group: "g", MemberID: text(d, "member"), Epoch: number(d, "epoch", NoMemberEpoch)}
		if list := arg(d, "partitions"); list != nil {
			in.Partitions = parsePartitions(list)
		}
		r.showOffsets(r.step(in).Reply.Offsets)
	case "delete":
		r.step(Delete{Group: "g"})
	case "delete-offsets":
		r.codes(r.step(DeleteOffsets{Group: "g", Partitions: parsePartitions(arg(d, "partitions"))}))
	case "expire":
		r.step(Expire{Retention: duration(d, "retention")})
	case "show":
		r.show()
	case "limit":
		r.group.config.MaxStateBytes = int(number(d, "state", 0))
	case "why":
		if d := r.step(Describe{Group: "g"}).Reply.Description; d != nil {
			r.out.WriteString(strings.Join(append(d.Why, ""), "\n"))
		}
	default:
		d.Fatalf(r.t.(*testing.T), "no command %s", d.Cmd)
	}
	checkInvariants(r.t, r.group)
	return r.out.String()
}

// checkInvariants fails when the durable state is one that the package promises not to reach.
func checkInvariants(t testing.TB, g *Group) {
	t.Helper()
	owners := map[cluster.TopicPartition]string{}
	instances := map[string]string{}
	if !slices.IsSortedFunc(g.state.Members, func(a, b cluster.GroupMember) int { return cmp.Compare(a.ID, b.ID) }) {
		t.Fatal("members are not sorted")
	}
	for _, m := range g.state.Members {
		for _, tp := range slices.Concat(m.Assigned, m.Revoking) {
			if other, taken := owners[tp]; taken {
				t.Fatalf("%v is held by %s and by %s", tp, other, m.ID)
			}
			owners[tp] = m.ID
		}
		if m.Epoch > g.state.Epoch {
			t.Fatalf("member %s is at epoch %d, the group at %d", m.ID, m.Epoch, g.state.Epoch)
		}
		if other, taken := instances[m.InstanceID]; taken && m.InstanceID != "" {
			t.Fatalf("instance %s is held by %s and by %s", m.InstanceID, other, m.ID)
		}
		instances[m.InstanceID] = m.ID
		if m.Epoch == g.state.Epoch && len(subtract(m.Assigned, m.Target)) > 0 {
			t.Fatalf("member %s is at the group's epoch and has %s beyond its target", m.ID, formatPartitions(subtract(m.Assigned, m.Target)))
		}
		if m.Epoch == g.state.Epoch && len(m.Revoking) > 0 {
			t.Fatalf("member %s is at the group's epoch and still revokes %s", m.ID, formatPartitions(m.Revoking))
		}
		if g.state.Type == cluster.GroupNative && g.sessions[m.ID] == nil {
			t.Fatalf("member %s has no session", m.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(g.sessions)) {
		if g.member(id) == nil {
			t.Fatalf("a session of %s, which is no member, is left", id)
		}
	}
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		r := newRig(t)
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return r.run(d) })
	})
}
