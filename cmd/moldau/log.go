package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/segment"
)

// What marks a directory as one partition's log, and as a broker's data directory.
const (
	identityFile = "partition.meta"
	brokerFile   = "broker.meta"
)

func newLog(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "Read logs from disk, offline"}
	cmd.AddCommand(newLogDump(a), newLogVerify(a))
	return cmd
}

func newLogDump(a *app) *cobra.Command {
	var opts segment.DumpOptions
	var all bool
	cmd := &cobra.Command{
		Use:   "dump FILE|DIR",
		Short: "Print the batches of a segment, or of all segments of a partition's directory",
		Long: `Print a line per batch, and with --records a line per record below it. A file may also be an index, a time index or one of the text files. Files are
opened for reading only, so the broker may be running.`,
		Example: "  moldau log dump /var/lib/moldau/partitions/DIR\n  moldau log dump DIR --records -o json | jq 'select(.valid == false)'",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			files, err := filesToDump(args[0], all)
			if err != nil {
				return err
			}
			if a.output == formatName {
				return writeLines(a.out, files)
			}
			out, err := newDumpWriter(a.out, a.output)
			if err != nil {
				return err
			}
			opts.JSON = out != nil
			var w io.Writer = a.out
			if out != nil {
				w = out
			}
			for i, file := range files {
				if !opts.JSON && len(files) > 1 {
					if i > 0 {
						fmt.Fprintln(a.out)
					}
					fmt.Fprintf(a.out, "# %s\n", filepath.Base(file))
				}
				if err := segment.Dump(w, vfs.OS{}, file, opts); err != nil {
					return dumpError(err)
				}
			}
			if out != nil {
				return out.end()
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&opts.Records, "records", false, "also print the records")
	cmd.Flags().BoolVar(&all, "all", false, "also the indexes and the text files of a directory")
	return cmd
}

// dumpError gives a missing path its exit code.
func dumpError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &coded{code: exitNotFound, err: err}
	}
	return err
}

// filesToDump is the file itself, or what a directory holds, in the order of offsets.
func filesToDump(path string, all bool) ([]string, error) {
	info, err := vfs.OS{}.Stat(path)
	if err != nil {
		return nil, dumpError(err)
	}
	if !info.IsDir {
		return []string{path}, nil
	}
	names, err := vfs.OS{}.ReadDir(path)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var files []string
	for _, name := range names {
		ext := filepath.Ext(name)
		text := name == identityFile || name == "log.meta" || name == "leader-epoch-checkpoint"
		if ext == ".log" || (all && (ext == ".index" || ext == ".timeindex" || text)) {
			files = append(files, filepath.Join(path, name))
		}
	}
	if len(files) == 0 {
		return nil, hinted(notFound("%s holds no segment", path), "Name the directory of one partition, below partitions/ in a broker's data directory.")
	}
	return files, nil
}

// dumpWriter makes one document of the lines of JSON that Dump writes.
type dumpWriter struct {
	w             io.Writer
	before, after string // of the whole
	first, next   string // before a line
	rest          []byte // an unfinished line
	lines         int
}

// newDumpWriter returns nil for the text formats.
func newDumpWriter(w io.Writer, format string) (*dumpWriter, error) {
	switch format {
	case formatTable, formatWide:
		return nil, nil
	case formatJSONL:
		return &dumpWriter{w: w}, nil
	case formatJSON:
		return &dumpWriter{w: w, before: "[", first: "\n  ", next: ",\n  ", after: "\n]\n"}, nil
	case formatYAML:
		return &dumpWriter{w: w, first: "- ", next: "- "}, nil // JSON is YAML
	}
	return nil, usage("-o %q is not one of %s", format, strings.Join(formats, ", "))
}

func (d *dumpWriter) Write(p []byte) (int, error) {
	d.rest = append(d.rest, p...)
	for {
		i := bytes.IndexByte(d.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		lead := d.next
		if d.lines == 0 {
			lead = d.before + d.first
		}
		line := lead + string(d.rest[:i])
		if d.after == "" {
			line += "\n"
		}
		if _, err := io.WriteString(d.w, line); err != nil {
			return 0, err
		}
		d.lines++
		d.rest = d.rest[i+1:]
	}
}

func (d *dumpWriter) end() error {
	text := d.after
	if d.lines == 0 && d.before != "" {
		text = d.before + "]\n"
	}
	_, err := io.WriteString(d.w, text)
	return err
}

// findingShape is one line of `moldau log verify`.
type findingShape struct {
	Directory string `json:"directory"`
	segment.Finding
}

func newLogVerify(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify DIR",
		Short: "Read everything in a partition's directory, or in a broker's data directory, and report what is wrong",
		Long: `Check every checksum, offset, index and epoch. It changes nothing. The broker must not be running: what it is just writing looks like damage.

Exit 1 if records may be missing or altered (damage, identity). What the broker repairs when it opens the log (torn, index, meta) is told, and exit is 0.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dirs, err := logDirectories(args[0])
			if err != nil {
				return err
			}
			shapes := []findingShape{}
			bad := 0
			for _, dir := range dirs {
				findings, err := segment.Verify(vfs.OS{}, dir)
				if err != nil {
					return fmt.Errorf("verify %s: %w", dir, err)
				}
				for _, f := range findings {
					shapes = append(shapes, findingShape{dir, f})
					if f.Kind == segment.KindDamage || f.Kind == segment.KindIdentity {
						bad++
					}
				}
			}
			if err := a.show(viewFindings(shapes)); err != nil {
				return err
			}
			a.say("%d logs read, %d findings, %d of them damage", len(dirs), len(shapes), bad)
			if bad > 0 {
				return &coded{code: exitFailure, err: errors.New("the logs are damaged"), mute: true}
			}
			return nil
		},
	}
}

// logDirectories is the directory itself if it is a partition's, else the partitions' directories below it.
func logDirectories(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == identityFile {
			dirs = append(dirs, filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		return nil, dumpError(err)
	}
	if _, err := os.Stat(filepath.Join(root, brokerFile)); len(dirs) == 0 && err != nil {
		return nil, notFound("no partition's log is in %s", root)
	}
	return dirs, nil
}

func viewFindings(shapes []findingShape) view {
	t := table{columns: []column{col("KIND"), col("DIRECTORY"), col("FILE"), col("POSITION"), col("OFFSET"), col("MESSAGE")}}
	var v view
	for _, s := range shapes {
		t.rows = append(t.rows, []string{s.Kind, filepath.Base(s.Directory), s.File, number(s.Position), number(s.Offset), s.Message})
		v.names = append(v.names, s.Directory)
	}
	if len(shapes) > 0 {
		v.tables = []table{t}
	}
	v.value = shapes
	return v
}
