package partition

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/segment"
)

// createPass is how many replicas one Plan creates: a fraction of a second of work for a slow disk.
const createPass = 64

// Planner compares the metadata with the replicas of one data directory and says what is to be done. It touches nothing itself; one goroutine at a
// time uses it.
//
// A replica is removed only when a committed tombstone names it in this data directory. One that is simply not known any more is parked: closed,
// reported and kept (case 149).
type Planner struct {
	broker    cluster.BrokerID
	directory cluster.DirectoryID
	// last and self are of the newest plan: only what differs from them is looked at.
	last *cluster.Image
	self cluster.BrokerEpoch
	// backlog are the replicas that are yet to be created: oldest wishes first.
	backlog []cluster.TopicPartition
}

// Local is what a Planner asks about the replicas that its owner has, whole or damaged.
type Local interface {
	Has(tp cluster.TopicPartition) bool
	// Lost reports whether a replica that Has knows is one whose directory was missing at the start (ErrMissing).
	Lost(tp cluster.TopicPartition) bool
	// Sorted lists them in key order.
	Sorted() []cluster.TopicPartition
}

// Plan is what a change of the metadata asks for, to be done in the order of the fields.
type Plan struct {
	Remove []cluster.Tombstone
	Park   []cluster.TopicPartition
	// Tell are replicas to be told of their configuration and their partition's state.
	Tell []cluster.TopicPartition
	// Create are at most 64 replicas to be created, and then told. One that was lost is replaced.
	Create []cluster.TopicPartition
	// Report are lost replicas that were made the leader, which they cannot be: the controller is to be told that they are offline (ErrMissing).
	Report []cluster.TopicPartition

	seen map[cluster.TopicPartition]bool // is in Tell, Remove or Park, or needs nothing
	// creating says what is in Create.
	creating map[cluster.TopicPartition]bool
}

// NewPlanner makes a planner that has seen no metadata.
func NewPlanner(broker cluster.BrokerID, directory cluster.DirectoryID) *Planner {
	return &Planner{broker: broker, directory: directory, last: cluster.EmptyImage(), self: cluster.NoBrokerEpoch}
}

// Next plans what leads from the image of the last call to this one, or returns nil: nothing is done before the image has self, the broker's present
// registration, because no broker acts on a partition as an earlier life of itself.
func (p *Planner) Next(image *cluster.Image, self cluster.BrokerEpoch, local Local) *Plan {
	me, ok := image.Broker(p.broker)
	if !ok || self == cluster.NoBrokerEpoch || me.Epoch != self && !planted.On(planted.LeadsFormerEpoch) {
		return nil
	}
	plan := p.plan(cluster.Diff(p.last, image), self != p.self, local)
	p.last, p.self = image, self
	return plan
}

// More reports whether the last plan has left replicas to be created by the next one.
func (p *Planner) More() bool { return len(p.backlog) > 0 }

// plan looks at every local replica only at the first time and when brokers or defaults have changed.
func (p *Planner) plan(d *cluster.Delta, first bool, local Local) *Plan {
	plan := &Plan{seen: map[cluster.TopicPartition]bool{}, creating: map[cluster.TopicPartition]bool{}}
	plan.Remove = slices.SortedFunc(keys(p.tombstones(d, first)), compareTombstones)
	for c := range d.Partitions() {
		if c.New != nil && p.here(c.New) {
			p.want(plan, c.Key, c.New, local)
		} else if local.Has(c.Key) {
			p.gone(plan, c.Key, d.New)
		}
	}
	for c := range d.Topics() {
		if c.Old == nil || c.New == nil {
			continue // its partitions have come or gone with it
		}
		for n := range d.New.PartitionsOf(c.Key) {
			if tp := (cluster.TopicPartition{Topic: c.Key, Partition: n}); local.Has(tp) {
				plan.touch(tp)
			}
		}
	}
	brokers := map[cluster.BrokerID]bool{}
	for c := range d.Brokers() {
		brokers[c.Key] = true
	}
	if all := first || p.configChanged(d); all || len(brokers) > 0 {
		p.planAll(plan, d.New, brokers, all, local)
	}
	p.planBacklog(plan, d.New, local)
	return plan
}

// planBacklog adds what earlier plans have left over, if it is still wanted, behind what is new, and keeps what is too much for this one.
func (p *Planner) planBacklog(plan *Plan, image *cluster.Image, local Local) {
	for _, tp := range p.backlog {
		if state, ok := image.Partition(tp); ok && p.here(state) && !plan.creating[tp] {
			p.want(plan, tp, state, local)
		}
	}
	p.backlog = p.backlog[:0]
	for len(plan.Create) > createPass {
		last := len(plan.Create) - 1
		p.backlog = append(p.backlog, plan.Create[last])
		plan.Create = plan.Create[:last]
	}
	slices.Reverse(p.backlog)
}

