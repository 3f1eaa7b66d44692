package segment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// TestScenarios plays the files in testdata/scenarios. Each command prints the changes of the disk that it made, in order, so a missing
// sync is a difference in the golden text. The commands:
//
//	open [segment-bytes=] [interval=]      append [n=] [count=] [size=] [epoch=] [base=] [now=]
//	flush   begin-flush   end-flush   checkpoint   close   abandon   relaxed on|off
//	truncate to=   reset to=   move-start to=   retain now= below= [bytes=] [age=]
//	crash [seed=]            what was not synced is lost, or, with a seed, some of it
//	fail op= [glob=] [err=eio|enospc] [nth=] [count=] [short=]      heal
//	flip file= at=           changes a byte     cut file= to=     remove file=     write file= (input)
//	read from= [max=] [limit=]   time ts=   snapshot at= (input)   snapshots   state   files   dump [path=] [records]   verify
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := newScenario(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.out = t, strings.Builder{}
			if err := s.run(d); err != nil {
				fmt.Fprintf(&s.out, "error: %v\n", err)
			}
			if s.out.Len() == 0 {
				return "ok"
			}
			return s.out.String()
		})
	})
}

type scenario struct {
	t       *testing.T
	mem     *vfs.Mem
	fs      *vfs.Injector
	cfg     Config
	log     *Log
	flushes []Flush
	out     strings.Builder
}

func newScenario(t *testing.T) *scenario {
	s := &scenario{t: t, cfg: DefaultConfig()}
	s.use(newTestFS(t))
	return s
}

func (s *scenario) use(mem *vfs.Mem) {
	s.mem = mem
	s.fs = vfs.NewInjector(mem, func(line string) { s.out.WriteString(line + "\n") })
}

