package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/raft"
)

// markerName is the file that remembers how far this server has been, beside and independent of Raft's own files.
const markerName = "marker.json"

// markerFormat is the version of the marker and of the Raft directory around it. It is on disk.
const markerFormat = 1

// markerData is the marker's content. It is on disk: see docs/format/raft-directory.md.
type markerData struct {
	Format int `json:"format"`
	// Server is the Raft identity that the directory belongs to.
	Server string `json:"server"`
	// Applied is an index that this server is known to have applied, so the files must reach it.
	Applied uint64 `json:"applied"`
	// Rejoin says that the operator gave up this server's metadata: it may join its cluster again although its Raft files are gone.
	Rejoin bool `json:"rejoin,omitempty"`
}

// markerFile finds Raft files that are older than this broker's life (a restored copy would vote twice) or that belong to another broker.
type markerFile struct {
	dir    string
	server raft.ServerID

	mu   sync.Mutex // guards last and the file
	last markerData
}

// openMarker reads the marker. A missing or torn one counts as absent: it only adds a check.
func openMarker(dir string, server raft.ServerID) (*markerFile, error) {
	m := &markerFile{dir: dir, server: server}
	raw, err := os.ReadFile(filepath.Join(dir, markerName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, nil
	case err != nil:
		return nil, fmt.Errorf("controller: read the marker: %w", err)
	case json.Unmarshal(raw, &m.last) != nil:
		m.last = markerData{}
		return m, nil
	}
	path := filepath.Join(dir, markerName)
	if m.last.Format > markerFormat {
		return nil, &StoreError{
			Path: path, Op: "open", Err: fmt.Errorf("format %d is newer than this version's %d", m.last.Format, markerFormat),
			Remedy: "run a version at least as new as the one that wrote it",
		}
	}
	if m.last.Server != string(server) {
		return nil, &StoreError{
			Path: path, Op: "open", Err: fmt.Errorf("the Raft files belong to server %s, this broker is %s", m.last.Server, server),
			Remedy: "mount the right volume or set the right broker id",
		}
	}
	return m, nil
}

// write records that the server has applied the index. It never goes back.
func (m *markerFile) write(applied uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := markerData{Format: markerFormat, Server: string(m.server), Applied: max(applied, m.last.Applied)}
	next.Rejoin = m.last.Rejoin && next.Applied == 0 // until the first entry
	if next == m.last {
		return nil
	}
	raw, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("controller: encode the marker: %w", err)
	}
	if err := writeFileSynced(m.dir, markerName, append(raw, '\n')); err != nil {
		return fmt.Errorf("controller: write the marker: %w", err)
	}
	m.last = next
	return nil
}

// applied is the index that the files must reach.
func (m *markerFile) applied() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last.Applied
}

// rejoin reports whether the operator let this server join again without its Raft files.
func (m *markerFile) rejoin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last.Rejoin
}

// writeFileSynced replaces a file so that after a power cut it has the old or the new content.
func writeFileSynced(dir, name string, content []byte) error {
	temporary := filepath.Join(dir, name+snapshotTemporary)
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// checkRaftFiles refuses a log that does not join the newest snapshot, has a hole or a damaged entry, or ends before what this server is known to have
// applied. Raft itself would panic, load an older snapshot, or vote again in a term in which it has voted.
func checkRaftFiles(store *logStore, snaps *snapshotStore, marker *markerFile) error {
	newest, err := snaps.newest()
	if err != nil {
		return err
	}
	var covered uint64 // by the snapshot
	if newest != nil {
		covered = newest.Index
	}
	last, err := store.LastIndex()
	if err != nil {
		return err
	}
	if reach := max(covered, last); reach < marker.applied() {
		return &StoreError{
			Path: store.path, Op: "check", Remedy: remedyStore,
			Err: fmt.Errorf("the files end at entry %d, but this server has applied entry %d: they are older, or entries are lost", reach, marker.applied()),
		}
	}
	for index := covered + 1; index <= last; index++ {
		if err := store.check(index); err != nil {
			return err
		}
	}
	return nil
}
