package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// reporting is a session that is asked for its heartbeats at the time now.
func reporting(now *time.Duration) *Session {
	c := &Controller{ports: Ports{Now: func() time.Duration { return *now }}}
	return c.NewSession(SessionEvents{Handled: func() uint64 { return 0 }})
}

// TestOfflineReplicasAreReportedNowAndThen: a controller that was told may have lost its leadership before it acted, and its successor knows of nothing.
func TestOfflineReplicasAreReportedNowAndThen(t *testing.T) {
	a, b := cluster.TopicPartition{Topic: cluster.TopicID{1}}, cluster.TopicPartition{Topic: cluster.TopicID{2}}
	now := time.Hour
	s := reporting(&now)
	s.request()
	s.ReportOffline(a)
	s.ReportOffline(b)
	both := []cluster.TopicPartition{a, b}
	for round := range 3 {
		if got := s.request().Offline; !slices.Equal(got, both) {
			t.Fatalf("round %d: %v is reported offline, want %v", round, got, both)
		}
		now += repeatOffline - 1
		if got := s.request().Offline; len(got) > 0 {
			t.Fatalf("round %d: %v is reported again too soon", round, got)
		}
		now++
	}
	s.ReportOnline(a)
	if got := s.request(); !slices.Equal(got.Offline, both[1:]) || !slices.Equal(got.Online, both[:1]) {
		t.Errorf("when one works again: %+v", got)
	}
	now += repeatOffline
	if got := s.request(); !slices.Equal(got.Offline, both[1:]) || len(got.Online) > 0 {
		t.Errorf("later: %+v", got)
	}
	s.ReportOnline(b)
	now += repeatOffline
	if got := s.request(); len(got.Offline) > 0 {
		t.Errorf("when both work: %+v", got)
	}
}

// TestReportsOfAReplicaKeepTheirOrder: what is true now is told, whichever heartbeat is answered.
func TestReportsOfAReplicaKeepTheirOrder(t *testing.T) {
	a, b := cluster.TopicPartition{Topic: cluster.TopicID{1}}, cluster.TopicPartition{Topic: cluster.TopicID{2}}
	offline, online := func(s *Session, tp cluster.TopicPartition) { s.ReportOffline(tp) }, (*Session).ReportOnline
	for name, c := range map[string]struct {
		before, lost, after func(*Session, cluster.TopicPartition)
		offline, online     []cluster.TopicPartition
	}{
		"offline":                                 {before: offline, offline: []cluster.TopicPartition{a, b}},
		"online":                                  {before: online, online: []cluster.TopicPartition{a, b}},
		"offline, online":                         {before: offline, after: online, online: []cluster.TopicPartition{a, b}},
		"online, offline":                         {before: online, after: offline, offline: []cluster.TopicPartition{a, b}},
		"offline in a heartbeat that was lost":    {lost: offline, offline: []cluster.TopicPartition{a, b}},
		"online in a heartbeat that was lost":     {lost: online, online: []cluster.TopicPartition{a, b}},
		"offline in one that was lost, online":    {lost: offline, after: online, online: []cluster.TopicPartition{a, b}},
		"online in one that was lost, offline":    {lost: online, after: offline, offline: []cluster.TopicPartition{a, b}},
		"offline twice, once in one that is lost": {lost: offline, after: offline, offline: []cluster.TopicPartition{a, b}},
	} {
		s := reporting(new(time.Duration))
		both := func(report func(*Session, cluster.TopicPartition)) {
			if report != nil {
				report(s, a)
				report(s, b)
			}
		}
		both(c.lost)
		request := s.request()
		both(c.before)
		both(c.after)
		s.restore(request)
		got := s.request()
		if !slices.Equal(got.Offline, c.offline) || !slices.Equal(got.Online, c.online) {
			t.Errorf("%s: a heartbeat reports %v offline and %v online", name, got.Offline, got.Online)
		}
		if again := s.request(); len(again.Offline)+len(again.Online) > 0 {
			t.Errorf("%s: what was told is told again: %+v", name, again)
		}
	}
}

// BenchmarkReportOffline is a disk that fails as a whole: each of its replicas is reported, told, told again because the heartbeat was lost, and taken back. The time for one replica must not
// depend on how many there are.
func BenchmarkReportOffline(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s := reporting(new(time.Duration))
				for i := range n {
					s.ReportOffline(cluster.TopicPartition{Partition: int32(i)})
				}
				s.restore(s.request())
				if got := s.request().Offline; len(got) != n {
					b.Fatalf("%d replicas are reported, want %d", len(got), n)
				}
				for i := range n {
					s.ReportOnline(cluster.TopicPartition{Partition: int32(i)})
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/replica")
		})
	}
}
