package partition

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/segment"
)

// deletedSuffix ends the name of a directory whose deletion was begun.
const deletedSuffix = ".deleted"

// Load recovers every local log, in parallel and bounded, before the broker registers. It fails only when the data directory cannot be read or belongs
// to another cluster; a log that cannot be opened is reported and stays offline. Until Reconcile has spoken every replica is idle.
func (m *Manager) Load(ctx context.Context) (LoadReport, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var report LoadReport
	if m.closed {
		return report, ErrClosed
	}
	found, err := scan(&m.options, m.root, &report)
	if err != nil {
		return report, err
	}
	missing, err := m.inventory.compare(found)
	if err != nil {
		return report, err
	}
	opened := make([]opening, len(found))
	m.each(len(found), func(i int) {
		if ctx.Err() == nil {
			opened[i] = m.open(found[i])
		}
	})
	if err := ctx.Err(); err != nil {
		for _, o := range opened {
			if o.log != nil {
				o.log.Abandon()
			}
		}
		return report, fmt.Errorf("partition: load: %w", err)
	}
	m.each(len(opened), func(i int) { m.adopt(&opened[i]) }) // which may read up to a snapshot's distance of log
	for _, o := range opened {
		report.add(o)
		if r, ok := m.Get(o.tp); ok {
			report.tell(o, r.lastStatus())
		}
		m.awaitRoom(o)
	}
	for _, at := range missing {
		m.adopt(&opening{place: at, err: ErrMissing})
		report.Missing = append(report.Missing, at.tp)
	}
	m.doubtful, m.counted = report.Doubtful, report.Failed
	return report, nil
}

// Registered says that the controller has taken what Load reported: nobody counts on a doubtful replica as complete any more. It comes before Reconcile. A doubt that
// cannot be taken back from the disk is reported again by the next start. That of a rotten end stays until the metadata is known: nobody fills up a replica that is the only one.
func (m *Manager) Registered() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, tp := range m.doubtful {
		if r, ok := m.Get(tp); !ok || !r.cut.Load() {
			m.settleDoubt(tp)
		}
	}
	m.doubtful = nil
}

func (m *Manager) settleDoubt(tp cluster.TopicPartition) {
	if err := segment.SettleDoubt(m.options.FS, filepath.Join(m.root, tp.String())); err != nil {
		m.options.Log.Warn("the next start will report this replica as incomplete again", slog.String("partition", tp.String()), slog.Any("error", err))
	}
}

// judgeCut says of a replica with a rotten end that was cut off whether somebody else has it. If so, it is copied from there like any other that is incomplete. If not, what
// was in it is lost, and the replica says so, in this life and every later one, until an operator takes the note of it away or gives it a second replica.
func (m *Manager) judgeCut(r *Runner, state *cluster.Partition) {
	if !r.cut.Load() {
		return
	}
	if len(state.Replicas) > 1 {
		r.cut.Store(false)
		m.settleDoubt(r.tp)
		return
	}
	if r.told {
		return
	}
	r.told = true
	m.options.Log.Error("acknowledged records may be lost: the end of the only replica was damaged, and was cut off", slog.String("topic", r.topic),
		slog.Int("partition", int(r.tp.Partition)), slog.String("accept_by_removing", segment.DoubtFile(r.dir)))
}

// remedyPartition is what an operator does about a directory whose partition.meta cannot be read or is another partition's.
const remedyPartition = "with the broker stopped, put the right partition.meta there, or move the directory away: docs/operations.md, \"A damaged small file\""

// scan lists the replicas on disk, and finishes deletions that were begun.
func scan(o *Options, root string, report *LoadReport) ([]place, error) {
	if err := makeRoot(o, root); err != nil {
		return nil, fmt.Errorf("partition: load: %w", err)
	}
	names, err := o.FS.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("partition: load: %w", err)
	}
	var found []place
	for _, name := range names {
		dir := filepath.Join(root, name)
		if strings.HasSuffix(name, deletedSuffix) {
			if err := o.FS.RemoveAll(dir); err != nil {
				o.Log.Warn("deleted replica not removed yet", slog.String("directory", dir), slog.Any("error", err))
			}
			continue
		}
		tp, ok := parseDir(name)
		if !ok {
			report.Strange = append(report.Strange, name)
			continue
		}
		id, err := segment.ReadIdentity(o.FS, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			report.Strange = append(report.Strange, name) // a creation that was cut short; it is made again when it is assigned
			continue
		case FromDisk(err):
			found = append(found, place{tp: tp, dir: dir, unread: err}) // it is whose the name says: nothing speaks against that
			continue
		case err != nil || id.TopicID != tp.Topic || id.Partition != tp.Partition:
			o.Log.Error("directory has the wrong identity and is not used", slog.String("directory", dir), slog.Any("error", err), slog.String("remedy", remedyPartition))
			report.Strange = append(report.Strange, name)
			continue
		}
		if c := o.Cluster; !c.IsZero() && id.ClusterID != c.String() {
			return nil, fmt.Errorf("partition: %s belongs to cluster %s, this broker to %s: the volume is another broker's; mount the right one", dir, id.ClusterID, c)
		}
		found = append(found, place{tp: tp, dir: dir, identity: id})
	}
	return found, nil
}