// want looks at one changed partition that has a replica here.
func (p *Planner) want(plan *Plan, tp cluster.TopicPartition, state *cluster.Partition, local Local) {
	switch {
	case !local.Has(tp), local.Lost(tp) && p.mayBeginAnew(state):
		plan.seen[tp], plan.creating[tp] = true, true
		plan.Create = append(plan.Create, tp)
	case local.Lost(tp) && state.Leader == p.broker:
		plan.Report = append(plan.Report, tp)
	default:
		plan.touch(tp)
	}
}

// mayBeginAnew reports whether a lost replica may be created empty: there is a leader to copy from, and nobody counts on the copy that was here, or an
// operator has accepted with an unclean election that what it had is lost. Without either the place is left for the directory to be put back.
func (p *Planner) mayBeginAnew(state *cluster.Partition) bool {
	if state.Leader == p.broker {
		return state.UncleanLast
	}
	return state.Leader != cluster.NoBroker && !state.InISR(p.broker) && !state.InELR(p.broker)
}

// touch adds a replica that is to be told.
func (plan *Plan) touch(tp cluster.TopicPartition) {
	if !plan.seen[tp] {
		plan.seen[tp] = true
		plan.Tell = append(plan.Tell, tp)
	}
}

// planAll looks at every local replica.
func (p *Planner) planAll(plan *Plan, image *cluster.Image, brokers map[cluster.BrokerID]bool, all bool, local Local) {
	for _, tp := range local.Sorted() {
		state, known := image.Partition(tp)
		if !known || !p.here(state) {
			p.gone(plan, tp, image)
		} else if all || slices.ContainsFunc(state.Replicas, func(b cluster.BrokerID) bool { return brokers[b] }) {
			plan.touch(tp)
		}
	}
}

// gone looks at a local replica that the metadata does not place here any more.
func (p *Planner) gone(plan *Plan, tp cluster.TopicPartition, image *cluster.Image) {
	if plan.seen[tp] {
		return
	}
	plan.seen[tp] = true
	mark := cluster.Tombstone{Partition: tp, Directory: p.directory}
	switch {
	case slices.Contains(plan.Remove, mark):
	case image.HasTombstone(mark) && !planted.On(planted.TombstoneIgnored), planted.On(planted.UnknownReplicaDeleted):
		plan.Remove = append(plan.Remove, mark)
	default:
		plan.Park = append(plan.Park, tp)
	}
}

// tombstones are the marks for this data directory: the new ones, or all at the first time.
func (p *Planner) tombstones(d *cluster.Delta, first bool) map[cluster.Tombstone]bool {
	doomed := map[cluster.Tombstone]bool{}
	if planted.On(planted.TombstoneIgnored) {
		return doomed
	}
	add := func(t cluster.Tombstone) {
		if t.Directory == p.directory && !p.assigned(d.New, t.Partition) {
			doomed[t] = true
		}
	}
	if first {
		for t := range d.New.TombstonesIn(p.directory) {
			add(t)
		}
		return doomed
	}
	for c := range d.Tombstones() {
		if d.New.HasTombstone(c.Key) {
			add(c.Key)
		}
	}
	return doomed
}

// assigned reports whether a partition has a replica in this data directory.
func (p *Planner) assigned(image *cluster.Image, tp cluster.TopicPartition) bool {
	state, ok := image.Partition(tp)
	return ok && p.here(state)
}

// here reports whether the metadata places a replica into this data directory. An unset directory is one that the holder has not reported yet.
func (p *Planner) here(state *cluster.Partition) bool {
	if !state.HasReplica(p.broker) {
		return false
	}
	dir := state.Directory(p.broker)
	return dir == p.directory || dir.IsZero()
}

// configChanged reports whether a configuration of this broker or of the whole cluster differs: then every replica has new settings.
func (p *Planner) configChanged(d *cluster.Delta) bool {
	own := cluster.ConfigResource{Kind: cluster.ConfigBroker, Name: strconv.Itoa(int(p.broker))}
	for c := range d.Configs() {
		if c.Key.Kind == cluster.ConfigClusterDefault || c.Key == own {
			return true
		}
	}
	return false
}

// identityOf is what a new replica's directory says of itself; false when the metadata has no topic for it.
func identityOf(image *cluster.Image, tp cluster.TopicPartition) (segment.Identity, bool) {
	t, ok := image.Topic(tp.Topic)
	if !ok {
		return segment.Identity{}, false
	}
	return segment.Identity{TopicID: tp.Topic, Topic: t.Name, Partition: tp.Partition, ClusterID: image.ClusterID().String()}, true
}

func keys(m map[cluster.Tombstone]bool) func(func(cluster.Tombstone) bool) {
	return func(yield func(cluster.Tombstone) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// compareTombstones orders by directory, then partition.
func compareTombstones(a, b cluster.Tombstone) int {
	return cmp.Or(slices.Compare(a.Directory[:], b.Directory[:]), a.Partition.Compare(b.Partition))
}
