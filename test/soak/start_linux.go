package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/moldau-log/moldau/test/soak/plan"
	"github.com/moldau-log/moldau/test/soak/rig"
)

// stopGrace is how long the working process may take to end after a signal.
const stopGrace = 60 * time.Second

// start is the program, in either of its two processes.
func start(o options) int {
	if o.inside != "" {
		return inside(o)
	}
	families, ok := preflight(&o)
	if !ok {
		return exitCannot
	}
	dir, err := os.MkdirTemp(o.dir, fmt.Sprintf("moldau-soak-%d-", o.seed))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return exitCannot
	}
	fmt.Printf("soak: seed %d, %v, %d brokers on %s, %d families of faults, %s\n", o.seed, o.duration, o.brokers, o.fs, len(families), dir)
	code := watch(o, dir, families)
	switch {
	case code == exitInterrupted, code == exitClean && !o.keep:
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "soak:", err)
			return exitFound
		}
	case code != exitClean:
		fmt.Printf("soak: history, data and logs are kept in %s\nsoak: to repeat: %s\n", dir, o.again())
		return exitFound
	default:
		fmt.Printf("soak: kept in %s\n", dir)
	}
	return code
}

// preflight says what is missing and chooses the families of faults; ok is false when the run cannot be what was asked for.
func preflight(o *options) (families []plan.Family, ok bool) {
	required, lacks := rig.Missing()
	if _, err := os.Stat(filepath.Join(o.bin, "moldau")); err != nil {
		required = append(required, "there is no program "+filepath.Join(o.bin, "moldau")+": run make build")
	}
	for _, sentence := range required {
		fmt.Fprintln(os.Stderr, "soak:", sentence)
	}
	if len(required) > 0 {
		return nil, false
	}
	switch {
	case o.fs == "none":
		lacks[plan.NeedImages] = true
	case !lacks[plan.NeedImages] && lacks["mkfs."+o.fs] && o.named:
		fmt.Fprintf(os.Stderr, "soak: mkfs.%s is missing, and -fs asks for it\n", o.fs)
		return nil, false
	case !lacks[plan.NeedImages] && lacks["mkfs."+o.fs]:
		other := map[string]string{"ext4": "xfs", "xfs": "ext4"}[o.fs]
		fmt.Printf("soak: mkfs.%s is missing: the disks are %s\n", o.fs, other)
		o.fs = other
	case lacks[plan.NeedImages]:
		fmt.Println("soak: no image files can be mounted here: the disks are plain directories")
		o.fs = "none"
	}
	families, left, err := plan.Select(o.faults, lacks)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return nil, false
	}
	for _, f := range slices.Sorted(maps.Keys(left)) {
		fmt.Printf("soak: left out: %s, which needs %s\n", f, left[f])
	}
	if len(families) == 0 || (o.faults != "" && len(left) > 0) {
		fmt.Fprintln(os.Stderr, "soak: the families of faults that were asked for cannot be run here")
		return nil, false
	}
	return families, true
}

// watch starts the process that does the work, passes signals on to it, and gives its exit code; whatever kills it, or this process, ends everything it made.
func watch(o options, dir string, families []plan.Family) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return exitFound
	}
	var names []byte
	for i, f := range families {
		if i > 0 {
			names = append(names, ',')
		}
		names = append(names, f...)
	}
	cmd := exec.Command(self, "-inside", dir, "-bin", o.bin, "-duration", o.duration.String(), "-seed", strconv.FormatUint(o.seed, 10), "-brokers", strconv.Itoa(o.brokers),
		"-fs", o.fs, "-faults", string(names), "-rate", strconv.Itoa(o.rate), "-keep="+strconv.FormatBool(o.keep))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		select {
		case <-signals:
			close(stop)
		case <-ended:
			return
		}
		select {
		case <-signals:
		case <-time.After(stopGrace):
		case <-ended:
			return
		}
		_ = cmd.Process.Kill() // it may have ended in this moment
	}()
	code, err := rig.Isolate(cmd, stop)
	close(ended)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFound
	}
	select {
	case <-stop:
		if code != exitFound {
			return exitInterrupted
		}
	default:
	}
	return code
}
