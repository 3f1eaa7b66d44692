package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// Voter counts: one voter below three brokers, three below five, else five.
const (
	minBrokersThreeVoters = 3
	minBrokersFiveVoters  = 5
)

// voterCount is how many voters a cluster of so many brokers has.
func voterCount(brokers int) int {
	switch {
	case brokers >= minBrokersFiveVoters:
		return 5
	case brokers >= minBrokersThreeVoters:
		return 3
	}
	return 1
}

// BootstrapSelf is what a broker without a running Raft node knows about itself.
type BootstrapSelf struct {
	Broker    cluster.BrokerID
	Directory cluster.DirectoryID
	Cluster   cluster.ClusterID // that its data directory remembers
	HasState  bool              // its Raft directory is not empty
	MayRejoin bool              // the operator gave up its Raft files (Forget): it joins its old cluster again and never forms one
	Expect    int32
	HasSeeds  bool
}

// BootstrapAnswer is what a seed answered, and the address under which it did.
type BootstrapAnswer struct {
	Address string
	ProbeResponse
}

// BootstrapStep is what a broker does next on its way into a cluster.
type BootstrapStep int

// The steps.
const (
	BootstrapWait   BootstrapStep = iota // ask the seeds again
	BootstrapForm                        // write the first Raft configuration, then start Raft
	BootstrapStart                       // start Raft and be contacted
	BootstrapJoin                        // ask Leader to be added, then start Raft
	BootstrapRefuse                      // give up: Reason says what is wrong
)

// String names the step.
func (s BootstrapStep) String() string {
	return [...]string{"wait", "form", "start", "join", "refuse"}[s]
}

// BootstrapDecision is the next step and what it needs.
type BootstrapDecision struct {
	Step   BootstrapStep
	Reason string // why it waits or is refused, for the operator
	// Members are the bootstrap set in id order (BootstrapForm), without the broker itself.
	Members []BootstrapAnswer
	// Leader is who to ask (BootstrapJoin).
	Leader Endpoint
}

func wait(format string, args ...any) BootstrapDecision {
	return BootstrapDecision{Step: BootstrapWait, Reason: fmt.Sprintf(format, args...)}
}

func refuse(format string, args ...any) BootstrapDecision {
	return BootstrapDecision{Step: BootstrapRefuse, Reason: fmt.Sprintf(format, args...)}
}

// BootstrapPlan decides how a broker becomes part of a cluster. It is pure: the same knowledge gives the same step.
//
// The bootstrap set is exactly the ids 0 to Expect-1, each with an empty directory, all answering "never bootstrapped". Only broker 0 forms it, when those
// run Raft whose votes it needs. The others of the set start Raft empty and wait to be contacted; that is safe because every hello names the directory it is
// meant for, so that nobody can obtain a vote that this directory has cast before. Everybody else joins through a seed that knows the leader.
func BootstrapPlan(self BootstrapSelf, answers []BootstrapAnswer) BootstrapDecision {
	others := slices.DeleteFunc(slices.Clone(answers), func(a BootstrapAnswer) bool {
		return a.Broker == self.Broker && a.Directory == self.Directory
	})
	slices.SortStableFunc(others, func(a, b BootstrapAnswer) int { return int(a.Broker) - int(b.Broker) })
	if d, bad := conflict(self, others); bad {
		return d
	}
	inSet := self.Broker < cluster.BrokerID(self.Expect)
	if self.HasState {
		return rejoin(others)
	}
	var bootstrapped, named bool
	for _, a := range others {
		if a.Bootstrapped && a.LeaderAddress != "" {
			return BootstrapDecision{Step: BootstrapJoin, Leader: Endpoint{Address: a.LeaderAddress, Server: a.LeaderServer}}
		}
		bootstrapped = bootstrapped || a.Bootstrapped
		named = named || !a.Cluster.IsZero()
	}
	switch {
	case self.MayRejoin:
		return wait("no seed knows a controller of cluster %s", self.Cluster)
	case bootstrapped && inSet && !named: // broker 0 has just written the first configuration and needs our vote
		return BootstrapDecision{Step: BootstrapStart}
	case bootstrapped:
		return wait("no seed knows a controller of the cluster")
	case !inSet && !self.HasSeeds:
		return refuse("broker %d has no seeds, and without seeds only broker 0 forms a cluster: set seeds and bootstrap-expect as on the other brokers", self.Broker)
	case !inSet:
		return wait("brokers 0 to %d have not formed the cluster yet", self.Expect-1)
	}
	return formOrWait(self, others)
}

