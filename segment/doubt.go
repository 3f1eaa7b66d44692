package segment

import (
	"fmt"
	"path/filepath"

	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/internal/vfs"
)

// What recovery could only find once must not be forgotten with the process that found it: after the cut a log whose end has rotted is like any other. So
// the doubt is a file, which is on disk before the log is changed and stays until the owner has told whoever counts on the log.

// rottenDoubt is the content of the file when an end that had rotted was cut off; that of a relaxed log is empty.
const rottenDoubt = "rotten\n"

const maxDoubtBytes = 4 << 10

// doubted reports whether an earlier Open has left a doubt that nobody has settled, and whether it was about a rotten end.
func doubted(fs vfs.FS, dir string) (doubtful, rotten bool, err error) {
	b, err := vfs.ReadFile(fs, filepath.Join(dir, doubtName), maxDoubtBytes)
	if isNotExist(err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("segment: open: %w", err)
	}
	return true, string(b) == rottenDoubt, nil
}

// keepDoubt makes the doubt durable. Without it recovery must not change anything, so a full disk is an error here.
func (o *opener) keepDoubt() error {
	if planted.On(planted.DoubtNotDurable) {
		return nil
	}
	l := o.log
	var content []byte
	if o.report.Rotten {
		content = []byte(rottenDoubt)
	}
	if err := vfs.WriteFileAtomic(l.fs, l.dir, l.path(doubtName), content); err != nil {
		return fmt.Errorf("segment: note that records may be missing: %w", err)
	}
	return nil
}

// DoubtFile is the file in a log's directory that keeps what Report.Doubtful says. An operator may remove it while the log is not open.
func DoubtFile(dir string) string { return filepath.Join(dir, doubtName) }

// SettleDoubt takes back what Report.Doubtful says of the log in dir, durably, open or not. It is right once nobody counts on the log as complete. Without a doubt it does nothing.
func SettleDoubt(fs vfs.FS, dir string) error {
	err := fs.Remove(filepath.Join(dir, doubtName))
	if isNotExist(err) {
		return nil
	}
	if err == nil {
		err = fs.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("segment: settle the doubt: %w", err)
	}
	return nil
}
