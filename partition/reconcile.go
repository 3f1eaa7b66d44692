package partition

import (
	"log/slog"
	"path/filepath"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/replication"
)

// Reconcile makes the local replicas what the metadata says, as a Planner has it: it creates, opens and removes them, and tells each what has changed for
// it. self is this broker's present registration. Only what differs from the image of the last call is touched, whatever d.Old is. It waits for the disk,
// but creates a bounded number of replicas in one call, so that a large new topic does not keep news from the others: true says that some are left, and
// that it wants to be called again, with whatever is newest then.
func (m *Manager) Reconcile(d *cluster.Delta, self cluster.BrokerEpoch) (more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	plan := m.planner.Next(d.New, self, (*local)(m))
	if plan == nil {
		return false
	}
	m.carryOut(plan, d.New)
	return m.planner.More()
}

// local shows a Manager's replicas to its Planner.
type local Manager

// Has implements Local.
func (l *local) Has(tp cluster.TopicPartition) bool {
	_, ok := (*Manager)(l).Get(tp)
	return ok
}

// Lost implements Local.
func (l *local) Lost(tp cluster.TopicPartition) bool {
	r, ok := (*Manager)(l).Get(tp)
	return ok && r.lost
}

// Sorted implements Local.
func (l *local) Sorted() []cluster.TopicPartition {
	var all []cluster.TopicPartition
	for _, r := range (*Manager)(l).sorted() {
		all = append(all, r.tp)
	}
	return all
}

// carryOut executes a plan.
func (m *Manager) carryOut(p *Plan, image *cluster.Image) {
	m.removeAll(p.Remove)
	m.parkAll(p.Park)
	for _, tp := range p.Tell {
		if r, ok := m.Get(tp); ok {
			m.inform(r, image)
		}
	}
	m.createAll(p.Create, image)
	for _, tp := range p.Report {
		m.options.Outputs.Offline(tp, ErrMissing)
	}
	m.inventory.saveOrLater()
}

// createAll opens or creates replicas, lists them durably, and only then lets them take part.
func (m *Manager) createAll(list []cluster.TopicPartition, image *cluster.Image) {
	m.takeIn(m.openAll(list, image, m.open), image)
}

// openAll opens or creates the logs of replicas of an image, and lists them durably.
func (m *Manager) openAll(list []cluster.TopicPartition, image *cluster.Image, open func(place) opening) []opening {
	opened := make([]opening, 0, len(list))
	for _, tp := range list {
		id, ok := identityOf(image, tp)
		if !ok {
			m.options.Log.Error("partition without a topic in the metadata", slog.String("partition", tp.String()))
			continue
		}
		opened = append(opened, opening{place: place{tp: tp, dir: filepath.Join(m.root, tp.String()), identity: id}})
	}
	m.each(len(opened), func(i int) { opened[i] = open(opened[i].place) })
	m.enlist(opened)
	return opened
}

// takeIn makes runners of what was opened, and of what could not be, in the place of those that were there.
func (m *Manager) takeIn(opened []opening, image *cluster.Image) {
	created := make([]*Runner, len(opened))
	m.each(len(opened), func(i int) {
		o := &opened[i]
		old, replaced := m.Get(o.tp)
		if replaced {
			<-old.halt((*Partition).Close) // of one that was lost, or had no room
		}
		created[i] = m.adopt(o)
		switch {
		case o.err != nil:
			m.options.Outputs.Offline(o.tp, o.err)
		case replaced:
			m.options.Outputs.Online(o.tp)
		}
	})
	for i, r := range created {
		m.awaitRoom(opened[i])
		m.inform(r, image)
	}
}

// enlist puts those that could be opened into the durable list; without that none of them may acknowledge anything.
func (m *Manager) enlist(opened []opening) {
	for _, o := range opened {
		if o.err == nil {
			m.inventory.add(o.tp, o.identity.Topic)
		}
	}
	err := m.inventory.save()
	if err == nil {
		return
	}
	for i := range opened {
		if o := &opened[i]; o.err == nil {
			o.log.Abandon()
			o.log, o.err = nil, err
		}
	}
}

// informed is what one image says about a partition.
type informed struct {
	settings Settings
	change   replication.PartitionChanged
}

// inform gives a runner its topic's effective configuration, its partition's state, and what is known of the replicas' brokers.
func (m *Manager) inform(r *Runner, image *cluster.Image) {
	t, ok := image.Topic(r.tp.Topic)
	state, known := image.Partition(r.tp)
	if !ok || !known {
		return
	}
	m.judgeCut(r, state)
	r.put(message{kind: kindInform, other: &informed{change: changeOf(image, state), settings: Settings{
		Topic: image.TopicConfig(t), MinISR: image.MinISR(t, state),
		LagMax:         image.BrokerMillis(m.options.Broker, "replica.lag.time.max.ms", m.options.LagMax),
		ProducerExpiry: image.BrokerMillis(m.options.Broker, "producer.id.expiration.ms", m.options.ProducerExpiry),
	}}}, 0)
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
		m.inventory.remove(t.Partition)
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
		m.drop(r)
	}
	return removeDir(m.options.FS, m.root, tp)
}

// drop forgets a runner that has ended, and with it that its log had failed: a replica that the metadata places here later is another one.
func (m *Manager) drop(r *Runner) {
	m.runners.Delete(r.tp)
	if r.Role() == RoleOffline {
		m.options.Outputs.Online(r.tp)
	}
}

// removeDir deletes the directory of a replica that is not open, if there is one.
func removeDir(fsys vfs.FS, root string, tp cluster.TopicPartition) error {
	dir := filepath.Join(root, tp.String())
	if _, err := fsys.Stat(dir); err != nil {
		return nil // it is gone
	}
	if err := fsys.RemoveAll(dir + deletedSuffix); err != nil { // of an earlier deletion that failed half-way
		return err
	}
	// Renamed first, so that a half-deleted directory is never taken for a replica.
	if err := fsys.Rename(dir, dir+deletedSuffix); err != nil {
		return err
	}
	if err := fsys.SyncDir(root); err != nil {
		return err
	}
	return fsys.RemoveAll(dir + deletedSuffix)
}

// parkAll closes replicas that metadata does not know, and keeps them.
func (m *Manager) parkAll(partitions []cluster.TopicPartition) {
	var runners []*Runner
	for _, tp := range partitions {
		if r, ok := m.Get(tp); ok {
			runners = append(runners, r)
		}
	}
	if len(runners) == 0 {
		return
	}
	m.each(len(runners), func(i int) {
		r := runners[i]
		if err := <-r.halt((*Partition).Close); err != nil {
			m.options.Log.Warn("parked replica not closed cleanly", slog.String("directory", r.dir), slog.Any("error", err))
		}
		m.drop(r)
	})
	var dirs []string
	for _, r := range runners {
		if r.lost {
			m.inventory.remove(r.tp) // nobody asks for it any more
			continue
		}
		dirs = append(dirs, r.dir)
	}
	if len(dirs) > 0 {
		m.options.Outputs.Parked(dirs)
	}
}
