//go:build linux

package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shutdownNoFlush is the request to stop a file system at once, without writing anything to its disk: FS_IOC_SHUTDOWN, _IOR('X', 125, __u32), and its flag.
const (
	fsShutdown = 0x8004587d
	noFlush    = 0x2
)

// unmountPatience bounds how long the kernel may hold a file system after its last user has been killed.
const unmountPatience = 10 * time.Second

// filler is the file that takes the space of a full disk.
const filler = "filler"

// Disk is a file system in an image file, mounted at Path. The file is sparse.
type Disk struct {
	Kind  string // ext4, xfs, or "" for a plain directory
	Path  string
	image string
}

// NewDisk makes an image of size bytes under dir and mounts it.
func NewDisk(dir, name, kind string, size int64) (*Disk, error) {
	d := &Disk{Kind: kind, Path: filepath.Join(dir, name), image: filepath.Join(dir, name+".img")}
	if err := os.Mkdir(d.Path, 0o755); err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	if kind == "" {
		return d, nil
	}
	f, err := os.Create(d.image)
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	if err := run("mkfs."+kind, "-q", d.image); err != nil {
		return nil, err
	}
	return d, d.mount()
}

func (d *Disk) mount() error { return run("mount", "-o", "loop", d.image, d.Path) }

// Stop cuts the disk's power: from now on nothing is written to it, and what had not been synced will be gone. Who uses it gets errors.
func (d *Disk) Stop() error {
	if d.Kind == "" {
		return errors.New("rig: no image to cut the power of")
	}
	dir, err := os.Open(d.Path)
	if err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	flags := uint32(noFlush)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), fsShutdown, uintptr(unsafe.Pointer(&flags)))
	dir.Close()
	if errno != 0 {
		return fmt.Errorf("rig: shut down %s: %w", d.Path, errno)
	}
	return nil
}

// Restore mounts what a stopped disk has. The processes that used it must have ended.
func (d *Disk) Restore() error {
	if err := d.Unmount(); err != nil {
		return err
	}
	return d.mount()
}

// Unmount takes the file system away; its image stays.
func (d *Disk) Unmount() error {
	if d.Kind == "" {
		return nil
	}
	deadline := time.Now().Add(unmountPatience)
	for {
		err := unix.Unmount(d.Path, 0)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("rig: unmount %s: %w", d.Path, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Fill leaves about so many bytes free. What runs goes on taking them.
func (d *Disk) Fill(leave int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(d.Path, &st); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	take := int64(st.Bavail)*st.Bsize - leave
	if take <= 0 {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(d.Path, filler), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	if err := unix.Fallocate(int(f.Fd()), 0, size, take); err != nil && !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("rig: fill %s: %w", d.Path, err)
	}
	return nil
}

// Free gives the space back.
func (d *Disk) Free() error {
	if err := os.Remove(filepath.Join(d.Path, filler)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("rig: %w", err)
	}
	return nil
}

// Keep copies what the disk has to a new directory and gives the disk up. The processes that used it must have ended.
func (d *Disk) Keep(to string) error {
	if err := errors.Join(d.Free(), os.CopyFS(to, os.DirFS(d.Path)), d.Unmount()); err != nil {
		return fmt.Errorf("rig: keep %s: %w", d.Path, err)
	}
	if d.Kind == "" {
		return nil
	}
	if err := errors.Join(os.Remove(d.Path), os.Remove(d.image)); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	return nil
}