func (s *scenario) printf(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

// num reads an argument, or gives its default.
func (s *scenario) num(d *datadriven.TestData, name string, def int64) int64 {
	if d.HasArg(name) {
		d.ScanArgs(s.t, name, &def)
	}
	return def
}

func (s *scenario) str(d *datadriven.TestData, name, def string) string {
	if d.HasArg(name) {
		d.ScanArgs(s.t, name, &def)
	}
	return def
}

func (s *scenario) run(d *datadriven.TestData) error {
	if err, done := s.damageDisk(d); done {
		return err
	}
	if err, done := s.look(d); done {
		return err
	}
	return s.change(d)
}

// change runs the commands that change the log.
func (s *scenario) change(d *datadriven.TestData) error {
	to := record.Offset(s.num(d, "to", 0))
	switch d.Cmd {
	case "open":
		return s.open(d)
	case "append":
		return s.append(d)
	case "flush":
		return s.log.Flush()
	case "begin-flush":
		s.flushes = append(s.flushes, s.log.BeginFlush())
	case "end-flush":
		f := s.flushes[0]
		s.flushes = s.flushes[1:]
		err := s.log.EndFlush(f, f.Sync())
		s.printf("flushed %d\n", s.log.Flushed())
		return err
	case "checkpoint":
		return s.log.Checkpoint()
	case "relaxed":
		return s.log.SetRelaxed(d.CmdArgs[0].Key == "on")
	case "truncate":
		return s.log.TruncateTo(to)
	case "reset":
		return s.log.ResetTo(to)
	case "move-start":
		return s.log.MoveStart(to)
	case "retain":
		return s.retain(d)
	case "snapshot":
		return s.log.WriteProducerSnapshot(record.Offset(s.num(d, "at", 0)), []byte(d.Input))
	case "close":
		return s.log.Close()
	case "abandon":
		s.log.Abandon()
	case "remove-log":
		return s.log.Remove()
	default:
		return fmt.Errorf("unknown command %s", d.Cmd)
	}
	return nil
}

func (s *scenario) open(d *datadriven.TestData) error {
	s.cfg.SegmentBytes = s.num(d, "segment-bytes", s.cfg.SegmentBytes)
	s.cfg.IndexIntervalBytes = int(s.num(d, "interval", int64(s.cfg.IndexIntervalBytes)))
	l, r, err := Open(s.fs, testDir, testID, s.cfg)
	if err != nil {
		return err
	}
	s.log = l
	s.printf("[%d, %d) flushed %d clean %v relaxed %v truncated %d recovered %d epochs %v\n",
		l.Start(), l.End(), l.Flushed(), r.Clean, r.Relaxed, r.Truncated, r.RecoveredBatches, r.Epochs)
	return nil
}

func (s *scenario) append(d *datadriven.TestData) error {
	var all []byte
	at := record.Offset(s.num(d, "base", int64(s.log.End())))
	for range s.num(d, "n", 1) {
		spec := batchSpec{
			base: at, epoch: record.LeaderEpoch(s.num(d, "epoch", 0)), count: int(s.num(d, "count", 1)), size: int(s.num(d, "size", 10)),
			ts: s.num(d, "ts", 1000+int64(at)), fill: byte('a' + at%26),
		}
		b := makeBatch(s.t, spec)
		all, at = append(all, b...), at+record.Offset(spec.count)
	}
	appendTo := s.log.Append
	if d.HasArg("base") {
		appendTo = s.log.AppendReplicated
	}
	a, err := appendTo(s.num(d, "now", 5000), all)
	if err != nil {
		return err
	}
	s.printf("[%d, %d) %d bytes", a.FirstOffset, a.EndOffset, a.Bytes)
	if a.NewEpoch != nil {
		s.printf(" new epoch %d at %d", a.NewEpoch.Epoch, a.NewEpoch.Start)
	}
	s.printf("\n")
	return nil
}

func (s *scenario) retain(d *datadriven.TestData) error {
	cfg := s.cfg
	cfg.RetentionBytes = s.num(d, "bytes", NoLimit)
	cfg.RetentionAge = NoLimit
	if d.HasArg("age") {
		cfg.RetentionAge = msDuration(s.num(d, "age", 0))
	}
	s.log.SetConfig(cfg)
	n, start, err := s.log.Retain(s.num(d, "now", 5000), record.Offset(s.num(d, "below", int64(s.log.End()))))
	s.printf("deleted %d, start %d\n", n, start)
	return err
}

// damageDisk runs the commands that stand for what happens to disks.
func (s *scenario) damageDisk(d *datadriven.TestData) (error, bool) {
	path := testDir + "/" + s.str(d, "file", "")
	switch d.Cmd {
	case "crash":
		if s.log != nil {
			s.log.Abandon()
		}
		if d.HasArg("seed") {
			s.use(s.mem.Crash(rand.New(rand.NewPCG(uint64(s.num(d, "seed", 0)), 0))))
		} else {
			s.use(s.mem.CrashClone())
		}
		return nil, true
	case "fail":
		err := map[string]error{"eio": syscall.EIO, "enospc": syscall.ENOSPC}[s.str(d, "err", "eio")]
		s.fs.Add(vfs.Rule{
			Op: vfs.Op(s.str(d, "op", "")), Glob: s.str(d, "glob", ""), Nth: int(s.num(d, "nth", 1)), Count: int(s.num(d, "count", 0)),
			Err: err, Short: int(s.num(d, "short", 0)),
		})
		return nil, true
	case "heal":
		s.fs.Heal()
		return nil, true
	case "flip":
		return editFile(s.mem, path, func(b []byte) []byte { b[s.num(d, "at", 0)] ^= 0x40; return b }), true
	case "zero":
		return editFile(s.mem, path, func(b []byte) []byte { clear(b[s.num(d, "at", 0):][:s.num(d, "n", 1)]); return b }), true
	case "cut":
		return editFile(s.mem, path, func(b []byte) []byte { return b[:s.num(d, "to", 0)] }), true
	case "write":
		return editFile(s.mem, path, func([]byte) []byte { return []byte(d.Input) }), true
	case "remove":
		return s.mem.Remove(path), true
	}
	return nil, false
}

// editFile changes a file behind the log's back, durably.
func editFile(fs vfs.FS, path string, edit func([]byte) []byte) error {
	b, err := vfs.ReadFile(fs, path, 1<<30)
	if err != nil && !isNotExist(err) {
		return err
	}
	return vfs.WriteFileAtomic(fs, testDir, path, edit(b))
}

// look runs the commands that change nothing.
func (s *scenario) look(d *datadriven.TestData) (error, bool) {
	switch d.Cmd {
	case "state":
		l := s.log
		s.printf("[%d, %d) flushed %d generation %d size %d dirty %d segments %d epochs %v\n",
			l.Start(), l.End(), l.Flushed(), l.Generation(), l.Size(), l.DirtyFiles(), len(l.sealed)+1, l.Epochs())
	case "read":
		return s.read(d), true
	case "time":
		at, ts, found, err := s.log.View().OffsetForTimestamp(context.Background(), s.num(d, "ts", 0), record.Offset(s.num(d, "limit", int64(s.log.End()))), nil)
		s.printf("offset %d timestamp %d found %v\n", at, ts, found)
		return err, true
	case "snapshots":
		at, data, ok := s.log.ProducerSnapshots()
		s.printf("%d %q %v\n", at, data, ok)
	case "files":
		names, err := s.mem.ReadDir(testDir)
		for _, name := range names {
			info, err := s.mem.Stat(testDir + "/" + name)
			s.printf("%s %d\n", name, info.Size)
			if err != nil {
				return err, true
			}
		}
		return err, true
	case "dump":
		path := testDir
		if d.HasArg("file") {
			path += "/" + s.str(d, "file", "")
		}
		return Dump(&s.out, s.mem, path, DumpOptions{Records: d.HasArg("records"), JSON: d.HasArg("json")}), true
	case "verify":
		findings, err := Verify(s.mem, testDir)
		for _, f := range findings {
			s.printf("%s\n", f)
		}
		return err, true
	default:
		return nil, false
	}
	return nil, true
}

func (s *scenario) read(d *datadriven.TestData) error {
	limit := record.Offset(s.num(d, "limit", int64(s.log.End())))
	slice, err := s.log.View().Read(record.Offset(s.num(d, "from", 0)), int(s.num(d, "max", 1<<20)), limit)
	if err != nil {
		return err
	}
	defer slice.Release()
	b, err := slice.AppendTo(nil)
	if err != nil {
		return err
	}
	return errors.Join(record.Split(b, func(b record.Batch) error {
		s.printf("%d-%d ", b.BaseOffset(), b.LastOffset())
		return b.VerifyCRC()
	}), func() error { s.printf("%d bytes\n", len(b)); return nil }())
}
