package segment

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/moldau-log/moldau/internal/vfs"
)

// Identity says whose log a directory holds. This package only stores it and compares it.
type Identity struct {
	TopicID   [16]byte
	Topic     string
	Partition int32
	ClusterID string
}

// identityFile is partition.meta. Field names and version are on disk.
type identityFile struct {
	Version   int    `json:"version"`
	ClusterID string `json:"cluster_id"`
	TopicID   string `json:"topic_id"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

const (
	identityVersion  = 1
	maxIdentityBytes = 64 << 10
)

func (id Identity) encode() []byte {
	b, err := json.MarshalIndent(identityFile{
		Version: identityVersion, ClusterID: id.ClusterID, TopicID: hex.EncodeToString(id.TopicID[:]), Topic: id.Topic, Partition: id.Partition,
	}, "", "  ")
	if err != nil {
		panic("segment: partition.meta: " + err.Error()) // strings and numbers always encode
	}
	return append(b, '\n')
}

// ReadIdentity reads whose log a directory holds. It gives fs.ErrNotExist when the directory has no identity.
func ReadIdentity(fsys vfs.FS, dir string) (Identity, error) {
	b, err := vfs.ReadFile(fsys, filepath.Join(dir, identityName), maxIdentityBytes)
	if err != nil {
		return Identity{}, fmt.Errorf("segment: read partition.meta: %w", err)
	}
	var f identityFile
	if err := json.Unmarshal(b, &f); err != nil {
		return Identity{}, fmt.Errorf("%w: partition.meta of %s: %w", ErrIdentity, dir, err)
	}
	if f.Version != identityVersion {
		return Identity{}, fmt.Errorf("%w: partition.meta of %s has format version %d, this program knows %d: use the version that wrote it", ErrIdentity, dir, f.Version, identityVersion)
	}
	topicID, err := hex.DecodeString(f.TopicID)
	if err != nil || len(topicID) != 16 {
		return Identity{}, fmt.Errorf("%w: partition.meta of %s has topic id %q", ErrIdentity, dir, f.TopicID)
	}
	return Identity{TopicID: [16]byte(topicID), Topic: f.Topic, Partition: f.Partition, ClusterID: f.ClusterID}, nil
}

// claim makes the directory when it is new, and refuses it when it is somebody else's.
func claim(fsys vfs.FS, dir string, id Identity) error {
	have, err := ReadIdentity(fsys, dir)
	if isNotExist(err) {
		return found(fsys, dir, id)
	}
	if err != nil {
		return err
	}
	if have != id {
		return fmt.Errorf("%w: %s holds topic %q (%x) partition %d of cluster %q, not topic %q (%x) partition %d of cluster %q", ErrIdentity, dir,
			have.Topic, have.TopicID, have.Partition, have.ClusterID, id.Topic, id.TopicID, id.Partition, id.ClusterID)
	}
	return nil
}

// found writes the identity of a new directory. A directory with segments and without identity is never adopted.
func found(fsys vfs.FS, dir string, id Identity) error {
	if err := fsys.MkdirAll(dir); err != nil {
		return fmt.Errorf("segment: make directory: %w", err)
	}
	bases, err := listSegments(fsys, dir)
	if err != nil {
		return err
	}
	if len(bases) > 0 {
		return fmt.Errorf("%w: %s holds segments and no partition.meta", ErrIdentity, dir)
	}
	if err := vfs.WriteFileAtomic(fsys, dir, filepath.Join(dir, identityName), id.encode()); err != nil {
		return fmt.Errorf("segment: write partition.meta: %w", err)
	}
	if err := fsys.SyncDir(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("segment: sync parent directory: %w", err)
	}
	return nil
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
