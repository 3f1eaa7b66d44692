package group

import "time"

// NoGeneration marks a request of a classic member that has not joined yet, and a commit that speaks for no member.
const NoGeneration int32 = -1

// ProtocolTypeConsumer is the protocol type of Kafka's consumers. Their metadata begin with the topics that they subscribe to; those of other
// types (connect, sr) are opaque.
const ProtocolTypeConsumer = "consumer"

// Join is Kafka's JoinGroup: it makes a member, or takes one into the next generation. The answer may come much later: when the members have
// all joined, or the time for it is over.
type Join struct {
	Group string
	// MemberID is empty for a member that has none yet.
	MemberID string
	// InstanceID makes the member static (KIP-345); empty for dynamic members.
	InstanceID string
	ClientID   string
	ClientHost string
	// SessionTimeout is bounded by Config. RebalanceTimeout is how long the others wait for this member to join again; it is brought within
	// the bounds of Config, and 0 (JoinGroup 0) takes the session timeout.
	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration
	// ProtocolType must be that of the other members.
	ProtocolType string
	// Protocols are what the member can do, the best first. The bytes are kept: the caller must not reuse them.
	Protocols []Protocol
	// RequireMemberID says that a dynamic member without an id is to be given one and to join again with it (KIP-394, JoinGroup 4+).
	RequireMemberID bool
	// CanSkipAssignment says that a leader can be told not to assign (KIP-814, JoinGroup 9+).
	CanSkipAssignment bool
	// Reason is for people (KIP-800).
	Reason string
	// NewMemberID is what a member without an id becomes. The shell fills it.
	NewMemberID string
}

// Protocol is one way to assign that a classic member can do, with what the leader must know of the member for it.
type Protocol struct {
	Name     string
	Metadata []byte // opaque
}

// JoinReply answers Join.
type JoinReply struct {
	// MemberIDRequired says that nothing but MemberID is filled: the member is to join again with that id.
	MemberIDRequired bool
	MemberID         string
	Generation       int32
	ProtocolType     string
	Protocol         string
	// Leader is the member that assigns, and sends the assignments with Sync.
	Leader string
	// SkipAssignment tells a leader that the assignment of the generation stands (KIP-814).
	SkipAssignment bool
	// Members are all members with their metadata for Protocol, by id; only the leader gets them.
	Members []JoinedMember
}

// JoinedMember is one member as the leader sees it. Metadata are shared and must not be changed.
type JoinedMember struct {
	MemberID   string
	InstanceID string
	Metadata   []byte
}

// Sync is Kafka's SyncGroup: the leader hands over the assignments, everybody asks for its own. The answer comes when the leader's is there.
type Sync struct {
	Group      string
	MemberID   string
	InstanceID string
	Generation int32
	// ProtocolType and Protocol are checked when they are not empty (SyncGroup 5+).
	ProtocolType string
	Protocol     string
	// Assignments are read from the leader only. The bytes are kept: the caller must not reuse them.
	Assignments []Assignment
}

// Assignment is what the leader assigns to one member.
type Assignment struct {
	MemberID   string
	Assignment []byte // opaque
}

// SyncReply answers Sync. Assignment is shared and must not be changed.
type SyncReply struct {
	ProtocolType string
	Protocol     string
	Assignment   []byte
}

// ClassicHeartbeat keeps up the session of a classic member. CodeRebalanceInProgress tells it to join again.
type ClassicHeartbeat struct {
	Group      string
	MemberID   string
	InstanceID string
	Generation int32
}

// Leave is Kafka's LeaveGroup: it removes members, each with its own result in Reply.Codes.
type Leave struct {
	Group   string
	Members []LeavingMember
}

// LeavingMember names a member by its id, a static one by its instance id alone if need be.
type LeavingMember struct {
	MemberID   string
	InstanceID string
	Reason     string // for people (KIP-800)
}

// Completion answers an input that was parked.
type Completion struct {
	Waiter uint64 // Env.Waiter of that input
	Reply  Reply
}

func (Join) groupInput()             {}
func (Sync) groupInput()             {}
func (ClassicHeartbeat) groupInput() {}
func (Leave) groupInput()            {}