// conflict finds what waiting does not cure.
func conflict(self BootstrapSelf, others []BootstrapAnswer) (BootstrapDecision, bool) {
	if !self.HasState && !self.Cluster.IsZero() && !self.MayRejoin {
		return refuse("the data directory belongs to cluster %s but its Raft files are gone; %s", self.Cluster, remedyStore), true
	}
	known := self.Cluster
	for i, a := range others {
		switch {
		case a.Broker == self.Broker:
			return refuse("the broker at %s has id %d too, with another data directory: give each broker its own id", a.Address, a.Broker), true
		case i > 0 && a.Broker == others[i-1].Broker && a.Directory != others[i-1].Directory:
			return wait("the brokers at %s and %s both have id %d", others[i-1].Address, a.Address, a.Broker), true
		case !a.Cluster.IsZero() && !known.IsZero() && a.Cluster != known:
			if known == self.Cluster {
				return refuse("this broker belongs to cluster %s, the broker at %s to cluster %s", known, a.Address, a.Cluster), true
			}
			return wait("the seeds belong to different clusters, %s and %s", known, a.Cluster), true
		case !a.Cluster.IsZero():
			known = a.Cluster
		}
	}
	return BootstrapDecision{}, false
}

// rejoin is for a broker with Raft state: Raft runs, and asks to be added only if a leader is known that may have forgotten it.
func rejoin(others []BootstrapAnswer) BootstrapDecision {
	for _, a := range others {
		if a.LeaderAddress != "" {
			return BootstrapDecision{Step: BootstrapJoin, Leader: Endpoint{Address: a.LeaderAddress, Server: a.LeaderServer}}
		}
	}
	return BootstrapDecision{Step: BootstrapStart}
}

// formOrWait is for an empty member of the bootstrap set none of which is bootstrapped.
func formOrWait(self BootstrapSelf, others []BootstrapAnswer) BootstrapDecision {
	var members []BootstrapAnswer
	var missing []string
	for id := cluster.BrokerID(0); id < cluster.BrokerID(self.Expect); id++ {
		if id == self.Broker {
			continue
		}
		i := slices.IndexFunc(others, func(a BootstrapAnswer) bool { return a.Broker == id })
		if i < 0 {
			missing = append(missing, fmt.Sprint(id))
			continue
		}
		if others[i].BootstrapExpect != self.Expect {
			return wait("broker %d has bootstrap-expect %d, this broker %d: it must be the same everywhere", id, others[i].BootstrapExpect, self.Expect)
		}
		members = append(members, others[i])
	}
	switch {
	case len(missing) > 0:
		return wait("broker %s of the %d that form the cluster do not answer yet", strings.Join(missing, ", "), self.Expect)
	case self.Broker != 0:
		return BootstrapDecision{Step: BootstrapStart}
	case !canElect(members):
		return wait("the other brokers are there and are about to start Raft")
	}
	return BootstrapDecision{Step: BootstrapForm, Members: members}
}

// canElect reports whether broker 0 and those of the others that run Raft are a majority of the voters-to-be.
func canElect(members []BootstrapAnswer) bool {
	voters, votes := voterCount(1+len(members)), 1
	for _, m := range members[:voters-1] {
		if m.RaftRuns {
			votes++
		}
	}
	return votes > voters/2
}

// firstConfiguration is the Raft configuration of a new cluster: the lowest ids vote, the rest of an even set follows.
func firstConfiguration(self BootstrapSelf, own string, members []BootstrapAnswer) raft.Configuration {
	servers := []raft.Server{{ID: serverID(self.Broker, self.Directory), Address: serverAddress(serverID(self.Broker, self.Directory), own)}}
	for _, m := range members {
		id := serverID(m.Broker, m.Directory)
		servers = append(servers, raft.Server{ID: id, Address: serverAddress(id, m.Address)})
	}
	voters := voterCount(len(servers))
	for i := range servers {
		servers[i].Suffrage = raft.Voter
		if i >= voters {
			servers[i].Suffrage = raft.Nonvoter
		}
	}
	return raft.Configuration{Servers: servers}
}
