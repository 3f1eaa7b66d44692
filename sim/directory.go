package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
)

// This file stands in for server/directory.go, which speaks to the operating system: the same two files, written and read in the same order, with the
// same verdicts.

// Files of a data directory, beside partitions/.
const (
	identityFile  = "broker.meta"
	cleanStopFile = "clean-stop"
	maxMarkBytes  = 4 << 10
)

// identity is the content of identityFile.
type identity struct {
	Broker    cluster.BrokerID `json:"broker"`
	Directory string           `json:"directory_id"`
}

// errOtherBroker means that the disk belongs to another broker (case 44).
var errOtherBroker = errors.New("sim: the data directory belongs to another broker")

// cleanStop is the content of cleanStopFile: the last orderly stop, and the runs since that are not known to be registered.
type cleanStop struct {
	Epoch  cluster.BrokerEpoch     `json:"broker_epoch"`
	Starts []cluster.IncarnationID `json:"starts,omitempty"`
}

// maxStarts bounds the runs that a clean-stop marker names.
const maxStarts = 16

// claimDirectory reads whose directory this is, makes it b's when it is new, and adds this run to the clean-stop marker. It returns the directory id and what the
// marker said.
func claimDirectory(fsys vfs.FS, b *broker) (cluster.DirectoryID, cleanStop, error) {
	none := cleanStop{Epoch: cluster.NoBrokerEpoch}
	var id identity
	err := readMark(fsys, identityFile, &id)
	if errors.Is(err, fs.ErrNotExist) {
		b.w.directories++
		dir := cluster.DirectoryID{1, byte(b.id + 1), byte(b.w.directories), byte(b.w.directories >> 8)}
		return dir, none, writeMark(fsys, identityFile, identity{Broker: b.id, Directory: dir.String()})
	}
	if err != nil {
		return cluster.DirectoryID{}, none, err
	}
	if id.Broker != b.id {
		return cluster.DirectoryID{}, none, fmt.Errorf("%w: %d, and this is %d", errOtherBroker, id.Broker, b.id)
	}
	dir, err := cluster.ParseUUID(id.Directory)
	if err != nil {
		return cluster.DirectoryID{}, none, err
	}
	previous, err := readCleanStop(fsys, b.incarnation())
	return dir, previous, err
}

// readCleanStop reads the marker, if there is one, and adds this run to it.
func readCleanStop(fsys vfs.FS, run cluster.IncarnationID) (cleanStop, error) {
	none := cleanStop{Epoch: cluster.NoBrokerEpoch}
	var mark cleanStop
	err := readMark(fsys, cleanStopFile, &mark)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil { // a torn marker counts as none
		return none, dropCleanStop(fsys)
	}
	starts := append(slices.Clone(mark.Starts), run)
	return mark, writeMark(fsys, cleanStopFile, cleanStop{mark.Epoch, starts[max(0, len(starts)-maxStarts):]})
}

// dropCleanStop removes the marker when a run is registered, before it acts on anything.
func dropCleanStop(fsys vfs.FS) error {
	if err := fsys.Remove(filepath.Join(dataRoot, cleanStopFile)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return fsys.SyncDir(dataRoot)
}

func readMark(fsys vfs.FS, name string, into any) error {
	text, err := vfs.ReadFile(fsys, filepath.Join(dataRoot, name), maxMarkBytes)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func writeMark(fsys vfs.FS, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(fsys, dataRoot, filepath.Join(dataRoot, name), text)
}

// mount begins a life with its disk: false when the process ends right away, with a message; it is started again later.
func (b *broker) mount() bool {
	fsys, err := b.disk.mount()
	if err == nil {
		b.fs = fsys
		b.dir, b.previous, err = claimDirectory(fsys, b)
	}
	if err == nil {
		return true
	}
	if !injected(err) && !errors.Is(err, errOtherBroker) {
		b.w.check.fail("unexpected: broker %d does not start: %v", b.id, err)
	}
	b.w.cov.RefusedStarts++
	b.w.note("refused: "+err.Error(), int64(b.id), int64(b.life))
	b.up = false
	b.w.restart(b)
	return false
}

// markCleanStop ends an orderly stop, if the disk lets it.
func (b *broker) markCleanStop() {
	err := writeMark(b.fs, cleanStopFile, cleanStop{Epoch: b.epoch})
	b.w.check.closed(b, err)
	if err == nil && !b.failed && !b.w.isSpoilt(b) {
		b.disk.keepCopy(b.epoch)
	}
}
