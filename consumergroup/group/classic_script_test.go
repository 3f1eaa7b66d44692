package group

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/moldau-log/moldau/cluster"
)

// classicRig runs a script against one classic group. A request that is parked is answered in the output of the command that completes it, under
// the name of who asked.
type classicRig struct {
	*rig
	asked []string // by waiter, from 1
}

// metadataOf makes the metadata of a consumer: "a+b" subscribes to a and b.
func metadataOf(s string) []byte {
	if s == "" || s[0] == '!' {
		return []byte(s)
	}
	names := strings.Split(s, "+")
	out := binary.BigEndian.AppendUint32([]byte{0, 1}, uint32(len(names)))
	for _, name := range names {
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(name))), name...)
	}
	return append(out, 0xff, 0xff, 0xff, 0xff) // no user data
}

func showMetadata(b []byte) string {
	if names := subscribedTopics(b); names != nil {
		return strings.Join(names, "+")
	}
	return string(b)
}

// ask steps the group for a named client.
func (r *classicRig) ask(name string, in Input) Output {
	r.asked = append(r.asked, name)
	env := r.env()
	env.Waiter = uint64(len(r.asked))
	out := r.stepIn(env, in)
	for _, done := range out.Completed {
		fmt.Fprintf(&r.out, "%s: ", r.asked[done.Waiter-1])
		r.tellClassic(done.Reply)
	}
	return out
}

func (r *classicRig) tellClassic(reply Reply) {
	switch {
	case reply.Code != cluster.CodeNone:
		fmt.Fprintf(&r.out, "%s: %s\n", reply.Code, reply.Message)
	case reply.Join != nil && reply.Join.MemberIDRequired:
		fmt.Fprintf(&r.out, "join again as %s\n", reply.Join.MemberID)
	case reply.Join != nil:
		j := reply.Join
		fmt.Fprintf(&r.out, "%s in generation %d of %s/%s leader %s", j.MemberID, j.Generation, j.ProtocolType, j.Protocol, j.Leader)
		if j.SkipAssignment {
			fmt.Fprint(&r.out, " skip")
		}
		for _, m := range j.Members {
			fmt.Fprintf(&r.out, " %s=%s", memberName(m.MemberID, m.InstanceID), showMetadata(m.Metadata))
		}
		fmt.Fprintln(&r.out)
	case reply.Sync != nil:
		fmt.Fprintf(&r.out, "assigned %q of %s/%s\n", reply.Sync.Assignment, reply.Sync.ProtocolType, reply.Sync.Protocol)
	case reply.Codes != nil:
		fmt.Fprintf(&r.out, "%v\n", reply.Codes)
	default:
		fmt.Fprintln(&r.out, "ok")
	}
}

func memberName(id, instance string) string {
	if instance == "" {
		return id
	}
	return id + "/" + instance
}

// offersOf reads "protocols=(range:a+b,sticky:a)".
func offersOf(d *datadriven.TestData) []Protocol {
	var out []Protocol
	for _, s := range arg(d, "protocols") {
		name, metadata, _ := strings.Cut(s, ":")
		if name != "" {
			out = append(out, Protocol{name, metadataOf(metadata)})
		}
	}
	return out
}

func (r *classicRig) join(d *datadriven.TestData) Output {
	name := d.CmdArgs[0].Key
	in := Join{
		Group: "g", MemberID: text(d, "member"), InstanceID: text(d, "instance"), ClientID: name, NewMemberID: text(d, "new"),
		SessionTimeout: duration(d, "session"), RebalanceTimeout: duration(d, "rebalance"), ProtocolType: ProtocolTypeConsumer,
		Protocols: offersOf(d), RequireMemberID: arg(d, "require") != nil, CanSkipAssignment: arg(d, "skip") != nil,
	}
	if v := arg(d, "type"); v != nil {
		in.ProtocolType = v[0]
	}
	if in.SessionTimeout == 0 {
		in.SessionTimeout = testSession
	}
	if in.RebalanceTimeout == 0 {
		in.RebalanceTimeout = 3 * testSession
	}
	if in.NewMemberID == "" {
		in.NewMemberID = name
	}
	return r.ask(name, in)
}

func (r *classicRig) syncGroup(d *datadriven.TestData) Output {
	name := d.CmdArgs[0].Key
	in := Sync{Group: "g", MemberID: name, InstanceID: text(d, "instance"), Generation: number(d, "gen", 0),
		ProtocolType: text(d, "type"), Protocol: text(d, "protocol")}
	for _, s := range arg(d, "assign") {
		id, assignment, _ := strings.Cut(s, ":")
		in.Assignments = append(in.Assignments, Assignment{id, []byte(assignment)})
	}
	return r.ask(name, in)
}

