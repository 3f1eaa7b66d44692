package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/invariant"
	"github.com/moldau-log/moldau/internal/meter"
)

// The phases of a history.
const (
	// setupLimit is how long the cluster may take to form, without faults.
	setupLimit = 20 * time.Second
	// faultTime is how long faults go on.
	faultTime = 12 * time.Second
	// healLimit is how long a healed cluster may take until everything has a leader and nothing is left to be read or copied (I11).
	healLimit = 30 * time.Second
	// afterHealing is how long producers go on into the healed cluster.
	afterHealing = 500 * time.Millisecond
)

// Result is what a history came to.
type Result struct {
	Seed uint64
	// Hash is over everything that happened; the same seed and options give the same.
	Hash uint64
	// Violation says what was broken, empty when nothing was.
	Violation string
	// Simulated is how long the history was, Steps how many events it had.
	Simulated time.Duration
	Steps     int
	Coverage  Coverage
	// Faults are those of the history, in order; Options.Skip counts in it.
	Faults []Fault
	Trace  []string
}

// World is one simulated cluster with its clients.
type World struct {
	*scheduler
	opts    Options
	kinds   []faultKind
	mix     mixture
	cov     Coverage
	net     *network
	meta    *metadata
	brokers []*broker
	// partitions are all that ever were, in the order in which they came; topics are theirs, by id.
	partitions []cluster.TopicPartition
	topics     map[cluster.TopicID]*topic
	topicIDs   int // given out
	meters     *meter.Set
	check      *checker
	load       *workload
	groups     *groups
	faults     bool
	// chosen draws which faults happen when and to whom, and nothing else: what clients do does not change them.
	chosen *rand.Rand
	// wished is the same for what administrators ask for; errands is how many of them are under way.
	wished  *rand.Rand
	errands int
	// retiring is the broker that is being taken out of the cluster, nil for none.
	retiring *retirement
	struck   []Fault // so far
	// spoilt is whose disk is not to be trusted, nil for nobody's; directories is how many data directories were begun, movedAway how many of replicas were
	// moved away.
	spoilt      *spoiled
	bereft      *bereft // nil for none
	directories int
	movedAway   int
	// wallLow is how far behind the truth a wall clock has ever been, as a negative time.
	wallLow time.Duration
}

// replicationFactor is the usual one.
const replicationFactor = 3

// Run plays one history.
func Run(opts Options) (res Result) {
	w := newWorld(opts)
	defer func() {
		if v := recover(); v != nil {
			w.broken(v)
		}
		w.cov.Duplicates = w.counted("moldau_produce_duplicates_total")
		res = Result{Seed: opts.Seed, Hash: w.hash, Violation: w.check.violation, Simulated: w.now - time.Second, Steps: w.steps, Coverage: w.cov,
			Faults: w.struck, Trace: w.lines()}
	}()
	w.setUp()
	w.runUntil(w.now+w.mix.faultTime, w.check.failed)
	w.heal()
	return
}

// broken turns a panic into a violation: of an invariant of the product, or a plain bug of it or of this package.
func (w *World) broken(v any) {
	if violation, ok := invariant.Recovered(v); ok {
		w.check.fail("%s", violation.Error())
		return
	}
	w.check.fail("panic: %v\n%s", v, debug.Stack())
}

func newWorld(opts Options) *World {
	w := &World{scheduler: newScheduler(opts.Seed, opts.Trace), opts: opts, meters: meter.NewSet(), topics: map[cluster.TopicID]*topic{}, chosen: rand.New(rand.NewPCG(opts.Seed, 0)), wished: rand.New(rand.NewPCG(opts.Seed, 1<<63))}
	w.net = newNetwork(w.scheduler, &w.cov)
	w.kinds = faultKinds()
	w.mix = drawMixture(w.scheduler, w.kinds, opts)
	w.check = newChecker(w)
	w.meta = newMetadata(w)
	w.groups = newGroups(w)
	for i := range w.mix.brokers {
		b := newBroker(w, cluster.BrokerID(i))
		w.wallLow = min(w.wallLow, b.clock.skew)
		w.brokers = append(w.brokers, b)
	}
	return w
}

// setUp forms the cluster, creates the topic and starts clients and faults.
func (w *World) setUp() {
	w.meta.lead()
	w.meta.propose(cluster.InitCluster{Cluster: cluster.ClusterID{5}, FeatureLevel: cluster.LevelNewest}, nil)
	w.runUntil(w.now+time.Second, w.check.failed)
	for _, b := range w.brokers[:w.mix.founders] {
		b.start()
	}
	ready := func() bool {
		n := 0
		for b := range w.meta.state.Image().Brokers() {
			if b.Eligible() {
				n++
			}
		}
		return n == w.mix.founders || w.check.failed()
	}
	w.runUntil(w.now+setupLimit, ready)
	if !ready() {
		w.check.fail("the cluster does not form")
	}
	w.createTopics()
	w.runUntil(w.now+time.Second, w.check.failed)
	w.load = newWorkload(w)
	w.groups.start()
	w.faults = true
	w.after(w.between(0, time.Second), w.trouble)
	w.after(w.between(0, time.Second), w.administer)
	w.joinLate()
	for _, b := range w.brokers {
		w.poll(b)
	}
}

