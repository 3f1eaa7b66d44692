package controller

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// DirectoryInfo is what the Raft files of a stopped broker hold. After the loss of a quorum, recover the broker with the highest LastTerm and, among
// those, the highest LastIndex.
type DirectoryInfo struct {
	Cluster       cluster.ClusterID
	LastTerm      cluster.ControllerTerm
	LastIndex     uint64
	SnapshotIndex uint64
	Voters        []cluster.BrokerID
}

// Inspect reads the Raft files of a stopped broker and changes nothing in them.
func Inspect(cfg Config) (DirectoryInfo, error) {
	var info DirectoryInfo
	err := offline(cfg, func(o *offlineFiles) error {
		newest, err := o.snaps.newest()
		if err != nil {
			return err
		}
		if newest != nil {
			info.SnapshotIndex, info.LastIndex, info.LastTerm = newest.Index, newest.Index, cluster.ControllerTerm(newest.Term)
		}
		machine := strictFSM()
		configuration, err := replayed(func() (raft.Configuration, error) {
			return raft.GetConfiguration(o.conf, machine, o.store, o.store, o.snaps, o.trans)
		})
		if err != nil {
			return err
		}
		if _, err := replayed(func() (struct{}, error) { return struct{}{}, replayLog(o.store, machine, &info) }); err != nil {
			return err
		}
		for _, s := range configuration.Servers {
			if broker, _, err := parseServerID(s.ID); err == nil && s.Suffrage == raft.Voter {
				info.Voters = append(info.Voters, broker)
			}
		}
		info.Cluster = machine.state.Image().ClusterID()
		return nil
	})
	return info, err
}

// replayLog applies the entries after the snapshot.
func replayLog(store *logStore, machine *fsm, info *DirectoryInfo) error {
	last, err := store.LastIndex()
	if err != nil {
		return err
	}
	for index := info.SnapshotIndex + 1; index <= last; index++ {
		var entry raft.Log
		if err := store.GetLog(index, &entry); err != nil {
			return err
		}
		if entry.Type == raft.LogCommand {
			machine.Apply(&entry)
		}
		info.LastIndex, info.LastTerm = index, cluster.ControllerTerm(entry.Term)
	}
	return nil
}

// RecoverCluster makes a stopped broker the only voter of its cluster, with everything that its Raft files hold, committed or not. It is for a quorum that is lost
// for good: the other old voters must never run again with their old directories, or the cluster splits. Brokers that are left ask to be added when they are
// started; more voters follow by themselves. No partition data is touched.
func RecoverCluster(cfg Config) error {
	return offline(cfg, func(o *offlineFiles) error {
		if !o.hasState {
			return fmt.Errorf("controller: recover in %s: there are no Raft files", cfg.Dir)
		}
		machine := strictFSM()
		_, err := replayed(func() (struct{}, error) {
			return struct{}{}, raft.RecoverCluster(o.conf, machine, o.store, o.store, o.snaps, o.trans, o.alone)
		})
		if err != nil {
			return fmt.Errorf("controller: recover in %s: %w", cfg.Dir, err)
		}
		return o.marker.write(machine.state.Image().Index())
	})
}

// replayPanic carries an error out of the library, which ignores the answers of Apply when it replays a log.
type replayPanic struct{ err error }

// strictFSM is an FSM that panics, with a replayPanic, on what it cannot apply.
func strictFSM() *fsm {
	return newFSM(newBoard(), func(err error) { panic(replayPanic{err}) }, func(*cluster.Image) {})
}

// replayed runs one of the library's replays and turns a replayPanic into its error, before anything was written.
func replayed[T any](replay func() (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			failure, ok := p.(replayPanic)
			if !ok {
				panic(p)
			}
			err = failure.err
		}
	}()
	return replay()
}

// forgottenMax bounds the numbered directories into which Forget moves files.
const forgottenMax = 1000

// Forget moves the Raft files of a stopped broker into a directory beside them and lets it join its cluster again as the same server, so that it keeps its
// partition data. It is for brokers of a cluster that was recovered or restored elsewhere. It must not be used while the old quorum lives: the server has
// forgotten its votes.
func Forget(cfg Config) error {
	server := serverID(cfg.Broker, cfg.Directory)
	if _, err := openMarker(cfg.Dir, server); err != nil {
		return err
	}
	for n := range forgottenMax {
		aside := cfg.Dir + ".forgotten-" + strconv.Itoa(n+1)
		if _, err := os.Lstat(aside); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.Rename(cfg.Dir, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("controller: move the Raft files aside: %w", err)
		}
		if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
			return fmt.Errorf("controller: create the Raft directory: %w", err)
		}
		m := &markerFile{dir: cfg.Dir, server: server, last: markerData{Rejoin: true}}
		if err := m.write(0); err != nil {
			return err
		}
		return syncDir(filepath.Dir(cfg.Dir))
	}
	return fmt.Errorf("controller: move the Raft files aside: %s.forgotten-1 to -%d exist", cfg.Dir, forgottenMax)
}
