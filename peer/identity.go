package peer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/moldau-log/moldau/cluster"
)

// Identity is who one end of a connection is.
type Identity struct {
	Broker      cluster.BrokerID
	Directory   cluster.DirectoryID
	Incarnation cluster.IncarnationID
	// Cluster is zero while the directory is empty, that is, until the broker has joined or bootstrapped.
	Cluster cluster.ClusterID
}

// Server returns the Raft server id of that identity.
func (id Identity) Server() string { return ServerID(id.Broker, id.Directory) }

// ServerID returns the Raft server id of a broker with that data directory, "<broker id>-<directory id>".
func ServerID(broker cluster.BrokerID, directory cluster.DirectoryID) string {
	return strconv.Itoa(int(broker)) + "-" + directory.String()
}

// brokerOf reads the broker id back from a server id; false when it is none.
func brokerOf(server string) (cluster.BrokerID, bool) {
	digits, _, found := strings.Cut(server, "-")
	if !found {
		return cluster.NoBroker, false
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return cluster.NoBroker, false
	}
	return cluster.BrokerID(n), true
}

// Refusal is why a hello was not accepted. The numbers are on the wire.
type Refusal uint8

// The refusals.
const (
	Welcome             Refusal = 0
	RefusedVersion      Refusal = 1 // no common protocol version
	RefusedCluster      Refusal = 2 // the ends belong to different clusters
	RefusedServer       Refusal = 3 // the dialled server id is not the one that answers: a wiped or moved broker
	RefusedStream       Refusal = 4 // a stream type that the acceptor does not know
	RefusedNotReady     Refusal = 5 // the acceptor does not serve this stream type yet, or any more; try again
	RefusedConnections  Refusal = 6 // the acceptor has its maximum of connections
	RefusedBrokerEpoch  Refusal = 7 // a replication stream without the follower's broker epoch
	RefusedUnknownCause Refusal = 255
)

// String gives the words that logs show.
func (r Refusal) String() string {
	switch r {
	case Welcome:
		return "welcome"
	case RefusedVersion:
		return "no common protocol version"
	case RefusedCluster:
		return "wrong cluster"
	case RefusedServer:
		return "wrong server"
	case RefusedStream:
		return "unknown stream type"
	case RefusedNotReady:
		return "not ready"
	case RefusedConnections:
		return "too many connections"
	case RefusedBrokerEpoch:
		return "no broker epoch"
	}
	return "refused"
}

// RefusedError says that the two ends of a connection did not accept each other.
type RefusedError struct {
	Refusal Refusal
	Address string // that was dialled
	Reason  string // for people
}

// Error names the address, the refusal and the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("peer: %s: %s: %s", e.Address, e.Refusal, e.Reason)
}

// verdict decides whether the ends may talk; both ends ask it, each with its own view. expected is the server id that the dialler named, and self the
// acceptor. A zero cluster id is an empty directory: it may take part in Raft (it is being added), and on control streams it may probe and join
// (control.go checks the request), nothing else.
func verdict(t streamType, dialler, self Identity, expected string) (Refusal, string) {
	if expected != "" && expected != self.Server() {
		return RefusedServer, fmt.Sprintf("%s was dialled and %s answers", expected, self.Server())
	}
	if expected == "" && t != streamControl {
		return RefusedServer, fmt.Sprintf("a %s stream must name the server it wants", t)
	}
	if dialler.Cluster == self.Cluster && !self.Cluster.IsZero() {
		return Welcome, ""
	}
	empty := dialler.Cluster.IsZero() || self.Cluster.IsZero()
	if empty && (t == streamRaft || t == streamControl) {
		return Welcome, ""
	}
	return RefusedCluster, fmt.Sprintf("broker %d is of cluster %s and broker %d of cluster %s",
		dialler.Broker, clusterName(dialler.Cluster), self.Broker, clusterName(self.Cluster))
}

func clusterName(id cluster.ClusterID) string {
	if id.IsZero() {
		return "none yet"
	}
	return id.String()
}
