package controller

import (
	"context"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// StreamLayer carries Raft's connections over the peer port. The address has the form "<server id>@<host>:<port>"; the dialler names the
// expected server id in its hello and the acceptor closes if it is not the one addressed. Package peer implements it.
type StreamLayer interface{ raft.StreamLayer }

// Endpoint is where a request for another broker's controller goes.
type Endpoint struct {
	Address string // host:port of the peer port
	// Server is the Raft server id expected there, "<broker id>-<directory id>"; empty while it is unknown (probe and join).
	Server string
}

// LeaderCall sends one request to another broker's controller and waits for its answer. Package peer implements it, and hands incoming requests
// to Controller.Serve.
type LeaderCall interface {
	Call(ctx context.Context, to Endpoint, req Request) (Response, error)
}

// Request is one of ProbeRequest, JoinRequest, ProposeRequest and HeartbeatRequest.
type Request interface{ controllerRequest() }

// Response is the answer to a Request: the type of the same name, or Redirect.
type Response interface{ controllerResponse() }

// ProbeRequest asks a seed who it is and whether it has ever been part of a cluster.
type ProbeRequest struct {
	From            cluster.BrokerID
	Directory       cluster.DirectoryID
	BootstrapExpect int32
}

// ProbeResponse answers a probe.
type ProbeResponse struct {
	Broker          cluster.BrokerID
	Directory       cluster.DirectoryID
	Cluster         cluster.ClusterID // zero: never bootstrapped
	Bootstrapped    bool              // has Raft state of its own
	RaftRuns        bool              // and so it can vote
	BootstrapExpect int32
	LeaderAddress   string // of the Raft leader if known, host:port
	LeaderServer    string
}

// JoinRequest asks the Raft leader to add a non-voter.
type JoinRequest struct {
	Broker    cluster.BrokerID
	Directory cluster.DirectoryID
	Address   string // host:port of the peer port
	Cluster   cluster.ClusterID
}

// JoinResponse answers a join.
type JoinResponse struct {
	Code    cluster.Code
	Message string
	Cluster cluster.ClusterID
}

// ProposeRequest carries an encoded command to the Raft leader.
type ProposeRequest struct{ Command []byte }

// ProposeResponse is the result of an applied command.
type ProposeResponse struct{ Result cluster.Result }

// HeartbeatRequest keeps a broker's session.
type HeartbeatRequest struct {
	Broker  cluster.BrokerID
	Epoch   cluster.BrokerEpoch
	Applied uint64 // index that the broker has applied
	// WantDrain asks for an orderly shutdown.
	WantDrain bool
	// Offline lists partitions whose local log failed since the last answered heartbeat.
	Offline []cluster.TopicPartition
	// Online lists partitions whose local replica works again since, or is gone. A controller of an earlier version does not know it: to that one they are offline until the broker is started again.
	Online []cluster.TopicPartition
	// Refusing lists brokers whose peer port refused connections twice, at least 100 ms apart.
	Refusing []cluster.BrokerID
}

// HeartbeatResponse answers a heartbeat; only a leader that has verified its leadership sends it.
type HeartbeatResponse struct {
	Code        cluster.Code // CodeNone, CodeStaleBrokerEpoch (register again), CodeUnknownBroker
	Fenced      bool
	MayShutDown bool
	// Applied is the index of the last command that the leader had applied when it answered.
	Applied uint64
}

// Redirect says that this broker is not the Raft leader, and who is, if known.
type Redirect struct {
	Address string
	Server  string
}

func (ProbeRequest) controllerRequest()       {}
func (JoinRequest) controllerRequest()        {}
func (ProposeRequest) controllerRequest()     {}
func (HeartbeatRequest) controllerRequest()   {}
func (ProbeResponse) controllerResponse()     {}
func (JoinResponse) controllerResponse()      {}
func (ProposeResponse) controllerResponse()   {}
func (HeartbeatResponse) controllerResponse() {}
func (Redirect) controllerResponse()          {}
