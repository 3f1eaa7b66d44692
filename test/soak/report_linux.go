package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/moldau-log/moldau/test/soak/plan"
)

// maxFindings bounds how many different findings are told apart.
const maxFindings = 100

// report gathers what a run has to say.
type report struct {
	s *soak

	mu        sync.Mutex // guards what follows
	findings  []string   // each once, in the order in which they came
	times     map[string]int
	families  map[plan.Family]int
	left      map[plan.Family]int
	ends      int // brokers that ended by themselves because of a fault of their disk
	healed    time.Duration
	settles   int
	slowest   time.Duration
	unsettled int
	onDisk    int
	rssMax    int64
	checked   string
}

func newReport(s *soak) *report {
	return &report{s: s, times: map[string]int{}, families: map[plan.Family]int{}, left: map[plan.Family]int{}}
}

// fail notes a finding: something that must not be.
func (r *report) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.s.say("FOUND: %s", text)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times[text] == 0 && len(r.findings) >= maxFindings {
		text = "more findings"
	}
	if r.times[text] == 0 {
		r.findings = append(r.findings, text)
	}
	r.times[text]++
}

func (r *report) found() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.findings) > 0
}

func (r *report) made(f plan.Family) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.families[f]++
}

func (r *report) skipped(f plan.Family) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[f]++
}

func (r *report) settled(took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settles++
	r.slowest = max(r.slowest, took)
	if err != nil {
		r.unsettled++
	}
}

// ended notes a broker that has ended without having been told to.
func (r *report) ended(n *node, excused bool) {
	if !excused {
		r.fail("broker %d ended by itself, exit code %d", n.ID, n.Exit())
		return
	}
	r.s.say("  broker %d has ended, exit code %d", n.ID, n.Exit())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends++
}

func (r *report) rss(n *node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rssMax = max(r.rssMax, n.RSS())
}

// alarms are what never stands in the log of a broker that works as it should.
var alarms = []string{"panic: ", "fatal error: ", "invariant ", "DATA RACE"}

// maxLogLine bounds a line of a broker's log, in bytes: a flight record is long.
const maxLogLine = 4 << 20

// readLog looks for alarms in what a broker has written in all its lives.
func (r *report) readLog(n *node) {
	f, err := os.Open(n.Log)
	if err != nil {
		r.fail("%v", err)
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLogLine)
	for lines.Scan() {
		for _, a := range alarms {
			if strings.Contains(lines.Text(), a) {
				r.fail("broker %d writes: %.300s", n.ID, lines.Text())
				break
			}
		}
	}
	if err := lines.Err(); err != nil {
		r.fail("broker %d: read its log: %v", n.ID, err)
	}
}

// print writes the summary and gives the exit code.
func (r *report) print() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Printf("\n--- soak: seed %d, %v of faults, %v in all, %d brokers on %s\n", r.s.seed, r.s.duration, time.Since(r.s.started).Truncate(time.Second), r.s.brokers, r.s.fs)
	fmt.Println("faults:")
	for _, f := range plan.All() {
		if r.families[f]+r.left[f] > 0 {
			fmt.Printf("  %-18s %4d", f, r.families[f])
			if r.left[f] > 0 {
				fmt.Printf("   (%d left out: not all replicas were in sync)", r.left[f])
			}
			fmt.Println()
		}
	}
	if r.s.load != nil {
		fmt.Println("clients:")
		for _, line := range r.s.load.Counts.Lines() {
			fmt.Println(" ", line)
		}
		p, gap := r.s.load.Counts.LongestGap()
		fmt.Printf("acknowledged: %d records; longest time without one on a partition: %v (%s)\n", r.s.load.Counts.Acknowledged(), gap.Truncate(time.Millisecond), p)
	}
	fmt.Printf("health: %v after the last fault; between steps %d times waited for, at most %v, %d times in vain\n", r.healed.Truncate(time.Millisecond), r.settles, r.slowest.Truncate(time.Millisecond), r.unsettled)
	fmt.Printf("records on disks at the end: %d; brokers that ended because of their disk: %d; largest resident size: %d MiB\n", r.onDisk, r.ends, r.rssMax>>20)
	fmt.Print(r.checked)
	fmt.Printf("findings: %d\n", len(r.findings))
	for _, f := range r.findings {
		fmt.Printf("  %s (%d times)\n", f, r.times[f])
	}
	if len(r.findings) > 0 {
		return exitFound
	}
	return exitClean
}
