package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// members builds a view from a text: V or N per server in id order, followed by h (healthy, stable), y (healthy, young), d (dead for long), w (unhealthy for a
// moment), s (a dead stranger).
func members(t *testing.T, text ...string) []memberView {
	t.Helper()
	var out []memberView
	for i, s := range text {
		m := memberView{ID: raft.ServerID(fmt.Sprint(i)), Broker: cluster.BrokerID(i), Voter: s[0] == 'V', Registered: true}
		switch s[1] {
		case 'h':
			m.Healthy, m.Since = true, time.Minute
		case 'y':
			m.Healthy, m.Since = true, time.Second
		case 'd':
			m.Since = time.Hour
		case 'w':
			m.Since = time.Second
		case 's':
			m.Registered, m.Since = false, time.Hour
		default:
			t.Fatalf("bad member %q", s)
		}
		out = append(out, m)
	}
	return out
}

func TestPlanMembers(t *testing.T) {
	promote := func(id int) memberChange { return memberChange{Promote: raft.ServerID(fmt.Sprint(id))} }
	demote := func(id int) memberChange { return memberChange{Demote: raft.ServerID(fmt.Sprint(id))} }
	remove := func(id int) memberChange { return memberChange{Remove: raft.ServerID(fmt.Sprint(id))} }
	for name, tc := range map[string]struct {
		brokers int
		self    int
		members []string
		want    memberChange
	}{
		"alone":                          {1, 0, []string{"Vh"}, memberChange{}},
		"two brokers, one votes":         {2, 0, []string{"Vh", "Nh"}, memberChange{}},
		"third broker young":             {3, 0, []string{"Vh", "Nh", "Ny"}, memberChange{}},
		"third broker stable":            {3, 0, []string{"Vh", "Nh", "Nh"}, promote(1)},
		"second promotion follows":       {3, 0, []string{"Vh", "Vh", "Nh"}, promote(2)},
		"settled at three":               {4, 0, []string{"Vh", "Vh", "Vh", "Nh"}, memberChange{}},
		"five brokers":                   {5, 0, []string{"Vh", "Vh", "Vh", "Nh", "Nh"}, promote(3)},
		"five brokers, one dead":         {5, 0, []string{"Vh", "Vh", "Vh", "Nh", "Nd"}, memberChange{}},
		"dead voter loses its vote":      {4, 0, []string{"Vh", "Vd", "Vh", "Nh"}, demote(1)},
		"and another is promoted":        {4, 0, []string{"Vh", "Nd", "Vh", "Nh"}, promote(3)},
		"dead voter without replacement": {3, 0, []string{"Vh", "Vd", "Vh"}, memberChange{}},
		"voter away for a moment":        {4, 0, []string{"Vh", "Vw", "Vh", "Nh"}, memberChange{}},
		"no demotion without majority":   {5, 0, []string{"Vh", "Vd", "Vd", "Nh", "Nh"}, memberChange{}},
		"too many voters":                {2, 0, []string{"Vh", "Vh", "Vh"}, demote(2)},
		"never the leader":               {2, 2, []string{"Vh", "Vh", "Vh"}, demote(1)},
		"from two to one":                {2, 0, []string{"Vh", "Vh"}, demote(1)},
		"surplus, dead first":            {4, 0, []string{"Vh", "Vd", "Vh", "Vh"}, demote(1)},
		"surplus kept if needed":         {2, 0, []string{"Vh", "Vw", "Vh"}, memberChange{}},
		"stranger goes":                  {1, 0, []string{"Vh", "Ns"}, remove(1)},
		"voting stranger stays":          {3, 0, []string{"Vh", "Vh", "Vs"}, memberChange{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := planMembers(raft.ServerID(fmt.Sprint(tc.self)), tc.brokers, members(t, tc.members...), 5*time.Second)
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
