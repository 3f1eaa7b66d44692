package replication_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/replication"
)

// TestScripts runs the histories in testdata. The commands:
//
//	new [brokers=3] [min-isr=2] [relaxed]      a cluster whose brokers are registered and fenced
//	unfence N, fence N                         by the controller; an election follows where one is needed
//	produce N [count=1] [acks=isr|leader|none] at broker N
//	begin-flush N, end-flush N, flush N        an fsync in two halves, or whole
//	deliver [N->M ...]                         everything on those links, in order, until they are quiet; all links if none is named
//	drop N->M                                  loses what is on the link
//	settle [block=(N->M,...)]                  delivers and flushes everywhere until nothing happens, except on blocked links
//	crash N [wipe], start N                    power cut: what was not flushed is gone
//	subscribe N                                the follower asks again, as its fetcher does after a broken stream
//	time D                                     time passes, and everybody gets a Tick
//	lease N D                                  the controller's word holds for D from now
//	wire                                       what is on the way
//	status                                     a line per broker
//
// The controller is broker 100.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", playScript)
}

// The hard cases that a script tells alone, under their numbers.

func TestCase29_RestartBeforeTheWatermarkIsKnown(t *testing.T) {
	playScript(t, "testdata/29_restart_before_watermark")
}

func TestCase32_MaximalISR(t *testing.T) { playScript(t, "testdata/32_maximal_isr") }

func TestCase49_OneFollowerCut(t *testing.T) { playScript(t, "testdata/49_one_follower_cut") }

// playScript runs one file.
func playScript(t *testing.T, path string) {
	s := &script{}
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		s.out.Reset()
		s.run(t, d)
		return s.out.String()
	})
}

// script is one history being told.
type script struct {
	w   *world
	out strings.Builder
}

func (s *script) printf(format string, args ...any) {
	fmt.Fprintf(&s.out, format+"\n", args...)
}

// run executes one command.
func (s *script) run(t *testing.T, d *datadriven.TestData) {
	if d.Cmd == "new" {
		s.create(t, d)
		return
	}
	switch d.Cmd {
	case "unfence":
		s.w.ctl.unfence(s.node(t, d).id)
	case "fence":
		s.w.ctl.fence(s.node(t, d).id)
	case "produce":
		s.produce(t, d)
	case "begin-flush":
		s.node(t, d).beginFlush()
	case "end-flush":
		s.node(t, d).finishFlush()
	case "flush":
		s.node(t, d).flush()
	case "deliver":
		s.deliver(d)
	case "drop":
		links := links(d.CmdArgs)
		s.w.wire = slices.DeleteFunc(s.w.wire, func(m message) bool { return slices.Contains(links, link(m)) })
	case "settle":
		var blocked []string
		if arg, ok := argOf(d, "block"); ok {
			blocked = arg.Vals
		}
		s.w.settle(func(m message) bool { return slices.Contains(blocked, link(m)) })
	case "crash":
		n := s.node(t, d)
		n.crash()
		if d.HasArg("wipe") {
			n.log = modelLog{}
			s.w.ctl.wiped(n.id)
		}
	case "start":
		s.node(t, d).start()
	case "subscribe":
		s.node(t, d).subscribe()
	case "time":
		s.pass(t, d)
	case "lease":
		n := s.node(t, d)
		n.step(&replication.ControllerContact{Until: s.w.now + duration(t, d.CmdArgs[1].Key)})
	case "wire":
		for _, m := range s.w.wire {
			s.printf("%s", m)
		}
	case "status":
		s.status()
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
}

func (s *script) create(t *testing.T, d *datadriven.TestData) {
	brokers, minISR := 3, 2
	d.MaybeScanArgs(t, "brokers", &brokers)
	d.MaybeScanArgs(t, "min-isr", &minISR)
	s.w = newWorld(brokers, minISR)
	s.w.trace = s.printf
	if d.HasArg("relaxed") {
		s.w.relaxed = true
		for _, n := range s.w.nodes {
			n.step(&replication.ConfigChanged{MinISR: minISR, Relaxed: true})
		}
	}
}

func (s *script) node(t *testing.T, d *datadriven.TestData) *node {
	id, err := strconv.Atoi(d.CmdArgs[0].Key)
	if err != nil || id < 1 || id > len(s.w.nodes) {
		d.Fatalf(t, "no broker %s", d.CmdArgs[0].Key)
	}
	return s.w.node(cluster.BrokerID(id))
}

func (s *script) produce(t *testing.T, d *datadriven.TestData) {
	n, count := s.node(t, d), 1
	d.MaybeScanArgs(t, "count", &count)
	acks := replication.AcksISR
	if arg, ok := argOf(d, "acks"); ok {
		acks = map[string]replication.Acks{"isr": replication.AcksISR, "leader": replication.AcksLeader, "none": replication.AcksNone}[arg.Vals[0]]
	}
	for range count {
		s.printf("request %d", s.w.next+1)
		n.produce(acks, s.w.now+30*time.Second)
	}
}

// deliver hands over what is on some links until they are quiet.
func (s *script) deliver(d *datadriven.TestData) {
	links := links(d.CmdArgs)
	for {
		i := slices.IndexFunc(s.w.wire, func(m message) bool { return len(links) == 0 || slices.Contains(links, link(m)) })
		if i < 0 {
			return
		}
		s.w.deliver(s.w.take(i))
	}
}

func (s *script) pass(t *testing.T, d *datadriven.TestData) {
	s.w.now += duration(t, d.CmdArgs[0].Key)
	for _, n := range s.w.nodes {
		if n.up {
			n.step(&replication.Tick{})
		}
	}
}

func (s *script) status() {
	p := &s.w.ctl.partition
	s.printf("controller: leader %d in %d, isr %v, elr %v", p.Leader, p.LeaderEpoch, p.ISR, p.ELR)
	for _, n := range s.w.nodes {
		if !n.up {
			s.printf("%d: down %s", n.id, &n.log)
			continue
		}
		r := n.replica
		s.printf("%d: %s in %d, watermark %d, flushed %d, isr %v, maximal %v, %s", n.id, r.Role(), r.LeaderEpoch(), r.HighWatermark(), r.Flushed(), r.ISR(),
			r.MaximalISR(), &n.log)
	}
}

func link(m message) string { return fmt.Sprintf("%d->%d", m.from, m.to) }

func links(args []datadriven.CmdArg) []string {
	var out []string
	for _, a := range args {
		out = append(out, a.Key)
	}
	return out
}

func argOf(d *datadriven.TestData, key string) (datadriven.CmdArg, bool) {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a, true
		}
	}
	return datadriven.CmdArg{}, false
}

func duration(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
