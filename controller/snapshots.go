package controller

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// snapshotsRetained is how many snapshots stay on disk. Only the newest is ever used; the one before is there for people.
const snapshotsRetained = 2

// snapshotTemporary is the suffix of a snapshot that is being written.
const snapshotTemporary = ".tmp"

// snapshotStore shows Raft only the newest snapshot. Raft falls back to an older one when the newest cannot be read, and would then apply a log that was
// cut for the newest: a hole of committed entries that nobody sees. So whatever is wrong with the newest is fatal.
type snapshotStore struct {
	inner raft.SnapshotStore
	dir   string
	fatal func(error)
}

// openSnapshotStore opens or creates the snapshot directory under base and removes what a crash left half written.
func openSnapshotStore(base string, log hclog.Logger, fatal func(error)) (*snapshotStore, error) {
	inner, err := raft.NewFileSnapshotStoreWithLogger(base, snapshotsRetained, log)
	if err != nil {
		return nil, fmt.Errorf("controller: snapshot directory: %w", err)
	}
	s := &snapshotStore{inner: inner, dir: filepath.Join(base, "snapshots"), fatal: fatal}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("controller: snapshot directory: %w", err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), snapshotTemporary) {
			if err := os.RemoveAll(filepath.Join(s.dir, entry.Name())); err != nil {
				return nil, fmt.Errorf("controller: remove an unfinished snapshot: %w", err)
			}
		}
	}
	return s, nil
}

// newest returns the newest snapshot, nil when there is none. It trusts the directory names, not the metadata files that Raft's store skips when it
// cannot read them.
func (s *snapshotStore) newest() (*raft.SnapshotMeta, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, s.failure(s.dir, "list snapshots", err)
	}
	var names []snapshotName
	for _, entry := range entries {
		if name, ok := parseSnapshotName(entry.Name()); ok && entry.IsDir() {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	want := slices.MaxFunc(names, snapshotName.compare).name
	list, err := s.inner.List()
	if err != nil {
		return nil, s.failure(s.dir, "list snapshots", err)
	}
	for _, meta := range list {
		if meta.ID == want {
			return meta, nil
		}
	}
	return nil, s.failure(filepath.Join(s.dir, want), "read the newest snapshot", errors.New("its metadata is damaged or missing"))
}

func (s *snapshotStore) failure(path, op string, err error) error {
	return &StoreError{Path: path, Op: op, Err: err, Remedy: remedyStore}
}

// List implements raft.SnapshotStore with the newest snapshot alone.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	meta, err := s.newest()
	if err != nil {
		s.fatal(err)
		return nil, err
	}
	if meta == nil {
		return nil, nil
	}
	return []*raft.SnapshotMeta{meta}, nil
}

// Open implements raft.SnapshotStore. The file's checksum is verified before anything is read from it.
func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, source, err := s.inner.Open(id)
	if err != nil {
		err = s.failure(filepath.Join(s.dir, id), "open the snapshot", err)
		s.fatal(err)
	}
	return meta, source, err
}

// Create implements raft.SnapshotStore. A snapshot that cannot be written is no harm: the old one and the log stay, and Raft tries again.
func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	return s.inner.Create(version, index, term, configuration, configurationIndex, trans)
}

// snapshotName is the parsed directory name "<term>-<index>-<milliseconds>".
type snapshotName struct {
	name               string
	term, index, milli uint64
}

func (n snapshotName) compare(o snapshotName) int {
	return cmp.Or(cmp.Compare(n.term, o.term), cmp.Compare(n.index, o.index), cmp.Compare(n.milli, o.milli))
}

func parseSnapshotName(name string) (snapshotName, bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 3 {
		return snapshotName{}, false
	}
	n := snapshotName{name: name}
	for i, field := range []*uint64{&n.term, &n.index, &n.milli} {
		value, err := strconv.ParseUint(parts[i], 10, 64)
		if err != nil {
			return snapshotName{}, false
		}
		*field = value
	}
	return n, true
}
