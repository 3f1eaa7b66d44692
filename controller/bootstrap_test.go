package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// answerOf builds what broker id answers from a text: "empty", "running" (empty, and runs Raft), "old" (bootstrapped, no leader), "named" (of cluster A, no leader), "led" (of cluster A, leader known),
// "other" (of cluster B, leader known).
func answerOf(id int, text string) BootstrapAnswer {
	a := BootstrapAnswer{
		Address: fmt.Sprintf("b%d:1", id),
		ProbeResponse: ProbeResponse{
			Broker: cluster.BrokerID(id), Directory: cluster.DirectoryID{byte(id + 1)}, BootstrapExpect: 3,
		},
	}
	switch text {
	case "running":
		a.RaftRuns = true
	case "old":
		a.Bootstrapped = true
	case "named":
		a.Bootstrapped, a.Cluster = true, cluster.ClusterID{0xA}
	case "led":
		a.Bootstrapped, a.Cluster, a.LeaderAddress, a.LeaderServer = true, cluster.ClusterID{0xA}, "b9:1", "9-x"
	case "other":
		a.Bootstrapped, a.Cluster, a.LeaderAddress, a.LeaderServer = true, cluster.ClusterID{0xB}, "b8:1", "8-x"
	}
	return a
}

func TestBootstrapPlan(t *testing.T) {
	t.Parallel()
	self := func(id int) BootstrapSelf {
		return BootstrapSelf{Broker: cluster.BrokerID(id), Directory: cluster.DirectoryID{byte(id + 1)}, Expect: 3, HasSeeds: true}
	}
	with := func(s BootstrapSelf, f func(*BootstrapSelf)) BootstrapSelf { f(&s); return s }
	member := func(id cluster.ClusterID, state bool) func(*BootstrapSelf) {
		return func(s *BootstrapSelf) { s.Cluster, s.HasState = id, state }
	}
	a, b := cluster.ClusterID{0xA}, cluster.ClusterID{0xB}
	for name, tc := range map[string]struct {
		self    BootstrapSelf
		answers []BootstrapAnswer
		want    BootstrapStep
		reason  string // part of it
	}{
		"alone, id 0":             {with(self(0), func(s *BootstrapSelf) { s.Expect, s.HasSeeds = 1, false }), nil, BootstrapForm, ""},
		"alone, id 2":             {with(self(2), func(s *BootstrapSelf) { s.Expect, s.HasSeeds = 1, false }), nil, BootstrapRefuse, "no seeds"},
		"nobody answers":          {self(0), nil, BootstrapWait, "broker 1, 2 of the 3"},
		"one is missing":          {self(0), []BootstrapAnswer{answerOf(0, "empty"), answerOf(1, "empty")}, BootstrapWait, "broker 2 of the 3"},
		"all there, lowest":       {self(0), []BootstrapAnswer{answerOf(2, "empty"), answerOf(0, "empty"), answerOf(1, "empty")}, BootstrapWait, "about to start"},
		"all there, one can vote": {self(0), []BootstrapAnswer{answerOf(2, "running"), answerOf(0, "empty"), answerOf(1, "empty")}, BootstrapForm, ""},
		"all there, not lowest":   {self(1), []BootstrapAnswer{answerOf(0, "empty"), answerOf(2, "empty")}, BootstrapStart, ""},
		"0 has formed":            {self(1), []BootstrapAnswer{answerOf(0, "old")}, BootstrapStart, ""},
		"cluster without leader":  {self(1), []BootstrapAnswer{answerOf(0, "named"), answerOf(2, "named")}, BootstrapWait, "no seed knows"},
		"0 was wiped":             {self(0), []BootstrapAnswer{answerOf(1, "named"), answerOf(2, "named")}, BootstrapWait, "no seed knows"},
		"0 was wiped, led":        {self(0), []BootstrapAnswer{answerOf(1, "led"), answerOf(2, "named")}, BootstrapJoin, ""},
		"outside, not formed":     {self(4), []BootstrapAnswer{answerOf(0, "empty"), answerOf(1, "empty"), answerOf(2, "empty")}, BootstrapWait, "0 to 2"},
		"outside, no leader":      {self(4), []BootstrapAnswer{answerOf(0, "old")}, BootstrapWait, "no seed knows"},
		"outside, led":            {self(4), []BootstrapAnswer{answerOf(0, "led")}, BootstrapJoin, ""},
		"other expectation":       {with(self(0), func(s *BootstrapSelf) { s.Expect = 2 }), []BootstrapAnswer{answerOf(1, "empty")}, BootstrapWait, "must be the same"},
		"id twice":                {self(1), []BootstrapAnswer{answerOf(0, "empty"), {Address: "x:1", ProbeResponse: ProbeResponse{Broker: 1}}}, BootstrapRefuse, "id 1 too"},
		"id twice elsewhere":      {self(0), []BootstrapAnswer{answerOf(1, "empty"), {Address: "x:1", ProbeResponse: ProbeResponse{Broker: 1}}}, BootstrapWait, "both have id 1"},
		"restart":                 {with(self(0), member(a, true)), nil, BootstrapStart, ""},
		"restart, leader known":   {with(self(0), member(a, true)), []BootstrapAnswer{answerOf(1, "led")}, BootstrapJoin, ""},
		"case 45: other cluster":  {with(self(0), member(a, true)), []BootstrapAnswer{answerOf(1, "other")}, BootstrapRefuse, "belongs to cluster " + a.String()},
		"case 45: two clusters":   {self(4), []BootstrapAnswer{answerOf(0, "led"), answerOf(1, "other")}, BootstrapWait, "different clusters"},
		"Raft files are gone":     {with(self(0), member(b, false)), []BootstrapAnswer{answerOf(1, "empty"), answerOf(2, "empty")}, BootstrapRefuse, "files are gone"},
		"forgotten, no leader":    {with(self(0), func(s *BootstrapSelf) { s.Cluster, s.MayRejoin = a, true }), []BootstrapAnswer{answerOf(1, "empty"), answerOf(2, "empty")}, BootstrapWait, "no seed knows"},
		"forgotten, leader known": {with(self(0), func(s *BootstrapSelf) { s.Cluster, s.MayRejoin = a, true }), []BootstrapAnswer{answerOf(1, "led")}, BootstrapJoin, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := BootstrapPlan(tc.self, tc.answers)
			if got.Step != tc.want || !strings.Contains(got.Reason, tc.reason) {
				t.Errorf("got %s (%s), want %s (%s)", got.Step, got.Reason, tc.want, tc.reason)
			}
			if (got.Step == BootstrapJoin) != (got.Leader.Address != "") {
				t.Errorf("leader %+v", got.Leader)
			}
		})
	}
}