// makeRoot makes the directory of the replicas, durably: a power cut must not take the names of directories whose logs were flushed. That is so for the
// names in it, too: the life before may have ended between making a replica's directory and syncing its name.
func makeRoot(o *Options, root string) error {
	if err := o.FS.MkdirAll(root); err != nil {
		return err
	}
	for _, dir := range []string{root, o.Root, filepath.Dir(o.Root)} {
		if dir == root && planted.On(planted.FoundNamesNotSynced) {
			continue
		}
		if err := o.FS.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// parseDir reads the name of a partition's directory, which TopicPartition.String gives.
func parseDir(name string) (cluster.TopicPartition, bool) {
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return cluster.TopicPartition{}, false
	}
	id, err := cluster.ParseUUID(name[:at])
	n, err2 := strconv.ParseInt(name[at+1:], 10, 32)
	tp := cluster.TopicPartition{Topic: id, Partition: int32(n)}
	return tp, err == nil && err2 == nil && n >= 0 && tp.String() == name
}

// place is where a replica lives.
type place struct {
	tp       cluster.TopicPartition
	dir      string
	identity segment.Identity
	unread   error // why the disk did not give the identity, of which at most the topic's name is known then
}

// opening is a replica whose log was opened, or not.
type opening struct {
	place
	log    *segment.Log
	report segment.Report
	err    error
}

// open opens or creates one log.
func (m *Manager) open(at place) opening {
	o := m.openAgain(at)
	if o.err != nil {
		m.options.Log.Error("log not opened", slog.String("topic", at.identity.Topic), slog.Int("partition", int(at.tp.Partition)), slog.Any("error", o.err))
	}
	return o
}

// openAgain is open without a word about what is wrong with the disk.
func (m *Manager) openAgain(at place) opening {
	o := opening{place: at, err: at.unread}
	if o.err != nil {
		return o
	}
	o.log, o.report, o.err = segment.Open(m.options.FS, at.dir, at.identity, segment.DefaultConfig())
	o.err = doubted(o.report, o.err)
	if o.report.Doubtful && o.log != nil {
		m.options.Log.Error("records may be missing at the end of a log: it was damaged, or written without flushes and not closed; other replicas may have them",
			slog.String("topic", at.identity.Topic), slog.Int("partition", int(at.tp.Partition)), slog.Int64("log_end", int64(o.log.End())),
			slog.Int64("cut_bytes", o.report.Truncated), slog.Bool("relaxed", o.report.Relaxed))
	}
	return o
}

// adopt makes a runner of an opened log. One whose producers cannot be rebuilt counts as one that could not be opened.
func (m *Manager) adopt(o *opening) *Runner {
	r := &Runner{manager: m, tp: o.tp, topic: o.identity.Topic, dir: o.dir, lost: errors.Is(o.err, ErrMissing), noRoom: segment.Full(o.err), wake: make(chan struct{}, 1)}
	r.reader.lease, r.reader.log, r.reader.damage = m.leased, o.log, r.damaged
	p := newPartition(m.env, o.tp, o.identity.Topic, o.log, o.err, &r.reader)
	if o.log != nil {
		p.Begin(m.options.Clock.Now(), m.options.Clock.WallMs())
		if err := p.loadProducers(); err != nil {
			m.options.Log.Error("log not usable", p.attrs(slog.Any("error", err))...)
			p.broken, o.err = err, doubted(o.report, err)
		}
	}
	r.partition = p
	p.show()
	r.cut.Store(o.report.Rotten)
	m.runners.Store(o.tp, r)
	m.handOver(r)
	return r
}

// errDoubtful is why a log is not opened, or was not, of which recovery has found that it may lack records: whoever counts on it has to be told.
var errDoubtful = errors.New("records may be missing at the end of the log")

// doubted says of a failed Open what it had found before.
func doubted(r segment.Report, err error) error {
	if err == nil || !r.Doubtful {
		return err
	}
	return fmt.Errorf("%w: %w", errDoubtful, err)
}

// FromDisk reports whether an Open failed by an answer of the disk, and not by what it had read: nothing is known to be wrong with the log. A file that is not there
// is missing.
func FromDisk(err error) bool {
	var answer syscall.Errno
	return errors.As(err, &answer) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errDoubtful)
}

// tell says how far one log goes, if it may count as complete.
func (r *LoadReport) tell(o opening, at Status) {
	switch {
	case o.err == nil:
		r.Logs = append(r.Logs, cluster.ReplicaLog{Partition: o.tp, Log: at.Position()})
	case FromDisk(o.err):
		r.Logs = append(r.Logs, cluster.ReplicaLog{Partition: o.tp, Log: cluster.UnknownLog})
	}
}

// add counts one log.
func (r *LoadReport) add(o opening) {
	switch {
	case FromDisk(o.err):
		r.Failed = append(r.Failed, o.tp)
		return
	case o.err != nil:
		r.Damaged = append(r.Damaged, o.tp)
		return
	}
	r.Opened++
	if !o.report.Clean {
		r.Unclean++
	}
	if o.report.Doubtful {
		r.Doubtful = append(r.Doubtful, o.tp)
	}
	if o.report.Rotten {
		r.Rotten = append(r.Rotten, o.tp)
	}
}
