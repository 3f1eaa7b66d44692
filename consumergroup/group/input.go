package group

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// The values of Heartbeat.Epoch that are no member epochs.
const (
	EpochJoin        int32 = 0  // the member owns nothing and joins, or joins again after it was fenced
	EpochLeave       int32 = -1 // the member leaves for good
	EpochStaticLeave int32 = -2 // a static member goes away and expects to be back within its session
)

// NoMemberEpoch marks a commit or a fetch of offsets that speaks for no member.
const NoMemberEpoch int32 = -1

// Input is what a group is asked. The set is closed.
type Input interface{ groupInput() }

// Heartbeat joins a group, keeps a membership, reports what is owned, or leaves: the one request of a native member.
type Heartbeat struct {
	Group string
	// MemberID is chosen by the client, which makes a repeated join harmless. The shell fills it on a join that has none.
	MemberID string
	// InstanceID makes the member static; empty for dynamic members. It is sent with every heartbeat.
	InstanceID string
	// Epoch is the last member epoch that the coordinator gave, or EpochJoin, EpochLeave or EpochStaticLeave.
	Epoch      int32
	ClientID   string
	ClientHost string
	Rack       string
	// SessionTimeout and RebalanceTimeout are read on a join; 0 takes the default.
	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration
	// Assignor is read on a join: "uniform", "range", or empty for no preference. An explicit choice becomes the group's.
	Assignor string
	// Topics are the subscribed topic names; nil leaves the subscription as it is (a join must name it). They need not exist yet.
	Topics []string
	// Owned is everything that the member still reads from; nil means "as last reported". What it was told to revoke and does not list
	// any more is released.
	Owned []cluster.TopicPartition
	// Seen is the Version of the last reply that the member has acted on, 0 if it keeps none. A door that pushes replies must pass it: it
	// keeps a heartbeat that crossed a push on the wire from counting as the release of what the push gave.
	Seen uint64
	// Poll asks for the member's state without renewing its session: a door sends it on behalf of the member when Watch woke it.
	Poll bool
}

// Commit stores offsets. With a member id the member and its epoch are checked; without one (Epoch NoMemberEpoch) it is accepted only
// while the group has no members.
type Commit struct {
	Group      string
	MemberID   string
	InstanceID string
	// Epoch is the member epoch in a native group, the generation in a classic one.
	Epoch int32
	// Sequence is counted up by the member with each commit, from 1; what is stored under a higher one of the same epoch stays. 0: no number.
	Sequence int64
	Offsets  []CommitOffset
}

// CommitOffset is one partition of a Commit.
type CommitOffset struct {
	Partition   cluster.TopicPartition
	Offset      int64 // next record to consume; below 0 a mark, which only classic members and commits for nobody may store
	LeaderEpoch int32 // of the last consumed record, -1 unknown
	Metadata    string
}

// FetchOffsets reads committed offsets. With a member id the member and its epoch are checked.
type FetchOffsets struct {
	Group    string
	MemberID string
	Epoch    int32
	// Partitions to look up; nil asks for all that are committed.
	Partitions []cluster.TopicPartition
}

// Reset overwrites offsets for an operator. Refused while the group has members.
type Reset struct {
	Group   string
	Offsets []CommitOffset
}

// Delete removes a group with its offsets. Refused while it has members.
type Delete struct{ Group string }

// DeleteOffsets removes the offsets of single partitions. Refused for topics that a member subscribes to.
type DeleteOffsets struct {
	Group      string
	Partitions []cluster.TopicPartition
}

// Describe asks for everything that is known of a group.
type Describe struct{ Group string }

// TopicsChanged says that topics were created, grew or were deleted: targets are computed again and offsets of deleted topics dropped.
type TopicsChanged struct{}

// Tick says that time has passed: sessions end, members that do not release what they must are fenced.
type Tick struct{}

// NewCoordinator gives every member a fresh session: a new coordinator took over, or this one could not be reached for a while.
type NewCoordinator struct{}

// Expire removes offsets that nobody has used for the retention time.
type Expire struct{ Retention time.Duration }

func (Heartbeat) groupInput()      {}
func (Commit) groupInput()         {}
func (FetchOffsets) groupInput()   {}
func (Reset) groupInput()          {}
func (Delete) groupInput()         {}
func (DeleteOffsets) groupInput()  {}
func (Describe) groupInput()       {}
func (TopicsChanged) groupInput()  {}
func (Tick) groupInput()           {}
func (NewCoordinator) groupInput() {}
func (Expire) groupInput()         {}

// Reply answers an input. Code tells which of the other fields are filled; they are only on CodeNone.
type Reply struct {
	Code    cluster.Code
	Message string
	// Member answers Heartbeat.
	Member MemberReply
	// Join answers Join, Sync answers Sync.
	Join *JoinReply
	Sync *SyncReply
	// Codes answers Commit, Reset, DeleteOffsets and Leave, in their order.
	Codes []cluster.Code
	// Offsets answers FetchOffsets.
	Offsets []FetchedOffset
	// Description answers Describe.
	Description *Description
}

// MemberReply tells a member where it stands.
type MemberReply struct {
	MemberID string
	// Epoch is to be sent with the next heartbeat and with commits. EpochLeave or EpochStaticLeave after leaving.
	Epoch int32
	// HeartbeatInterval is how often the member should call.
	HeartbeatInterval time.Duration
	SessionTimeout    time.Duration
	// Version stands for what this reply tells (epoch, Assigned, Revoke); the member sends it back as Seen. Never 0.
	Version uint64
	// Changed says that Assigned and Revoke are filled: on a join, when the member reported what it owns, and when they are new.
	Changed bool
	// Assigned is everything that the member may read now.
	Assigned []cluster.TopicPartition
	// Revoke is what it must stop reading, commit, and then no longer list as Owned, before others get it.
	Revoke []cluster.TopicPartition
}

// FetchedOffset is one partition of an answer to FetchOffsets.
type FetchedOffset struct {
	Partition cluster.TopicPartition
	// Found is false when nothing is committed for the partition.
	Found     bool
	Committed cluster.CommittedOffset
}

// State says how settled a group is.
type State int8

// The states of a group.
const (
	StateEmpty       State = iota // no members; offsets may be there
	StateStable                   // every member has what the group wants it to have
	StateReconciling              // partitions are on their way from member to member (native)
	StatePreparing                // members are to join the next generation (classic)
	StateCompleting               // members have joined and wait for the leader's assignment (classic)
)

// String gives the name that people see.
func (s State) String() string {
	switch s {
	case StateStable:
		return "stable"
	case StateReconciling:
		return "reconciling"
	case StatePreparing:
		return "preparing rebalance"
	case StateCompleting:
		return "completing rebalance"
	}
	return "empty"
}

// Description is everything that is known of a group. It shares nothing with the group.
type Description struct {
	Group string
	Type  cluster.GroupType
	State State
	// Epoch is the group epoch (native) or the generation (classic).
	Epoch int32
	// Assignor is the assignor (native) or the protocol (classic).
	Assignor string
	// ProtocolType and Leader are those of a classic group; Leader is empty while the next generation has none.
	ProtocolType string
	Leader       string
	// EmptySinceMs is when the last member left, wall clock ms; 0 while there are members or when nobody ever joined.
	EmptySinceMs int64
	// Members are sorted by id. Those of a classic group that have joined for the first time are there before their generation has begun.
	Members []cluster.GroupMember
	Offsets []FetchedOffset // by partition
	// Why explains, in sentences for people, what the group waits for and what in it is odd; empty when all is well.
	Why []string
}
