package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

func TestAloneBrokerFormsItsOwnCluster(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 1)
	start := time.Now()
	b := brokers[0].start()
	id := formed(t, b)
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
	b.setConfig("retention.ms", "1000")
	b.stop()
	b.start()
	if again := formed(t, b); again != id {
		t.Errorf("cluster id %s after restart, %s before", again, id)
	}
	b.until("the change made before the restart", func(*cluster.Image) bool { return b.config("retention.ms") == "1000" })
}

func TestThreeBrokersForm(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			_, brokers := testCluster(t, 3)
			start := time.Now()
			for _, id := range order {
				brokers[id].start()
			}
			formed(t, brokers...)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			leader := leaderOf(t, brokers...)
			follower := others(brokers, leader)[0]
			result := follower.setConfig("retention.ms", "7")
			if got := follower.config("retention.ms"); got != "7" {
				t.Errorf("the proposing follower reads %q right after its answer", got)
			}
			for _, b := range brokers {
				if err := b.c.WaitApplied(withPatience(t), result.Index); err != nil {
					t.Fatal(err)
				}
				if got := b.config("retention.ms"); got != "7" {
					t.Errorf("broker %d reads %q", b.cfg.Broker, got)
				}
			}
		})
	}
}

// The first election does not wait for a timeout: with one of an hour the cluster forms all the same.
func TestFirstElectionDoesNotWait(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	for _, b := range brokers {
		b.cfg.RaftHeartbeat, b.cfg.RaftElection = time.Hour, time.Hour
	}
	startAll(brokers)
	formed(t, brokers...)
}

func TestKilledLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	startAll(brokers)
	formed(t, brokers...)
	leader := leaderOf(t, brokers...)
	rest := others(brokers, leader)
	rest[0].setConfig("retention.ms", "1")
	leader.stop()
	start := time.Now()
	rest[1].setConfig("retention.ms", "2")
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("proposals stood still for %v", took)
	}
	leader.start()
	leader.until("the change made while it was away", func(*cluster.Image) bool { return leader.config("retention.ms") == "2" })
}

func TestFullStopAndRestart(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	startAll(brokers)
	id := formed(t, brokers...)
	brokers[1].setConfig("retention.ms", "1")
	stopAll(brokers)
	for _, b := range brokers {
		b.cfg.Cluster = id
	}
	startAll(brokers)
	if again := formed(t, brokers...); again != id {
		t.Errorf("cluster id %s after restart, %s before", again, id)
	}
	brokers[2].setConfig("retention.ms", "2")
	for _, b := range brokers {
		b.until("the change", func(*cluster.Image) bool { return b.config("retention.ms") == "2" })
	}
}

// TestLeaderDiesWhileTheOthersStillForm ends the first controller before the others have left formation: they are members by then, not strangers whose files are gone.
func TestLeaderDiesWhileTheOthersStillForm(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	startAll(brokers)
	formed(t, brokers...)
	leader := leaderOf(t, brokers...)
	rest := others(brokers, leader)
	leader.stop()
	for _, b := range rest {
		self := b.c.bootstrapSelf()
		if !self.HasState || self.Cluster.IsZero() {
			t.Errorf("broker %d takes itself for %+v", b.cfg.Broker, self)
		}
		if d := BootstrapPlan(self, b.c.probe(withPatience(t))); d.Step == BootstrapRefuse {
			t.Errorf("broker %d would give up: %s", b.cfg.Broker, d.Reason)
		}
	}
	rest[0].setConfig("retention.ms", "1")
}
