package server

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/segment"
)

// directoryFormat is the version of the data directory's layout. It only goes up; an unknown one is refused.
const directoryFormat = 1

// Files of the data directory, beside raft/ and partitions/.
const (
	identityFile  = "broker.meta" // JSON: who this directory belongs to; written once, and once more when the cluster is known
	cleanStopFile = "clean-stop"  // JSON: the broker epoch of the last orderly stop; removed when the next run is registered
)

// maxStarts bounds the runs that a clean-stop marker names; the oldest are forgotten.
const maxStarts = 16

// remedyIdentity is what an operator does about an identity that cannot be read. The broker does not guess: with a wrong one it would vote twice, or in another cluster.
const remedyIdentity = "if the cluster has other brokers with its replicas, move this broker's whole data directory away and start it again: it joins as a new broker and " +
	"copies them; otherwise put the file back or write it anew, as docs/operations.md says under \"A damaged small file\""

// identity is the content of identityFile.
type identity struct {
	Format    int              `json:"format"`
	Broker    cluster.BrokerID `json:"broker"`
	Directory string           `json:"directory_id"`
	Cluster   string           `json:"cluster_id,omitempty"` // empty until the broker has joined
}

// cleanStop is the content of cleanStopFile. It stays until a run is registered, because a disk that is older than what the controller knows must be told by it
// also when the first start on that disk came to nothing.
type cleanStop struct {
	BrokerEpoch cluster.BrokerEpoch `json:"broker_epoch"`
	// Starts are the incarnations of the runs that were begun since. None is known to be registered, but the answer may have been lost with the process.
	Starts []cluster.IncarnationID `json:"starts,omitempty"`
}

// directory is a locked data directory.
type directory struct {
	path   string
	lock   io.Closer
	broker cluster.BrokerID
	id     cluster.DirectoryID
	// previous is the last orderly stop, with the runs since that may have been registered; its epoch is NoBrokerEpoch after any other stop.
	previous cleanStop

	mu      sync.Mutex // guards cluster: peers ask for it while the broker joins
	cluster cluster.ClusterID
}

// clusterID is the cluster that the directory belongs to, zero before the broker has joined one.
func (d *directory) clusterID() cluster.ClusterID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cluster
}

// openDirectory creates or opens a data directory for one run of a broker and locks it against a second process before anything is written.
func openDirectory(path string, broker cluster.BrokerID, run cluster.IncarnationID) (*directory, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("server: create the data directory: %w", err)
	}
	lock, err := segment.LockDir(vfs.OS{}, path)
	if err != nil {
		return nil, fmt.Errorf("server: the data directory %s is in use by another process, or cannot be locked: %w", path, err)
	}
	d := &directory{path: path, lock: lock, broker: broker, previous: cleanStop{BrokerEpoch: cluster.NoBrokerEpoch}}
	if err := d.load(run); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

func (d *directory) load(run cluster.IncarnationID) error {
	var id identity
	err := readJSON(filepath.Join(d.path, identityFile), &id)
	if errors.Is(err, fs.ErrNotExist) {
		d.id = cluster.DrawUUID(rand.Read)
		return d.writeIdentity()
	}
	if err != nil {
		return d.damaged(err)
	}
	if id.Format < 1 {
		return d.damaged(errors.New("it names no format"))
	}
	if id.Format != directoryFormat {
		return fmt.Errorf("server: %s has format %d, this version knows %d; use the version that wrote it", d.path, id.Format, directoryFormat)
	}
	if id.Broker != d.broker {
		return fmt.Errorf("server: %s belongs to broker %d, and this is broker %d; give the broker its own directory, or its own --id", d.path, id.Broker, d.broker)
	}
	if d.id, err = cluster.ParseUUID(id.Directory); err != nil {
		return d.damaged(fmt.Errorf("directory id: %w", err))
	}
	if id.Cluster != "" {
		if d.cluster, err = cluster.ParseUUID(id.Cluster); err != nil {
			return d.damaged(fmt.Errorf("cluster id: %w", err))
		}
	}
	return d.readCleanStop(run)
}

// damaged says that the identity cannot be read, and what to do.
func (d *directory) damaged(why error) error {
	return fmt.Errorf("server: %s is damaged: %w; %s", filepath.Join(d.path, identityFile), why, remedyIdentity)
}

// readCleanStop reads the clean-stop marker, if there is one, and adds this run to it.
func (d *directory) readCleanStop(run cluster.IncarnationID) error {
	var mark cleanStop
	err := readJSON(filepath.Join(d.path, cleanStopFile), &mark)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil { // a torn marker counts as none
		return d.dropCleanStop()
	}
	d.previous = mark
	mark.Starts = append(slices.Clone(mark.Starts), run)
	mark.Starts = mark.Starts[max(0, len(mark.Starts)-maxStarts):]
	return writeJSON(d.path, cleanStopFile, mark)
}

// dropCleanStop removes the clean-stop marker, durably. It comes when this run is registered, before it writes anything that a marker would not speak of.
func (d *directory) dropCleanStop() error {
	err := os.Remove(filepath.Join(d.path, cleanStopFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = vfs.OS{}.SyncDir(d.path)
	}
	if err != nil {
		return fmt.Errorf("server: remove the clean-stop marker: %w", err)
	}
	return nil
}

func (d *directory) writeIdentity() error {
	id := identity{Format: directoryFormat, Broker: d.broker, Directory: d.id.String()}
	if c := d.clusterID(); !c.IsZero() {
		id.Cluster = c.String()
	}
	return writeJSON(d.path, identityFile, id)
}

// joined records the cluster that this directory belongs to from now on.
func (d *directory) joined(id cluster.ClusterID) error {
	switch known := d.clusterID(); {
	case known == id:
		return nil
	case !known.IsZero():
		return fmt.Errorf("server: %s belongs to cluster %s, and the seeds lead to cluster %s; give the broker the seeds of its own cluster, or an empty directory", d.path, known, id)
	}
	d.mu.Lock()
	d.cluster = id
	d.mu.Unlock()
	return d.writeIdentity()
}

// writeCleanStop marks an orderly stop. A run that was never registered leaves the marker of the stop before it.
func (d *directory) writeCleanStop(epoch cluster.BrokerEpoch) error {
	if epoch == cluster.NoBrokerEpoch {
		return nil
	}
	return writeJSON(d.path, cleanStopFile, cleanStop{BrokerEpoch: epoch})
}

func (d *directory) close() error { return d.lock.Close() }

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// writeJSON replaces a file so that a crash leaves the old content or the new.
func writeJSON(dir, name string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("server: encode %s: %w", name, err)
	}
	if err := vfs.WriteFileAtomic(vfs.OS{}, dir, filepath.Join(dir, name), append(text, '\n')); err != nil {
		return fmt.Errorf("server: write %s: %w", name, err)
	}
	return nil
}
