//go:build linux

package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Tools are the programs that the rig calls, and the Debian packages that have them.
var tools = []struct{ program, pkg string }{
	{"ip", "iproute2"}, {"mount", "mount"}, {"mkfs.ext4", "e2fsprogs"}, {"mkfs.xfs", "xfsprogs"}, {"strace", "strace"},
}

// Missing says what this machine lacks, one sentence each: required things end the run, of the optional ones the program's name is given in lacks.
func Missing() (required []string, lacks map[string]bool) {
	lacks = map[string]bool{}
	if os.Geteuid() != 0 {
		required = append(required, "it must run as root: it makes network namespaces and mounts file systems")
	}
	for _, t := range tools {
		if _, err := exec.LookPath(t.program); err == nil {
			continue
		}
		switch t.program {
		case "ip", "mount":
			required = append(required, fmt.Sprintf("program %s is missing (package %s)", t.program, t.pkg))
		default:
			lacks[t.program] = true
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		lacks["loop"] = true
	}
	if lacks["mkfs.ext4"] && lacks["mkfs.xfs"] {
		lacks["loop"] = true
	}
	return required, lacks
}

// Isolate runs a command as the first process of network, mount and process namespaces of its own, and returns when it has ended; stop is closed to end it in
// an orderly way. The command dies with this process.
func Isolate(cmd *exec.Cmd, stop <-chan struct{}) (int, error) {
	runtime.LockOSThread() // the child dies with the thread that started it
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // a terminal's ^C reaches it through stop alone
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("rig: start in new namespaces: %w", err)
	}
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-stop:
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		case <-ended:
		}
	}()
	err := cmd.Wait()
	close(ended)
	<-watched
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("rig: wait: %w", err)
	}
	return cmd.ProcessState.ExitCode(), nil
}

// Enter prepares the namespaces that Isolate made: mounts do not propagate, /proc shows the new processes, and /run is empty, so that nothing that tools note there
// is seen outside.
func Enter() error {
	if os.Getpid() != 1 {
		return errors.New("rig: not the first process of a namespace")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("rig: make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("rig: mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("rig: mount /run: %w", err)
	}
	return run("ip", "link", "set", "lo", "up")
}

// run executes a tool; its output is in the error.
func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("rig: %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
