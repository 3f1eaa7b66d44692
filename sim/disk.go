package sim

import (
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
)

// errDisk is what an injected failure of a disk says.
var errDisk = errors.New("sim: injected disk error")

// dataRoot is the data directory of every broker, each on a disk of its own.
const dataRoot = "data"

// disk is one broker's disk over all its lives.
type disk struct {
	mem  *vfs.Mem
	fail *vfs.Injector // of the present life
	plan Plant

	failing bool          // calls fail, or will
	fullTil time.Duration // until then there is no room, or what waited for room may still be waiting
	swapped *broker       // whose disk this is, nil for the own one
	// copy is the disk after an orderly stop, copiedAt the broker epoch of the life before; nil for none.
	copy     *vfs.Mem
	copiedAt cluster.BrokerEpoch
}

func newDisk(plan Plant) *disk { return &disk{mem: vfs.NewMem(), plan: plan} }

// mount gives a new life the file system, with the root of the replicas durably there.
func (d *disk) mount() (vfs.FS, error) {
	d.fail = vfs.NewInjector(d.mem, nil)
	d.failing = false
	var fsys vfs.FS = d.fail
	switch d.plan {
	case PlantForgetsSync:
		fsys = lyingFS{FS: fsys, files: true}
	case PlantForgetsSyncDir:
		fsys = lyingFS{FS: fsys, dirs: true}
	}
	root := filepath.Join(dataRoot, partitionsDir)
	if err := d.mem.MkdirAll(root); err != nil {
		return nil, err
	}
	for _, dir := range []string{dataRoot, filepath.Dir(dataRoot)} {
		if err := d.mem.SyncDir(dir); err != nil {
			return nil, err
		}
	}
	return fsys, nil
}

// failSync makes one fsync of a log fail, the nth from now.
func (d *disk) failSync(nth int) {
	d.fail.Add(vfs.Rule{Op: vfs.OpSync, Glob: "*.log", Nth: nth, Count: 1, Err: errDisk})
}

// powerCut loses what was not synced: all of it, or, with tearing, what chance decides per sector and per name.
func (d *disk) powerCut(s *scheduler, tearing bool) {
	if tearing {
		d.mem = d.mem.Crash(s.rng)
		return
	}
	d.mem = d.mem.CrashClone()
}

// lyingFS is a planted fault: a disk that says it has synced and has not.
type lyingFS struct {
	vfs.FS
	files, dirs bool
}

func (l lyingFS) Open(path string) (vfs.File, error) { return l.OpenFile(path, vfs.ReadOnly) }

func (l lyingFS) OpenFile(path string, flag vfs.Flag) (vfs.File, error) {
	f, err := l.FS.OpenFile(path, flag)
	if err == nil && l.files && strings.HasSuffix(path, ".log") {
		return lyingFile{f}, nil
	}
	return f, err
}

func (l lyingFS) Create(path string) (vfs.File, error) { return l.OpenFile(path, vfs.Truncated) }

func (l lyingFS) SyncDir(path string) error {
	if l.dirs {
		return nil
	}
	return l.FS.SyncDir(path)
}

type lyingFile struct{ vfs.File }

func (lyingFile) Sync() error { return nil }
