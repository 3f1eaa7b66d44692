package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/segment"
)

// ErrMissing says that a replica which this data directory has held is not there any more. A broker that simply made a new one would count as complete,
// with nothing in it.
var ErrMissing = errors.New("partition: the replica's directory is missing, and so may be records that it had acknowledged")

const (
	// inventoryFile is beside the directory of the replicas, so that it stays when that is lost as a whole; docs/format/replicas.md.
	inventoryFile     = "replicas"
	inventoryFormat   = "moldau-replicas "
	inventoryHeader   = inventoryFormat + "1"
	maxInventoryBytes = 64 << 20
)

// remedyInventory is what an operator does about a list that cannot be read. The broker does not go on without it: a replica that is lost would not be missed.
const remedyInventory = "if no directory is missing from " + partitionsDir + ", remove the file and start again: it is written anew from those that are there; else, or if in doubt, and if the cluster " +
	"has other brokers with its replicas, move this broker's whole data directory away and start it again: docs/operations.md, \"A damaged small file\""

// inventory is the durable list of the replicas that a data directory holds, by which a start sees that one has vanished. A replica is listed after its own
// directory is durable, and before it takes part in anything: what is listed and not there was lost, also when the power fails at any moment; what is not
// listed has never acknowledged anything.
type inventory struct {
	options *Options
	retried *slog.Logger                      // for what is tried again, at a bounded rate
	topics  map[cluster.TopicPartition]string // topic names, for people
	dirty   bool                              // the file is not what topics is
}

// read takes in the file. Without one, of a new directory or one of an earlier version, nothing is known.
func (v *inventory) read() error {
	v.topics, v.dirty = map[cluster.TopicPartition]string{}, false
	path := filepath.Join(v.options.Root, inventoryFile)
	text, err := vfs.ReadFile(v.options.FS, path, maxInventoryBytes)
	if errors.Is(err, fs.ErrNotExist) {
		v.dirty = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("partition: %s, the list of replicas, cannot be read: %w; %s", path, err, remedyInventory)
	}
	header, lines, _ := strings.Cut(string(text), "\n")
	if err := checkHeader(path, header); err != nil {
		return err
	}
	for line := range strings.Lines(lines) {
		name, topic, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		tp, ok := parseDir(name)
		if !ok {
			v.options.Log.Error("line in the list of replicas not understood; if that replica is lost, it is not noticed", slog.String("line", name))
			v.dirty = true
			continue
		}
		v.topics[tp] = topic
	}
	return nil
}

// checkHeader reads the first line of the list.
func checkHeader(path, header string) error {
	if header == inventoryHeader {
		return nil
	}
	if number, ok := strings.CutPrefix(header, inventoryFormat); ok {
		if n, err := strconv.ParseUint(number, 10, 31); err == nil && n > 1 {
			return fmt.Errorf("partition: %s has format version %d, this program knows 1; use the version that wrote it", path, n)
		}
	}
	return fmt.Errorf("partition: %s, the list of replicas, is damaged: it begins with %.40q, not with %q; %s", path, header, inventoryHeader, remedyInventory)
}

// compare reads the list, returns what it has and the disk has not, in key order, and adds what it did not know. It names the topics of those whose identity could not be read, as
// far as it knows them. Only a list that cannot be read is an error.
func (v *inventory) compare(found []place) ([]place, error) {
	if err := v.read(); err != nil {
		return nil, err
	}
	vanished := maps.Clone(v.topics)
	if planted.On(planted.MissingReplicaReplaced) {
		clear(vanished)
	}
	for i := range found {
		at := &found[i]
		if at.unread != nil {
			at.identity.Topic = v.topics[at.tp]
		}
		delete(vanished, at.tp)
		v.add(at.tp, at.identity.Topic)
	}
	var missing []place
	for _, tp := range slices.SortedFunc(maps.Keys(vanished), cluster.TopicPartition.Compare) {
		at := place{tp: tp, dir: filepath.Join(v.options.Root, partitionsDir, tp.String()), identity: segment.Identity{Topic: vanished[tp]}}
		v.options.Log.Error("a replica's directory is missing; it counts as incomplete", slog.String("topic", at.identity.Topic),
			slog.Int("partition", int(tp.Partition)), slog.String("directory", at.dir))
		missing = append(missing, at)
	}
	v.saveOrLater()
	return missing, nil
}

func (v *inventory) add(tp cluster.TopicPartition, topic string) {
	if have, ok := v.topics[tp]; !ok || have != topic {
		v.topics[tp], v.dirty = topic, true
	}
}

func (v *inventory) remove(tp cluster.TopicPartition) {
	if _, ok := v.topics[tp]; ok {
		delete(v.topics, tp)
		v.dirty = true
	}
}

// save makes the list durable if it has changed.
func (v *inventory) save() error {
	if !v.dirty {
		return nil
	}
	var text strings.Builder
	text.WriteString(inventoryHeader + "\n")
	for _, tp := range slices.SortedFunc(maps.Keys(v.topics), cluster.TopicPartition.Compare) {
		fmt.Fprintf(&text, "%s %s\n", tp, v.topics[tp])
	}
	if err := vfs.WriteFileAtomic(v.options.FS, v.options.Root, filepath.Join(v.options.Root, inventoryFile), []byte(text.String())); err != nil {
		return fmt.Errorf("partition: write the list of replicas: %w", err)
	}
	v.dirty = false
	return nil
}

// saveOrLater is save where nothing depends on it: after a failure, as on a full disk, the next change writes the whole list.
func (v *inventory) saveOrLater() {
	if err := v.save(); err != nil {
		v.retried.Warn("the list of replicas is written later", slog.Any("error", err))
	}
}
