package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/moldau-log/moldau/internal/history"
	"github.com/moldau-log/moldau/test/soak/load"
	"github.com/moldau-log/moldau/test/soak/plan"
	"github.com/moldau-log/moldau/test/soak/rig"
)

// Bounds of what comes beside the faults.
const (
	formPatience = 60 * time.Second  // until new brokers are a healthy cluster
	healPatience = 120 * time.Second // until everything is in service after the last fault
	catchUp      = 60 * time.Second  // for consumers to come to the end
)

// soak is a run in the making.
type soak struct {
	options
	ctx      context.Context
	started  time.Time
	families []plan.Family
	cluster  *cluster
	rec      *recorder
	topics   *load.Topics
	load     *load.Load
	report   *report
}

// inside does the work, in the process that is the first of its namespaces.
func inside(o options) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	s := &soak{options: o, ctx: ctx, started: time.Now(), topics: load.NewTopics()}
	s.report = newReport(s)
	if err := s.run(); err != nil && ctx.Err() == nil {
		s.report.fail("the run failed: %v", err)
	}
	if s.cluster != nil {
		s.cluster.close()
	}
	if ctx.Err() != nil {
		fmt.Println("soak: interrupted")
	}
	if ctx.Err() != nil && !s.report.found() {
		return exitInterrupted
	}
	code := s.report.print()
	if s.cluster != nil && (code != exitClean || o.keep) {
		if err := s.cluster.preserve(); err != nil {
			fmt.Println("soak:", err)
		}
	}
	return code
}

func (s *soak) historyFile() string { return filepath.Join(s.inside, "history.jsonl") }

// say tells how the run goes on.
func (s *soak) say(format string, args ...any) {
	fmt.Printf("%8s  %s\n", time.Since(s.started).Truncate(100*time.Millisecond), fmt.Sprintf(format, args...))
}

func (s *soak) run() error {
	families, _, err := plan.Select(s.faults, nil)
	if err != nil {
		return err
	}
	s.families = families
	if s.rec, err = newRecorder(s.historyFile()); err != nil {
		return err
	}
	defer s.rec.close()
	if err := rig.Enter(); err != nil {
		return err
	}
	if s.cluster, err = newCluster(s); err != nil {
		return err
	}
	if err := s.form(); err != nil {
		return err
	}
	s.startLoad()
	n := newNemesis(s)
	n.run(s.ctx)
	err = s.finish()
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	return err
}

// form starts the brokers and makes the topics.
func (s *soak) form() error {
	if err := s.cluster.start(); err != nil {
		return err
	}
	if _, err := s.cluster.awaitHealthy(s.ctx, formPatience); err != nil {
		return fmt.Errorf("soak: a new cluster: %w", err)
	}
	return s.createTopics()
}

// finish heals, lets the clients come to the end, reads everything from everywhere and has it checked.
func (s *soak) finish() error {
	if s.ctx.Err() != nil {
		s.load.Stop()
		return s.ctx.Err()
	}
	s.say("faults are over: healing")
	took, err := s.cluster.awaitHealthy(s.ctx, healPatience)
	s.report.healed = took
	if err != nil {
		s.report.fail("not healthy %v after the last fault: %v", healPatience, err)
	}
	s.load.Stop()
	s.say("clients have stopped: %d records acknowledged", s.load.Counts.Acknowledged())
	if n := s.load.Counts.Losses(); n > 0 {
		s.report.fail("consumers were told %d times that records which they had read are gone", n)
	}
	if err := s.drain(); err != nil {
		s.report.fail("drain: %v", err)
	}
	return errors.Join(s.readDisks(), s.check())
}

// recorder writes the history, and keeps its first error for the report.
type recorder struct{ w *history.Writer }

func newRecorder(path string) (*recorder, error) {
	w, err := history.Create(path)
	return &recorder{w}, err
}

// Write implements load.Recorder. Its error stays in the writer until close.
func (r *recorder) Write(e history.Event) { _ = r.w.Write(&e) }

func (r *recorder) close() error { return r.w.Close() }
