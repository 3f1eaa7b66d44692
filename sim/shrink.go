package sim

import (
	"slices"
	"strings"
	"time"
)

// Shrunk is a history that breaks the same invariant with less in it.
type Shrunk struct {
	Options Options
	Result  Result
	Runs    int // histories that were played on the way
}

// Shrink looks for smaller options that break the same invariant as found, which Run(opts) gave. It plays at most limit histories, and none after enough
// says so. Smaller is: a shorter time of faults, fewer kinds of faults and clients, the smallest cluster, fewer single faults.
func Shrink(opts Options, found Result, limit int, enough func() bool) Shrunk {
	s := &shrinker{best: Shrunk{Options: opts, Result: found}, class: violationClass(found.Violation), limit: limit, enough: enough}
	if s.class == "" {
		return s.best
	}
	s.shorten()
	s.leaveOutKinds()
	s.smallerCluster()
	s.leaveOutFaults()
	return s.best
}

type shrinker struct {
	best   Shrunk
	class  string
	limit  int
	enough func() bool
}

// violationClass is the invariant that a violation names: two histories with the same one are taken for the same finding.
func violationClass(violation string) string {
	head, _, found := strings.Cut(violation, ":")
	if !found || len(head) > 40 {
		return violation[:min(len(violation), 40)]
	}
	return head
}

func (s *shrinker) done() bool { return s.best.Runs >= s.limit || s.enough() }

// try plays a candidate and keeps it when it breaks the same invariant.
func (s *shrinker) try(o Options) bool {
	if s.done() {
		return false
	}
	s.best.Runs++
	r := Run(o)
	if violationClass(r.Violation) != s.class {
		return false
	}
	s.best.Options, s.best.Result = o, r
	return true
}

// shorten ends the faults right after the last one that can matter, and then earlier by halves.
func (s *shrinker) shorten() {
	for _, part := range []time.Duration{2, 4, 8} {
		o := s.best.Options
		o.FaultTime = (faultTime / part).Round(time.Millisecond)
		if s.best.Options.FaultTime > 0 && o.FaultTime >= s.best.Options.FaultTime || !s.try(o) {
			return
		}
	}
}

// happened lists the numbers of the faults that did happen.
func (s *shrinker) happened() []int {
	var out []int
	for i, f := range s.best.Result.Faults {
		if !f.LeftOut {
			out = append(out, i)
		}
	}
	return out
}

// leaveOutKinds tries to do without each part of the workload and each kind of fault that happened.
func (s *shrinker) leaveOutKinds() {
	names := workloadParts()
	for _, i := range s.happened() {
		if kind := s.best.Result.Faults[i].Kind; !slices.Contains(names, kind) {
			names = append(names, kind)
		}
	}
	for _, name := range names {
		if s.best.Options.without(name) {
			continue
		}
		o := s.best.Options
		o.Without = append(slices.Clone(o.Without), name)
		s.try(o)
	}
}

func (s *shrinker) smallerCluster() {
	o := s.best.Options
	if o.Partitions = 1; s.best.Options.Partitions != 1 {
		s.try(o)
	}
	o = s.best.Options
	if o.Brokers = replicationFactor; s.best.Options.Brokers != replicationFactor {
		s.try(o)
	}
}

// leaveOutFaults is delta debugging over the faults that happened: it tries to do without ever smaller parts of them.
func (s *shrinker) leaveOutFaults() {
	for size := len(s.happened()); size >= 1 && !s.done(); size /= 2 {
		for from := 0; ; {
			left := s.happened()
			if from >= len(left) {
				break
			}
			o := s.best.Options
			o.Skip = append(slices.Clone(o.Skip), left[from:min(from+size, len(left))]...)
			slices.Sort(o.Skip)
			if !s.try(o) {
				from += size
			}
			if s.done() {
				return
			}
		}
	}
}
