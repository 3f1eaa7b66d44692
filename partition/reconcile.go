package partition

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/segment"
)

// Reconcile makes the local replicas what the metadata says: it creates, opens and removes them, and tells each what has changed for it. self is this
// broker's present registration. Nothing is done before the image has it: a broker acts on no partition as an earlier life of itself. Only what
// differs from the image of the last call is touched, whatever d.Old is. It waits for the disk, but creates a bounded number of replicas in one call, so that
// a large new topic does not keep news from the others: true says that some are left, and that it wants to be called again, with whatever is newest then.
//
// A replica is removed only when a committed tombstone names it in this data directory. One that is simply not known any more is parked: closed,
// reported and kept (case 149).
func (m *Manager) Reconcile(d *cluster.Delta, self cluster.BrokerEpoch) (more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	me, ok := d.New.Broker(m.options.Broker)
	if m.closed || !ok || self == cluster.NoBrokerEpoch || me.Epoch != self {
		return false
	}
	plan := m.plan(cluster.Diff(m.last, d.New), self != m.self)
	m.carryOut(plan, d.New)
	m.last, m.self = d.New, self
	return len(m.backlog) > 0
}

// createPass is how many replicas one Reconcile creates: a fraction of a second of work for a slow disk.
const createPass = 64

// plan is what a change of the metadata asks for.
type plan struct {
	create []place
	tell   []*Runner // of their configuration and their partition's state
	remove []cluster.Tombstone
	park   []*Runner
	seen   map[cluster.TopicPartition]bool // is in tell, remove or park, or needs nothing
	// creating says what is in create.
	creating map[cluster.TopicPartition]bool
}

// plan compares the metadata with what is here. It looks at every local replica only at the first time and when brokers or defaults have changed.
func (m *Manager) plan(d *cluster.Delta, first bool) *plan {
	p := &plan{seen: map[cluster.TopicPartition]bool{}, creating: map[cluster.TopicPartition]bool{}}
	p.remove = slices.SortedFunc(keys(m.tombstones(d, first)), compareTombstones)
	for c := range d.Partitions() {
		if c.New != nil && m.here(c.New) {
			m.planPartition(p, c.Key, d.New)
		} else if r, ok := m.Get(c.Key); ok {
			m.planGone(p, r, d.New)
		}
	}
	for c := range d.Topics() {
		if c.Old == nil || c.New == nil {
			continue // its partitions have come or gone with it
		}
		for n := range d.New.PartitionsOf(c.Key) {
			if r, ok := m.Get(cluster.TopicPartition{Topic: c.Key, Partition: n}); ok {
				p.touch(r)
			}
		}
	}
	brokers := map[cluster.BrokerID]bool{}
	for c := range d.Brokers() {
		brokers[c.Key] = true
	}
	if all := first || m.brokerConfigChanged(d); all || len(brokers) > 0 {
		m.planAll(p, d.New, brokers, all)
	}
	m.planBacklog(p, d.New)
	return p
}

// planBacklog adds what earlier calls have left over, if it is still wanted, behind what is new, and keeps what is too much for this call.
func (m *Manager) planBacklog(p *plan, image *cluster.Image) {
	for _, tp := range m.backlog {
		if state, ok := image.Partition(tp); ok && m.here(state) && !p.creating[tp] {
			m.planPartition(p, tp, image)
		}
	}
	m.backlog = m.backlog[:0]
	for len(p.create) > createPass {
		last := len(p.create) - 1
		m.backlog = append(m.backlog, p.create[last].tp)
		p.create = p.create[:last]
	}
	slices.Reverse(m.backlog)
}

// touch adds a runner that is to be told.
func (p *plan) touch(r *Runner) {
	if !p.seen[r.tp] {
		p.seen[r.tp] = true
		p.tell = append(p.tell, r)
	}
}

// planAll looks at every local replica.
func (m *Manager) planAll(p *plan, image *cluster.Image, brokers map[cluster.BrokerID]bool, all bool) {
	for _, r := range m.sorted() {
		state, known := image.Partition(r.tp)
		if !known || !m.here(state) {
			m.planGone(p, r, image)
		} else if all || slices.ContainsFunc(state.Replicas, func(b cluster.BrokerID) bool { return brokers[b] }) {
			p.touch(r)
		}
	}
}

