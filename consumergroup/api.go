package consumergroup

import (
	"context"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// The requests and answers that front doors see. They are the machine's own: a door fills them and maps cluster.Code to its protocol.
type (
	// HeartbeatRequest joins (Epoch EpochJoin), keeps up (a member epoch) or leaves (EpochLeave, EpochStaticLeave).
	HeartbeatRequest = group.Heartbeat
	// HeartbeatResponse tells the member its epoch and, when Changed, what it may read and what it must give up.
	HeartbeatResponse = group.MemberReply
	// CommitRequest stores offsets.
	CommitRequest = group.Commit
	// CommitOffset is one partition of a commit or a reset.
	CommitOffset = group.CommitOffset
	// FetchOffsetsRequest reads committed offsets.
	FetchOffsetsRequest = group.FetchOffsets
	// FetchedOffset is one partition of the answer.
	FetchedOffset = group.FetchedOffset
	// ResetRequest overwrites offsets of a group without members.
	ResetRequest = group.Reset
	// DeleteOffsetsRequest removes the offsets of single partitions.
	DeleteOffsetsRequest = group.DeleteOffsets
	// State says how settled a group is.
	State = group.State
	// JoinRequest and JoinResponse are Kafka's JoinGroup.
	JoinRequest  = group.Join
	JoinResponse = group.JoinReply
	// Protocol is one way to assign that a classic member offers.
	Protocol = group.Protocol
	// JoinedMember is a member as the leader sees it.
	JoinedMember = group.JoinedMember
	// SyncRequest and SyncResponse are Kafka's SyncGroup.
	SyncRequest  = group.Sync
	SyncResponse = group.SyncReply
	// Assignment is what a leader assigns to one member.
	Assignment = group.Assignment
	// ClassicHeartbeatRequest is Kafka's Heartbeat.
	ClassicHeartbeatRequest = group.ClassicHeartbeat
	// LeaveRequest is Kafka's LeaveGroup, of LeavingMember.
	LeaveRequest  = group.Leave
	LeavingMember = group.LeavingMember
)

// The states of a group.
const (
	StateEmpty       = group.StateEmpty
	StateStable      = group.StateStable
	StateReconciling = group.StateReconciling
	StatePreparing   = group.StatePreparing
	StateCompleting  = group.StateCompleting
)

// The special epochs of a heartbeat, and the epoch of a commit that speaks for no member.
const (
	EpochJoin        = group.EpochJoin
	EpochLeave       = group.EpochLeave
	EpochStaticLeave = group.EpochStaticLeave
	NoMemberEpoch    = group.NoMemberEpoch
	NoGeneration     = group.NoGeneration
)

// Description is everything that is known of a group, with its lag.
type Description struct {
	group.Description
	Coordinator cluster.BrokerID
	// HighWatermarks are what Lag was computed from, at most Config.LagInterval old. The map is shared: it has other groups' partitions as
	// well, and must not be changed.
	HighWatermarks map[cluster.TopicPartition]int64
	// Lag is by partition; a partition is absent where nothing is committed or its leader did not answer.
	Lag map[cluster.TopicPartition]int64
}

// Listing is one line of a list of groups.
type Listing struct {
	Group   string
	Type    cluster.GroupType
	State   State
	Members int
	// ProtocolType is that of a classic group.
	ProtocolType string
}

// GroupLag is one group as metrics show it.
type GroupLag struct {
	Group   string
	Members int
	// Lag is by partition, in records, never negative; absent where nothing is committed or the leader did not answer.
	Lag map[cluster.TopicPartition]int64
}

// Heartbeat is the one request of a native member. Refusals are a *cluster.Error: CodeUnknownMember and CodeFencedMemberEpoch say "drop
// everything and join again", CodeFencedInstance "another member took your place", CodeNotCoordinator "ask another broker".
// The caller must not have two heartbeats of one member under way.
func (c *Coordinator) Heartbeat(ctx context.Context, r HeartbeatRequest) (HeartbeatResponse, error) {
	if r.Epoch == EpochJoin && r.MemberID == "" {
		r.MemberID = c.ports.NewMemberID()
	}
	reply, err := c.do(ctx, r.Group, r)
	return reply.Member, err
}

// Commit stores offsets, for a member with its epoch or generation, or for nobody, and returns a code per partition, in order. The error refuses the whole request; after CodeTimedOut it is unknown
// whether the offsets were stored.
func (c *Coordinator) Commit(ctx context.Context, r CommitRequest) ([]cluster.Code, error) {
	reply, err := c.do(ctx, r.Group, r)
	return reply.Codes, err
}

// FetchOffsets reads committed offsets: all of the group (ordered by partition) or those asked for (in that order). A group that does not
// exist has none.
func (c *Coordinator) FetchOffsets(ctx context.Context, r FetchOffsetsRequest) ([]FetchedOffset, error) {
	reply, err := c.do(ctx, r.Group, r)
	return reply.Offsets, err
}

// ResetOffsets overwrites offsets for an operator. Refused with CodeGroupNotEmpty while the group has members.
func (c *Coordinator) ResetOffsets(ctx context.Context, r ResetRequest) ([]cluster.Code, error) {
	reply, err := c.do(ctx, r.Group, r)
	return reply.Codes, err
}

// DeleteOffsets removes the offsets of single partitions and returns a code per partition.
func (c *Coordinator) DeleteOffsets(ctx context.Context, r DeleteOffsetsRequest) ([]cluster.Code, error) {
	reply, err := c.do(ctx, r.Group, r)
	return reply.Codes, err
}

// Delete removes a group with its offsets. Refused with CodeGroupNotEmpty while it has members, CodeUnknownGroup when there is none.
func (c *Coordinator) Delete(ctx context.Context, name string) error {
	_, err := c.do(ctx, name, group.Delete{Group: name})
	return err
}
