package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"time"
)

// options are what a user may set.
type options struct {
	bin      string
	duration time.Duration
	seed     uint64
	brokers  int
	fs       string
	named    bool // -fs was given: nothing else will do
	faults   string
	rate     int
	dir      string
	keep     bool
	inside   string // the run's directory: set in the process that does the work
}

// diskSize is the size of a broker's disk in bytes; the files are sparse.
const diskSize = 1 << 30

// Bounds of what may be asked for.
const (
	maxBrokers = 7
	maxRate    = 5000
)

func parse(args []string, out io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.StringVar(&o.bin, "bin", "bin", "directory of the built programs")
	fs.DurationVar(&o.duration, "duration", time.Minute, "how long faults are made; healing, draining and checking come on top, and are bounded")
	fs.Uint64Var(&o.seed, "seed", 1, "what the faults, the kind of disk and the number of brokers are drawn from")
	fs.IntVar(&o.brokers, "brokers", 0, "number of brokers; 0: 3, or 5 for every fourth seed")
	fs.StringVar(&o.fs, "fs", "auto", "file system of the brokers' disks: ext4, xfs, none (a plain directory, no power cuts), auto (by the seed)")
	fs.StringVar(&o.faults, "faults", "", "families of faults, with commas; empty: all that this machine can do. A family that is named and cannot be done is an error")
	fs.IntVar(&o.rate, "rate", 150, "records that all producers together send in a second")
	fs.StringVar(&o.dir, "dir", "", "where the run's directory is made; empty: the system's directory for temporary files")
	fs.BoolVar(&o.keep, "keep", false, "keep the run's directory even when nothing was found")
	fs.StringVar(&o.inside, "inside", "", "for the program's own use")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("soak: unexpected argument %q", fs.Arg(0))
	}
	if o.brokers == 0 {
		o.brokers = 3
		if o.seed%4 == 0 {
			o.brokers = 5
		}
	}
	if o.named = o.fs != "auto"; !o.named {
		o.fs = []string{"ext4", "xfs"}[o.seed%2]
	}
	var err error
	o.bin, err = filepath.Abs(o.bin)
	return o, errors.Join(err, o.validate())
}

func (o options) validate() error {
	switch {
	case o.brokers < 3 || o.brokers > maxBrokers:
		return fmt.Errorf("soak: %d brokers: 3 to %d are possible", o.brokers, maxBrokers)
	case o.rate < 10 || o.rate > maxRate:
		return fmt.Errorf("soak: a rate of %d: 10 to %d are possible", o.rate, maxRate)
	case o.duration <= 0:
		return fmt.Errorf("soak: a duration of %v", o.duration)
	case o.fs != "ext4" && o.fs != "xfs" && o.fs != "none":
		return fmt.Errorf("soak: %q is no file system of the rig: ext4, xfs, none", o.fs)
	}
	return nil
}

// again is the command that repeats the run.
func (o options) again() string {
	s := fmt.Sprintf("make soak DURATION=%v SEED=%d", o.duration, o.seed)
	if o.faults != "" {
		s += " FAULTS=" + o.faults
	}
	return s + fmt.Sprintf(" SOAK_FLAGS='-brokers %d -fs %s -rate %d'", o.brokers, o.fs, o.rate)
}
