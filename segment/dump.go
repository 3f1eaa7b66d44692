package segment

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// DumpOptions choose what Dump prints.
type DumpOptions struct {
	Records bool // one line per record below its batch
	JSON    bool // one JSON object per line instead of text
}

// Dump prints what a file of a log, or all files of its directory, hold: a line per batch, index entry or text line. It opens files for
// reading only, needs no lock, and goes on behind damage, which it reports in its place. Both forms are stable: scripts read them, and
// the golden tests of this package are written in them.
func Dump(w io.Writer, fs vfs.FS, path string, opt DumpOptions) error {
	d := &dumper{w: bufio.NewWriter(w), fs: fs, opt: opt}
	if err := d.path(path); err != nil {
		return fmt.Errorf("segment: dump: %w", err)
	}
	if err := d.w.Flush(); err != nil {
		return fmt.Errorf("segment: dump: %w", err)
	}
	return nil
}

type dumper struct {
	w    *bufio.Writer
	fs   vfs.FS
	opt  DumpOptions
	file string // name of the file that is printed
}

// batchLine is one batch as JSON. The fields of the text form are the same.
type batchLine struct {
	File          string `json:"file"`
	Position      int64  `json:"position"`
	FirstOffset   int64  `json:"first_offset"`
	LastOffset    int64  `json:"last_offset"`
	LeaderEpoch   int32  `json:"leader_epoch"`
	Size          int    `json:"size"`
	CRC           string `json:"crc"`
	Valid         bool   `json:"valid"`
	ProducerID    int64  `json:"producer_id"`
	ProducerEpoch int16  `json:"producer_epoch"`
	BaseSequence  int32  `json:"base_sequence"`
	Count         int32  `json:"count"`
	Codec         string `json:"codec"`
	MaxTimestamp  int64  `json:"max_timestamp"`
	Control       bool   `json:"control"`
	Transactional bool   `json:"transactional"`
}

// recordLine is one record as JSON. Bytes are base64, null is null.
type recordLine struct {
	File      string `json:"file"`
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"`
	Key       []byte `json:"key"`
	Value     []byte `json:"value"`
	Headers   int    `json:"headers"`
}

// damageLine is a stretch of a file that is not batches, as JSON.
type damageLine struct {
	File     string `json:"file"`
	Position int64  `json:"position"`
	Size     int64  `json:"size"`
	Damage   string `json:"damage"`
}

