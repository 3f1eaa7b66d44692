package segment

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// meta is the content of log.meta: what cannot be rebuilt from the batches, and what saves reading them. See docs/format/log-meta.md.
type meta struct {
	start         record.Offset
	recoveryPoint record.Offset // all below was on disk when this was written
	clean         bool          // the log was closed in order and the segments are exactly those listed
	relaxed       bool
	gaps          bool          // offsets may be missing between batches
	truncating    record.Offset // a truncation to here was begun; -1 is none
	epochs        uint32        // CRC-32C of the leader-epoch-checkpoint that belongs to this
	segments      []metaSegment // oldest first; the last is the active one
}

type metaSegment struct {
	base, end        record.Offset
	size             int64
	newest           maxTime
	created, written int64
	indexed          int
}

const (
	metaHeader   = "moldau-log-meta 1\n"
	maxMetaBytes = 16 << 20 // some 150,000 segments
)

var errNoMeta = errors.New("segment: no usable log.meta")

func (m meta) encode() []byte {
	var b bytes.Buffer
	b.WriteString(metaHeader)
	fmt.Fprintf(&b, "start %d\nrecovery-point %d\nclean %d\nrelaxed %d\ngaps %d\ntruncating %d\nepochs %08x\n",
		m.start, m.recoveryPoint, digit(m.clean), digit(m.relaxed), digit(m.gaps), m.truncating, m.epochs)
	for _, s := range m.segments {
		fmt.Fprintf(&b, "segment %d %d %d %d %d %d %d %d\n", s.base, s.end, s.size, s.newest.timestamp, s.newest.offset, s.created, s.written, s.indexed)
	}
	fmt.Fprintf(&b, "crc32c %08x\n", crc32.Checksum(b.Bytes(), castagnoli()))
	return b.Bytes()
}

func digit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// castagnoli is cheap: the standard library builds the table once.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

const crcLineSize = len("crc32c 01234567\n")

// parseMeta reads a log.meta. Whatever is not exactly what encode writes is errNoMeta: an empty or torn file is treated as absent.
func parseMeta(b []byte) (meta, error) {
	body := max(len(b)-crcLineSize, 0)
	if string(b[body:]) != fmt.Sprintf("crc32c %08x\n", crc32.Checksum(b[:body], castagnoli())) {
		return meta{}, errNoMeta
	}
	text, ok := strings.CutPrefix(string(b[:body]), metaHeader)
	if !ok {
		return meta{}, fmt.Errorf("%w: log.meta has an unknown format version: use the version that wrote it", ErrIdentity)
	}
	var m meta
	var clean, relaxed, gaps int
	r := strings.NewReader(text)
	_, err := fmt.Fscanf(r, "start %d\nrecovery-point %d\nclean %d\nrelaxed %d\ngaps %d\ntruncating %d\nepochs %08x\n",
		&m.start, &m.recoveryPoint, &clean, &relaxed, &gaps, &m.truncating, &m.epochs)
	if err != nil {
		return meta{}, errNoMeta
	}
	m.clean, m.relaxed, m.gaps = clean == 1, relaxed == 1, gaps == 1
	for r.Len() > 0 {
		var s metaSegment
		_, err := fmt.Fscanf(r, "segment %d %d %d %d %d %d %d %d\n",
			&s.base, &s.end, &s.size, &s.newest.timestamp, &s.newest.offset, &s.created, &s.written, &s.indexed)
		if err != nil {
			return meta{}, errNoMeta
		}
		m.segments = append(m.segments, s)
	}
	return m, nil
}

func readMeta(fs vfs.FS, dir string) (meta, error) {
	b, err := vfs.ReadFile(fs, filepath.Join(dir, metaName), maxMetaBytes)
	if err != nil {
		if isNotExist(err) {
			return meta{}, errNoMeta
		}
		return meta{}, fmt.Errorf("segment: read log.meta: %w", err)
	}
	return parseMeta(b)
}