func TestFirstConfiguration(t *testing.T) {
	t.Parallel()
	for expect, voting := range map[int]int{1: 1, 2: 1, 3: 3, 4: 3, 5: 5, 6: 5} {
		var members []BootstrapAnswer
		for id := 1; id < expect; id++ {
			members = append(members, answerOf(id, "empty"))
		}
		configuration := firstConfiguration(BootstrapSelf{Directory: cluster.DirectoryID{1}}, "b0:1", members)
		if len(configuration.Servers) != expect || voters(configuration) != voting {
			t.Errorf("expect %d: %d servers, %d voters", expect, len(configuration.Servers), voters(configuration))
		}
		for i, s := range configuration.Servers {
			want := raft.ServerAddress(fmt.Sprintf("%s@b%d:1", s.ID, i))
			if s.Address != want || (s.Suffrage == raft.Voter) != (i < voting) {
				t.Errorf("expect %d: server %d is %+v", expect, i, s)
			}
		}
	}
}

func TestServerIDsRoundTrip(t *testing.T) {
	t.Parallel()
	dir := newUUID()
	broker, got, err := parseServerID(serverID(17, dir))
	if err != nil || broker != 17 || got != dir {
		t.Errorf("%d %s %v", broker, got, err)
	}
	to := splitServerAddress(serverAddress(serverID(17, dir), "host:1"))
	if to.Address != "host:1" || to.Server != string(serverID(17, dir)) {
		t.Errorf("%+v", to)
	}
	for _, bad := range []raft.ServerID{"", "17", "x-" + raft.ServerID(dir.String()), "17-short"} {
		if _, _, err := parseServerID(bad); err == nil {
			t.Errorf("%q parses", bad)
		}
	}
}

func TestCase146_FiveBrokersOneWithoutSeeds(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 5)
	for _, b := range brokers {
		b.cfg.BootstrapExpect = 3
	}
	odd := brokers[4]
	odd.cfg.Seeds, odd.cfg.BootstrapExpect = nil, 0
	for _, id := range []int{4, 3, 2, 0, 1} {
		brokers[id].start()
	}
	id := formed(t, brokers[:4]...)
	var refusal *RefusedError
	if err := odd.failure(); !errors.As(err, &refusal) || !strings.Contains(err.Error(), "no seeds") {
		t.Errorf("the odd broker: %v", err)
	}
	odd.stop()
	odd.cfg.Seeds, odd.cfg.BootstrapExpect = brokers[0].cfg.Seeds, 3
	odd.start()
	if got := formed(t, odd); got != id {
		t.Errorf("the odd broker joined %s, not %s", got, id)
	}
}

func TestCase146_TheOddOneIsBrokerZero(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	brokers[0].cfg.Seeds, brokers[0].cfg.BootstrapExpect = nil, 0
	startAll(brokers)
	formed(t, brokers...) // it formed alone, and the others, who name it as a seed, joined: one cluster
}

func TestCase45_BrokerOfAnotherClusterIsRefused(t *testing.T) {
	t.Parallel()
	network, brokers := testCluster(t, 3)
	startAll(brokers)
	formed(t, brokers...)
	stranger := newTestBroker(t, network, 7)
	stranger.cfg.Address = "stranger:9093"
	stranger.cfg.Seeds, stranger.cfg.BootstrapExpect = brokers[0].cfg.Seeds, 3
	stranger.cfg.Cluster = newUUID() // its directory remembers another cluster
	if err := stranger.open(); err != nil {
		t.Fatal(err)
	}
	response, err := stranger.host.Call(withPatience(t), Endpoint{Address: leaderOf(t, brokers...).cfg.Address}, JoinRequest{
		Broker: 7, Directory: stranger.cfg.Directory, Address: stranger.cfg.Address, Cluster: stranger.cfg.Cluster,
	})
	if answer, ok := response.(JoinResponse); err != nil || !ok || answer.Code != cluster.CodeWrongCluster {
		t.Errorf("the controller answers %+v, %v", response, err)
	}
	stranger.c.Start()
	var refusal *RefusedError
	if err := stranger.failure(); !errors.As(err, &refusal) {
		t.Errorf("the stranger: %v", err)
	}
}