func (r *classicRig) leaveGroup(d *datadriven.TestData) Output {
	in := Leave{Group: "g"}
	for _, s := range arg(d, "members") {
		id, instance, _ := strings.Cut(s, "/")
		in.Members = append(in.Members, LeavingMember{MemberID: id, InstanceID: instance})
	}
	return r.ask("leave", in)
}

func (r *classicRig) showClassic() {
	out := r.group.describe(r.env())
	if out.Reply.Code != cluster.CodeNone {
		fmt.Fprintf(&r.out, "%s\n", out.Reply.Code)
		return
	}
	d := out.Reply.Description
	fmt.Fprintf(&r.out, "%s %s generation %d %s/%s leader %q empty since %d\n", d.Type, d.State, d.Epoch, d.ProtocolType, d.Assignor, d.Leader,
		max(-1, d.EmptySinceMs-startMs))
	for _, m := range d.Members {
		fmt.Fprintf(&r.out, "  %s %s %q\n", memberName(m.ID, m.InstanceID), showMetadata(m.Metadata), m.Assignment)
	}
	r.showOffsets(d.Offsets)
}

func (r *classicRig) runClassic(d *datadriven.TestData) string {
	r.out.Reset()
	switch d.Cmd {
	case "cjoin":
		if out := r.join(d); !out.Parked {
			r.tellOnce(out)
		}
	case "csync":
		if out := r.syncGroup(d); !out.Parked {
			r.tellOnce(out)
		}
	case "chb":
		r.tellOnce(r.ask("hb", ClassicHeartbeat{Group: "g", MemberID: d.CmdArgs[0].Key, InstanceID: text(d, "instance"), Generation: number(d, "gen", 0)}))
	case "cleave":
		r.tellOnce(r.leaveGroup(d))
	case "cshow":
		r.showClassic()
	case "delay":
		r.group.config.InitialRebalanceDelay = duration(d, "by")
	case "advance":
		r.now += duration(d, "by")
		r.ask("tick", Tick{})
	case "gap":
		r.ask("gap", NewCoordinator{})
	case "takeover":
		for _, w := range r.group.Abandon() {
			fmt.Fprintf(&r.out, "%s: abandoned\n", r.asked[w-1])
		}
		r.takeOver()
	default:
		return r.run(d)
	}
	checkClassic(r.t, r.group)
	return r.out.String()
}

// tellOnce prints an answer that was not parked; refusals were printed by the step.
func (r *classicRig) tellOnce(out Output) {
	if out.Reply.Code == cluster.CodeNone {
		r.tellClassic(out.Reply)
	}
}

// checkClassic fails when the group is in a state that the package promises not to reach.
func checkClassic(t testing.TB, g *Group) {
	t.Helper()
	c := g.classic
	instances := map[string]string{}
	for i, p := range c.roster {
		if i > 0 && c.roster[i-1].m.ID >= p.m.ID {
			t.Fatalf("the roster has %s before %s", c.roster[i-1].m.ID, p.m.ID)
		}
	}
	for _, p := range c.roster {
		if other, taken := instances[p.m.InstanceID]; taken && p.m.InstanceID != "" {
			t.Fatalf("instance %s is held by %s and by %s", p.m.InstanceID, other, p.m.ID)
		}
		instances[p.m.InstanceID] = p.m.ID
		switch {
		case p.join != 0 && !c.joining:
			t.Fatalf("member %s waits for a generation that nobody gathers", p.m.ID)
		case p.sync != 0 && g.classicState() != StateCompleting:
			t.Fatalf("member %s waits for an assignment in state %s", p.m.ID, g.classicState())
		case g.member(p.m.ID) == nil && !c.joining:
			t.Fatalf("member %s is in no generation and waits for none", p.m.ID)
		case g.sessionRuns(p) && g.deadline > p.ends:
			t.Fatalf("the session of %s ends at %s, before the deadline %s", p.m.ID, p.ends, g.deadline)
		}
	}
	if c.joining && g.deadline > c.joinBy {
		t.Fatalf("the generation begins at %s, before the deadline %s", c.joinBy, g.deadline)
	}
	if g.Type() != cluster.GroupClassic {
		return
	}
	for _, m := range g.state.Members {
		if c.member(m.ID) == nil {
			t.Fatalf("member %s of the durable state is not in the roster", m.ID)
		}
		if m.Epoch != g.state.Members[0].Epoch || m.Epoch > g.state.Epoch {
			t.Fatalf("member %s is at generation %d, the group at %d", m.ID, m.Epoch, g.state.Epoch)
		}
	}
}

func TestClassicScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/classic", func(t *testing.T, path string) {
		r := &classicRig{rig: newRig(t)}
		r.group.config.InitialRebalanceDelay = 0
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return r.runClassic(d) })
	})
}
