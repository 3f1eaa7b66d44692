package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// dropPages takes the segments under the data directories out of the page cache, and says how much of them has stayed. Files are flushed first, since the kernel
// keeps what is not on disk.
func dropPages(dirs []string) (*coldResult, error) {
	r := &coldResult{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			switch {
			case os.IsNotExist(err): // removed by its broker meanwhile
				return nil
			case err != nil:
				return err
			case !e.Type().IsRegular() || !strings.HasSuffix(path, ".log"):
				return nil
			}
			return r.drop(path)
		})
		if err != nil {
			return nil, fmt.Errorf("drop the pages of %s: %w", dir, err)
		}
	}
	if r.Files == 0 {
		return nil, fmt.Errorf("no segment is under %s", strings.Join(dirs, ", "))
	}
	return r, nil
}

func (r *coldResult) drop(path string) error {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	fd := int(f.Fd())
	if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
		return err
	}
	r.Files++
	r.Bytes += info.Size()
	var cached unix.Cachestat_t
	if err := unix.Cachestat(uint(fd), &unix.CachestatRange{}, &cached, 0); err != nil {
		r.CachedBytes = nil // before Linux 6.5
		return nil
	}
	if r.CachedBytes == nil {
		r.CachedBytes = new(int64)
	}
	*r.CachedBytes += int64(cached.Cache) * int64(os.Getpagesize())
	return nil
}