func (d *dumper) path(path string) error {
	info, err := d.fs.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir {
		return d.dumpFile(path)
	}
	names, err := d.fs.ReadDir(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !dumps(name) {
			continue
		}
		d.text("# %s\n", name)
		if err := d.dumpFile(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// dumps reports whether Dump knows how to print a file of a directory.
func dumps(name string) bool {
	switch name {
	case metaName, identityName, epochsName:
		return true
	}
	for _, suffix := range []string{logSuffix, indexSuffix, timeSuffix} {
		if _, ok := parseName(name, suffix); ok {
			return true
		}
	}
	return false
}

func (d *dumper) dumpFile(path string) error {
	d.file = filepath.Base(path)
	switch filepath.Ext(d.file) {
	case indexSuffix:
		return d.offsets(path)
	case timeSuffix:
		return d.times(path)
	case logSuffix:
		return d.log(path)
	}
	return d.lines(path)
}

// text prints in the text form only.
func (d *dumper) text(format string, args ...any) {
	if !d.opt.JSON {
		fmt.Fprintf(d.w, format, args...) //nolint:errcheck // bufio keeps the error for Flush
	}
}

// json prints in the JSON form only.
func (d *dumper) json(v any) {
	if !d.opt.JSON {
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("segment: dump: " + err.Error()) // only plain fields
	}
	d.w.Write(append(b, '\n')) //nolint:errcheck // bufio keeps the error for Flush
}

// log prints a segment, and searches for the next batch behind damage.
func (d *dumper) log(path string) error {
	h, err := d.fs.Open(path)
	if err != nil {
		return err
	}
	defer h.Close() //nolint:errcheck // nothing was written
	size, err := h.Size()
	if err != nil {
		return err
	}
	for at := int64(0); at < size; {
		b, err := batchAt(h, at, size)
		if err == nil {
			d.batch(b, at)
			at += int64(b.Size())
			continue
		}
		if !errors.Is(err, record.ErrCorrupt) && !errors.Is(err, record.ErrShort) {
			return err
		}
		next, ferr := findBatch(h, at, size, 0)
		if ferr != nil {
			return ferr
		}
		if next < 0 {
			next = size
		}
		d.text("damage position %d size %d: %v\n", at, next-at, err)
		d.json(damageLine{File: d.file, Position: at, Size: next - at, Damage: err.Error()})
		at = next
	}
	return nil
}

// batchAt reads the batch at a position, whatever its checksum says.
func batchAt(h io.ReaderAt, at, size int64) (record.Batch, error) {
	b := make([]byte, min(record.HeaderSize, size-at))
	if _, err := readAt(h, b, at); err != nil {
		return record.Batch{}, err
	}
	head, err := record.ParseHead(b)
	if err != nil {
		return record.Batch{}, err
	}
	b = make([]byte, min(int64(head.Size()), size-at))
	if _, err := readAt(h, b, at); err != nil {
		return record.Batch{}, err
	}
	return record.Parse(b)
}

func (d *dumper) batch(b record.Batch, at int64) {
	l := batchLine{
		File: d.file, Position: at, FirstOffset: int64(b.BaseOffset()), LastOffset: int64(b.LastOffset()), LeaderEpoch: int32(b.LeaderEpoch()),
		Size: b.Size(), CRC: fmt.Sprintf("%08x", b.CRC()), Valid: b.VerifyCRC() == nil, ProducerID: int64(b.ProducerID()),
		ProducerEpoch: int16(b.ProducerEpoch()), BaseSequence: int32(b.BaseSequence()), Count: b.Count(), Codec: b.Codec().String(),
		MaxTimestamp: b.MaxTimestamp(), Control: b.IsControl(), Transactional: b.IsTransactional(),
	}
	valid := "valid"
	if !l.Valid {
		valid = "invalid"
	}
	d.text("batch %d-%d epoch %d position %d size %d crc %s %s producer %d/%d/%d count %d codec %s max-timestamp %d",
		l.FirstOffset, l.LastOffset, l.LeaderEpoch, l.Position, l.Size, l.CRC, valid, l.ProducerID, l.ProducerEpoch, l.BaseSequence,
		l.Count, l.Codec, l.MaxTimestamp)
	if l.Transactional {
		d.text(" transactional")
	}
	if l.Control {
		d.text(" control")
	}
	d.text("\n")
	d.json(l)
	if d.opt.Records && l.Valid {
		d.records(b, at)
	}
}

func (d *dumper) records(b record.Batch, at int64) {
	for r, err := range b.All(maxDecompressed) {
		if err != nil {
			d.text("  damage: %v\n", err)
			d.json(damageLine{File: d.file, Position: at, Size: int64(b.Size()), Damage: err.Error()})
			return
		}
		d.text("  record %d timestamp %d key %s value %s headers %d\n", r.Offset, r.Timestamp, quote(r.Key), quote(r.Value), len(r.Headers))
		d.json(recordLine{d.file, int64(r.Offset), r.Timestamp, r.Key, r.Value, len(r.Headers)})
	}
}

// quote prints bytes as a Go string, which shows what is not text.
func quote(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

func (d *dumper) offsets(path string) error {
	b, err := vfs.ReadFile(d.fs, path, MaxSegmentBytes)
	if err != nil {
		return err
	}
	base, _ := parseName(d.file, indexSuffix)
	for len(b) >= offsetEntrySize {
		e := decodeOffsetEntry(b)
		d.text("entry offset %d position %d\n", base+record.Offset(e.relative), e.position)
		d.json(map[string]any{"file": d.file, "offset": base + record.Offset(e.relative), "position": e.position})
		b = b[offsetEntrySize:]
	}
	d.rest(b)
	return nil
}

func (d *dumper) times(path string) error {
	b, err := vfs.ReadFile(d.fs, path, MaxSegmentBytes)
	if err != nil {
		return err
	}
	base, _ := parseName(d.file, timeSuffix)
	for len(b) >= timeEntrySize {
		e := decodeTimeEntry(b)
		d.text("entry timestamp %d offset %d\n", e.timestamp, base+record.Offset(e.relative))
		d.json(map[string]any{"file": d.file, "timestamp": e.timestamp, "offset": base + record.Offset(e.relative)})
		b = b[timeEntrySize:]
	}
	d.rest(b)
	return nil
}

// rest reports bytes that are no whole entry.
func (d *dumper) rest(b []byte) {
	if len(b) > 0 {
		d.text("damage size %d: not a whole entry\n", len(b))
		d.json(damageLine{File: d.file, Size: int64(len(b)), Damage: "not a whole entry"})
	}
}

// lines prints a text file.
func (d *dumper) lines(path string) error {
	b, err := vfs.ReadFile(d.fs, path, maxMetaBytes)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		d.text("%s\n", line)
		d.json(map[string]string{"file": d.file, "line": line})
	}
	return nil
}