// planGone looks at a local replica that the metadata does not place here any more.
func (m *Manager) planGone(p *plan, r *Runner, image *cluster.Image) {
	if p.seen[r.tp] {
		return
	}
	p.seen[r.tp] = true
	mark := cluster.Tombstone{Partition: r.tp, Directory: m.options.Directory}
	switch {
	case slices.Contains(p.remove, mark):
	case image.HasTombstone(mark):
		p.remove = append(p.remove, mark)
	default:
		p.park = append(p.park, r)
	}
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

// tombstones are the marks for this data directory: the new ones, or all at the first time.
func (m *Manager) tombstones(d *cluster.Delta, first bool) map[cluster.Tombstone]bool {
	doomed := map[cluster.Tombstone]bool{}
	add := func(t cluster.Tombstone) {
		if t.Directory == m.options.Directory && !m.assigned(d.New, t.Partition) {
			doomed[t] = true
		}
	}
	if first {
		for t := range d.New.TombstonesIn(m.options.Directory) {
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
func (m *Manager) assigned(image *cluster.Image, tp cluster.TopicPartition) bool {
	p, ok := image.Partition(tp)
	return ok && m.here(p)
}

// here reports whether the metadata places a replica into this data directory. An unset directory is one that the holder has not reported yet.
func (m *Manager) here(p *cluster.Partition) bool {
	if !p.HasReplica(m.options.Broker) {
		return false
	}
	dir := p.Directory(m.options.Broker)
	return dir == m.options.Directory || dir.IsZero()
}

// planPartition looks at one changed partition that has a replica here.
func (m *Manager) planPartition(p *plan, tp cluster.TopicPartition, image *cluster.Image) {
	if r, ok := m.Get(tp); ok {
		p.touch(r)
		return
	}
	t, ok := image.Topic(tp.Topic)
	if !ok {
		m.options.Log.Error("partition without a topic in the metadata", slog.String("partition", tp.String()))
		return
	}
	p.creating[tp] = true
	p.create = append(p.create, place{tp: tp, dir: filepath.Join(m.root, tp.String()), identity: segment.Identity{
		TopicID: tp.Topic, Topic: t.Name, Partition: tp.Partition, ClusterID: image.ClusterID().String(),
	}})
}

// brokerConfigChanged reports whether a configuration of this broker or of the whole cluster differs: then every replica has new settings.
func (m *Manager) brokerConfigChanged(d *cluster.Delta) bool {
	own := cluster.ConfigResource{Kind: cluster.ConfigBroker, Name: strconv.Itoa(int(m.options.Broker))}
	for c := range d.Configs() {
		if c.Key.Kind == cluster.ConfigClusterDefault || c.Key == own {
			return true
		}
	}
	return false
}

// carryOut executes a plan.
func (m *Manager) carryOut(p *plan, image *cluster.Image) {
	m.removeAll(p.remove)
	m.parkAll(p.park)
	for _, r := range p.tell {
		m.configure(r, image)
		m.tell(r, image)
	}
	var mu sync.Mutex // guards created
	var created []*Runner
	m.each(len(p.create), func(i int) {
		o := m.open(p.create[i])
		r := m.adopt(o)
		if o.err != nil {
			m.options.Outputs.Offline(o.tp, o.err)
		}
		mu.Lock()
		created = append(created, r)
		mu.Unlock()
	})
	for _, r := range created {
		m.configure(r, image)
		m.tell(r, image)
	}
}

// configure gives a runner its topic's effective configuration.
func (m *Manager) configure(r *Runner, image *cluster.Image) {
	t, ok := image.Topic(r.tp.Topic)
	state, known := image.Partition(r.tp)
	if !ok || !known {
		return
	}
	c := &Settings{
		Topic: image.TopicConfig(t), MinISR: image.MinISR(t, state),
		LagMax:         image.BrokerMillis(m.options.Broker, "replica.lag.time.max.ms", m.options.LagMax),
		ProducerExpiry: image.BrokerMillis(m.options.Broker, "producer.id.expiration.ms", m.options.ProducerExpiry),
	}
	r.put(message{kind: kindConfigure, other: c}, 0)
}

// tell gives a runner its partition's state and what is known of the replicas' brokers.
func (m *Manager) tell(r *Runner, image *cluster.Image) {
	state, ok := image.Partition(r.tp)
	if !ok {
		return
	}
	r.put(message{kind: kindInput, other: changeOf(image, state)}, 0)
}

// removeAll deletes replicas and reports those that are gone.
func (m *Manager) removeAll(tombstones []cluster.Tombstone) {
	if len(tombstones) == 0 {
		return
	}
	errs := make([]error, len(tombstones))
	m.each(len(tombstones), func(i int) { errs[i] = m.removeOne(tombstones[i].Partition) })
	var gone []cluster.Tombstone
	for i, t := range tombstones {
		if errs[i] != nil {
			m.options.Log.Error("replica not removed", slog.String("partition", t.Partition.String()), slog.Any("error", errs[i]))
			continue
		}
		gone = append(gone, t)
	}
	if len(gone) > 0 {
		m.options.Outputs.Removed(gone)
	}
}

// removeOne deletes one replica: of a runner, or of a directory that could not be opened or was parked.
func (m *Manager) removeOne(tp cluster.TopicPartition) error {
	if r, ok := m.Get(tp); ok {
		err := <-r.halt((*Partition).Remove)
		if err != nil {
			return err
		}
		m.runners.Delete(tp)
	}
	dir := filepath.Join(m.root, tp.String())
	if _, err := m.options.FS.Stat(dir); err != nil {
		return nil // it is gone
	}
	// Renamed first, so that a half-deleted directory is never taken for a replica.
	if err := m.options.FS.Rename(dir, dir+deletedSuffix); err != nil {
		return err
	}
	if err := m.options.FS.SyncDir(m.root); err != nil {
		return err
	}
	return m.options.FS.RemoveAll(dir + deletedSuffix)
}

// parkAll closes replicas that metadata does not know, and keeps them.
func (m *Manager) parkAll(runners []*Runner) {
	if len(runners) == 0 {
		return
	}
	m.each(len(runners), func(i int) {
		r := runners[i]
		if err := <-r.halt((*Partition).Close); err != nil {
			m.options.Log.Warn("parked replica not closed cleanly", slog.String("directory", r.dir), slog.Any("error", err))
		}
		m.runners.Delete(r.tp)
	})
	dirs := make([]string, len(runners))
	for i, r := range runners {
		dirs[i] = r.dir
	}
	m.options.Outputs.Parked(dirs)
}