// poll brings a broker the newest image now and then, for what was lost on the way.
func (w *World) poll(b *broker) {
	w.after(100*time.Millisecond, func() {
		if b.up && b.image.Index() < w.meta.state.Image().Index() {
			w.meta.push(b)
		}
		w.poll(b)
	})
}

// heal ends all faults and demands that the cluster becomes whole.
func (w *World) heal() {
	if w.check.failed() {
		return
	}
	w.note("heal")
	w.faults = false
	w.net.calm()
	w.endMetaFaults()
	w.mendAll()
	for _, b := range w.brokers {
		b.slowDisk, b.retired = false, false
		w.healDisk(b)
		if b.up && b.failed {
			b.crash() // an operator replaces what is broken
		}
		if !b.up {
			b.start()
		}
	}
	w.meta.lead()
	w.groups.heal()
	w.repairAll()
	w.after(afterHealing, func() { w.load.stopping = true })
	w.runUntil(w.now+healLimit, w.settled)
	if !w.check.failed() && !w.settled() {
		w.check.fail("I11: %s after healing: %s", healLimit, w.unsettled())
	}
	if !w.check.failed() {
		w.check.finish()
	}
}

func (w *World) mendAll() {
	nodes := []node{controllerNode}
	for _, b := range w.brokers {
		nodes = append(nodes, b.node())
	}
	nodes = append(nodes, w.load.nodes()...)
	w.net.mendAll(nodes)
}

func (w *World) settled() bool { return w.check.failed() || w.unsettled() == "" }

// unsettled says what is not whole yet.
func (w *World) unsettled() string {
	if waits := w.load.unfinished(); waits != "" {
		return waits
	}
	for _, tp := range w.live() {
		if waits := w.partial(tp); waits != "" {
			return waits
		}
	}
	if waits := w.load.behind(); waits != "" {
		return waits
	}
	for _, b := range w.brokers {
		for t := range w.meta.state.Image().TombstonesIn(b.dir) {
			return fmt.Sprintf("broker %d has not removed its replica of %s", b.id, w.named(t.Partition))
		}
	}
	return w.groups.unsettled()
}

// partial says what is not whole yet of a partition.
func (w *World) partial(tp cluster.TopicPartition) string {
	p, _ := w.meta.state.Image().Partition(tp)
	if p.Leader == cluster.NoBroker || len(p.ISR) != len(p.Replicas) || len(p.Adding)+len(p.Removing) > 0 {
		return fmt.Sprintf("%s has leader %d, ISR %v, ELR %v of %v, adding %v, removing %v; %s", w.named(tp), p.Leader, p.ISR, p.ELR, p.Replicas, p.Adding, p.Removing,
			w.replicas(tp, p))
	}
	leader := w.brokers[p.Leader].replica(tp)
	if leader == nil {
		return fmt.Sprintf("broker %d has no replica of %s", p.Leader, w.named(tp))
	}
	for _, id := range p.Replicas {
		r := w.brokers[id].replica(tp)
		if r == nil || r.at.LeaderEpoch != p.LeaderEpoch || r.at.LogStart < p.LogStart || r.at.HighWatermark != leader.at.LogEnd || r.at.LogEnd != leader.at.LogEnd {
			return fmt.Sprintf("broker %d has not all of %s: %s", id, w.named(tp), w.replicas(tp, p))
		}
	}
	return ""
}

// replicas describes the replicas of a partition, for a report.
func (w *World) replicas(tp cluster.TopicPartition, p *cluster.Partition) string {
	var all []string
	for _, id := range p.Replicas {
		if r := w.brokers[id].replica(tp); r != nil {
			all = append(all, fmt.Sprintf("%d: %s in epoch %d, %d to %d, flushed %d, watermark %d", id, r.at.Role, r.at.LeaderEpoch, r.at.LogStart, r.at.LogEnd, r.at.Flushed, r.at.HighWatermark))
		} else {
			all = append(all, fmt.Sprintf("%d: none", id))
		}
	}
	return strings.Join(all, "; ")
}

// counted is the value of one of the product's counters.
func (w *World) counted(name string) int {
	total := 0
	for _, f := range w.meters.Snapshot() {
		if f.Name != name {
			continue
		}
		for _, s := range f.Samples {
			total += int(s.Value)
		}
	}
	return total
}
