package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are what the command line and the environment say.
type options struct {
	bin     string   // directory of the binary moldau
	clients string   // directory of the client folders
	only    []string // rows to run; none: all
	caps    []string // capabilities to run; none: all
	cache   string   // where the clients are installed
	out     string   // file for the table, markdown
	known   string   // file of the known failures
	keep    bool     // keep the logs
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", envOr("E2E_BIN", "../../bin"), "directory of the binary moldau; env E2E_BIN")
	flag.StringVar(&o.clients, "clients", "clients", "directory of the client folders")
	flag.StringVar(&o.out, "out", "", "write the table to this file too, as markdown")
	flag.StringVar(&o.known, "known", "known.txt", "failures that do not count: client, capability, reason")
	flag.Parse()
	o.only = strings.Fields(os.Getenv("CLIENTS"))
	o.caps = strings.Fields(os.Getenv("CAPABILITIES"))
	o.keep = os.Getenv("KEEP") != ""
	o.cache = os.Getenv("COMPAT_CACHE")
	if o.cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			user = os.TempDir()
		}
		o.cache = filepath.Join(user, "moldau-compat")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	bad, err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(2)
	}
	if bad > 0 {
		fmt.Fprintf(os.Stderr, "compat: %d cells failed that are not in %s\n", bad, o.known)
		os.Exit(1)
	}
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// run starts the brokers, runs every row and writes the table. It returns how many cells failed that are not known to fail.
func run(ctx context.Context, o options) (int, error) {
	known, err := readKnown(o.known)
	if err != nil {
		return 0, err
	}
	names, err := clientNames(o)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "moldau-compat-")
	if err != nil {
		return 0, err
	}
	if o.keep {
		fmt.Println("logs and data are kept in", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	c, err := startCluster(ctx, o.bin, dir, brokers, 0)
	if err != nil {
		return 0, err
	}
	defer c.stop()
	second := &secondCluster{bin: o.bin, dir: dir}
	defer second.stop()
	t := &table{known: known}
	for _, name := range names {
		r := &runner{name: name, dir: filepath.Join(o.clients, name), logs: dir, cache: o.cache, cluster: c, second: second, prefix: fmt.Sprintf("%s-%d-", name, time.Now().Unix()%1_000_000)}
		for _, result := range r.row(ctx, func(capability string) bool { return len(o.caps) == 0 || slices.Contains(o.caps, capability) }) {
			t.add(result)
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
	fmt.Println()
	fmt.Print(t.markdown())
	if o.out != "" {
		if err := os.WriteFile(o.out, []byte(t.markdown()), 0o644); err != nil {
			return 0, err
		}
	}
	return t.bad(), nil
}

// clientNames are the folders with a run.sh, or those of them that were asked for.
func clientNames(o options) ([]string, error) {
	scripts, err := filepath.Glob(filepath.Join(o.clients, "*", "run.sh"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range scripts {
		names = append(names, filepath.Base(filepath.Dir(s)))
	}
	for _, name := range o.only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no client %q: %s", name, strings.Join(names, " "))
		}
	}
	if len(o.only) > 0 {
		return o.only, nil
	}
	return names, nil
}
