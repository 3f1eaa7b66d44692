package controller

import (
	"slices"
	"testing"

	"github.com/moldau-log/moldau/cluster"
)

// TestReportsOfAReplicaKeepTheirOrder: what is true now is told, whichever heartbeat is answered.
func TestReportsOfAReplicaKeepTheirOrder(t *testing.T) {
	a, b := cluster.TopicPartition{Topic: cluster.TopicID{1}}, cluster.TopicPartition{Topic: cluster.TopicID{2}}
	offline, online := (*Session).ReportOffline, (*Session).ReportOnline
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
		s := (&Controller{}).NewSession(SessionEvents{Handled: func() uint64 { return 0 }})
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
