package controller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"

	"go.etcd.io/bbolt"
)

// bbolt trusts what it finds: it checks no page, and where one of its two meta pages is damaged it takes the other. So the whole file is looked at before it is used.

// The two meta pages of a bbolt file, at its begin and one page later. A commit writes one of them, in turn, after its data is synced. It is on disk:
//
//	+-----------+----------+------------+--------------+----------------+---------------------+----------------+----------------+
//	| page head | magic, 4 | version, 4 | page size, 4 | flags, root,   | pages in use, 8     | transaction, 8 | FNV-64a of the |
//	| 16        |          |            |              | free list, 28  |                     |                | 56 before, 8   |
//	+-----------+----------+------------+--------------+----------------+---------------------+----------------+----------------+
//
// Integers are in the byte order of the machine.
const (
	metaHead     = 16
	metaLength   = 64
	metaMagic    = 0xED0CDAED
	metaVersion  = 2
	metaPageSize = 8 // where it lies, after the page head
	metaPages    = 40
	metaSum      = 56
	minPageSize  = 1 << 10
	maxPageSize  = 1 << 24
)

// checkStoreFile refuses a bbolt file that is not whole: a damaged meta page, a file that is too short, a part that cannot be read, a page that is not what it
// should be. A file that is not there, or empty, is a new one.
func checkStoreFile(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := io.Copy(io.Discard, f) // bbolt maps the file: a bad block would be a fault there, not an error
	if err != nil || size == 0 {
		return err
	}
	if err := checkMetaPages(f, size); err != nil {
		return err
	}
	return checkPages(path)
}

// checkMetaPages refuses a file of which one meta page is not whole. bbolt would take the other one, and with it the state before the last commit: a vote that
// was cast or an entry that was acknowledged would be forgotten. A power cut leaves the old page or the new one, because what a page holds lies in one sector.
func checkMetaPages(f io.ReaderAt, size int64) error {
	first, err := readMetaPage(f, 0)
	if err != nil {
		return fmt.Errorf("meta page 0: %w", err)
	}
	page := binary.NativeEndian.Uint32(first[metaPageSize:])
	if page < minPageSize || page > maxPageSize {
		return fmt.Errorf("meta page 0: pages of %d bytes", page)
	}
	second, err := readMetaPage(f, int64(page))
	if err != nil {
		return fmt.Errorf("meta page 1: %w", err)
	}
	for i, meta := range [][]byte{first, second} {
		if used := binary.NativeEndian.Uint64(meta[metaPages:]); used > uint64(size)/uint64(page) {
			return fmt.Errorf("meta page %d: %d pages are in use, the file has %d", i, used, size/int64(page))
		}
	}
	return nil
}

var errMetaPage = errors.New("damaged: the last commit may be lost")

// readMetaPage reads and checks the meta page at a position.
func readMetaPage(f io.ReaderAt, at int64) ([]byte, error) {
	b := make([]byte, metaLength)
	if _, err := f.ReadAt(b, at+metaHead); err != nil {
		return nil, err
	}
	sum := fnv.New64a()
	_, _ = sum.Write(b[:metaSum])
	if binary.NativeEndian.Uint32(b) != metaMagic || binary.NativeEndian.Uint32(b[4:]) != metaVersion ||
		binary.NativeEndian.Uint64(b[metaSum:]) != sum.Sum64() {
		return nil, errMetaPage
	}
	return b, nil
}

// checkPages has bbolt walk all its pages: each is reached once or free, of the right type, with its keys in order.
func checkPages(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		var first error
		for err := range tx.Check() { // all of them: the walk waits for its reader
			if first == nil {
				first = err
			}
		}
		return first
	})
}
