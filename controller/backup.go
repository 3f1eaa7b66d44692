package controller

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/controller/codec"
	"github.com/moldau-log/moldau/controller/state"
)

// A backup is one file: docs/format/raft-directory.md has it too.
//
//	+----------------+-------------+-----------------------------+----------------+
//	| "MOLDAUBK", 8  | version, 4  | snapshot (codec), to the    | CRC32C, 4, BE, |
//	|                | BE          | end mark                    | over the rest  |
//	+----------------+-------------+-----------------------------+----------------+
const (
	backupMagic   = "MOLDAUBK"
	backupVersion = 1
	backupTrailer = 4
)

// restoredTerm is the Raft term in which a restored cluster begins; restoredGap is how far its log index is moved on from the backup's, so that broker epochs, which
// are indexes, are not given out a second time.
const (
	restoredTerm = 1
	restoredGap  = 1 << 32
)

// Backup writes the metadata of this moment, as this broker has applied it, as one file for RestoreBackup. It holds no partition data.
func (c *Controller) Backup(w io.Writer) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	out := bufio.NewWriter(io.MultiWriter(w, sum))
	head := binary.BigEndian.AppendUint32([]byte(backupMagic), backupVersion)
	_, err := out.Write(head)
	if err == nil {
		err = codec.WriteSnapshot(out, c.fsm.latest.Load().Records())
	}
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		_, err = w.Write(binary.BigEndian.AppendUint32(nil, sum.Sum32()))
	}
	if err != nil {
		return fmt.Errorf("controller: write a backup: %w", err)
	}
	return nil
}

// readBackup checks a backup and builds its state.
func readBackup(r io.Reader) (*state.State, error) {
	body := &trailed{source: bufio.NewReader(r), sum: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
	head := make([]byte, len(backupMagic)+4)
	if _, err := io.ReadFull(body, head); err != nil || string(head[:len(backupMagic)]) != backupMagic {
		return nil, errors.New("controller: this is no metadata backup")
	}
	if v := binary.BigEndian.Uint32(head[len(backupMagic):]); v != backupVersion {
		return nil, fmt.Errorf("controller: the backup has format %d, this version reads %d", v, backupVersion)
	}
	restored, err := state.Restore(codec.ReadSnapshot(body))
	if err != nil {
		return nil, fmt.Errorf("controller: read the backup: %w", err)
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return nil, fmt.Errorf("controller: read the backup: %w", err)
	}
	if !body.whole() {
		return nil, errors.New("controller: the backup is damaged: its checksum does not match")
	}
	return restored, nil
}

// trailed reads all but the last four bytes of its source, which are the checksum of the rest.
type trailed struct {
	source *bufio.Reader
	sum    hash.Hash32
}

func (t *trailed) Read(p []byte) (int, error) {
	ahead, err := t.source.Peek(min(len(p), t.source.Size()-backupTrailer) + backupTrailer)
	n := len(ahead) - backupTrailer
	if n <= 0 {
		if err == nil || errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		return 0, err
	}
	n = copy(p, ahead[:n])
	_, _ = t.sum.Write(p[:n])
	_, err = t.source.Discard(n)
	return n, err
}

// whole reports, at the end, whether the checksum matches.
func (t *trailed) whole() bool {
	trailer, _ := io.ReadAll(t.source)
	return len(trailer) == backupTrailer && binary.BigEndian.Uint32(trailer) == t.sum.Sum32()
}

// RestoreBackup makes a stopped broker with an empty Raft directory the only voter of a cluster with the metadata of a backup. The other brokers join it
// with Forget or with empty directories. What happened in the cluster after the backup is unknown to it.
func RestoreBackup(cfg Config, r io.Reader) error {
	restored, err := readBackup(r)
	if err != nil {
		return err
	}
	return offline(cfg, func(o *offlineFiles) error {
		if o.hasState {
			return fmt.Errorf("controller: restore into %s: it has Raft files already: move them away first", cfg.Dir)
		}
		index := restored.Image().Index() + restoredGap
		restored.Advance(index)
		sink, err := o.snaps.Create(raft.SnapshotVersionMax, index, restoredTerm, o.alone, 1, o.trans)
		if err != nil {
			return fmt.Errorf("controller: create the restored snapshot: %w", err)
		}
		if err := (&fsmSnapshot{state: restored.Snapshot()}).Persist(sink); err != nil {
			return err
		}
		if err := o.store.SetUint64([]byte("CurrentTerm"), restoredTerm); err != nil {
			return err
		}
		return o.marker.write(index)
	})
}

// offlineFiles are the Raft files of a stopped broker.
type offlineFiles struct {
	store    *logStore
	snaps    *snapshotStore
	marker   *markerFile
	hasState bool
	conf     *raft.Config
	trans    raft.Transport
	alone    raft.Configuration // this broker as the only voter
}

// offline opens and checks the Raft files of a stopped broker for f.
func offline(cfg Config, f func(*offlineFiles) error) (err error) {
	c, err := prepare(cfg, Ports{Fatal: func(error) {}})
	if err != nil {
		return err
	}
	if err := c.openFiles(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.store.close()) }()
	_, trans := raft.NewInmemTransport("") // only encodes addresses
	defer trans.Close()
	return f(&offlineFiles{
		store: c.store, snaps: c.snaps, marker: c.marker, hasState: c.hadState, conf: c.raftConfig(), trans: trans,
		alone: raft.Configuration{Servers: []raft.Server{{ID: c.server, Address: serverAddress(c.server, cfg.Address), Suffrage: raft.Voter}}},
	})
}
