package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// usage is what a process has used so far.
type usage struct {
	cpuSeconds float64
	peakBytes  int64 // of resident memory, since the process started; 0: unknown
}

// clockTick is the unit of CPU times in /proc, a constant of Linux's interface on every machine that Go runs on.
const clockTick = 100

func selfUsage() usage {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}
	}
	u := usage{cpuSeconds: seconds(r.Utime) + seconds(r.Stime)}
	u.peakBytes = processUsage(os.Getpid()).peakBytes
	return u
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

// processUsage reads /proc; a process that is gone, or a system without /proc, gives zeroes.
func processUsage(pid int) usage {
	var u usage
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		// The name of the program is in parentheses and may hold anything; 14 and 15 are user and system time, counted from 1.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 12 {
			user, _ := strconv.ParseInt(fields[11], 10, 64)
			system, _ := strconv.ParseInt(fields[12], 10, 64)
			u.cpuSeconds = float64(user+system) / clockTick
		}
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
				u.peakBytes = kib << 10
			}
		}
	}
	return u
}
