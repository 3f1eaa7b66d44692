package cluster

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/moldau-log/moldau/record"
)

// GroupType says which protocol a consumer group speaks.
type GroupType int8

// The group types.
const (
	GroupNone    GroupType = iota // offsets only, nobody has joined
	GroupNative                   // server-assigned, member epochs, revoke before assign
	GroupClassic                  // Kafka's classic protocol (comes with the Kafka door)
)

// String gives the name that people see.
func (t GroupType) String() string {
	switch t {
	case GroupNative:
		return "native"
	case GroupClassic:
		return "classic"
	}
	return "none"
}

// GroupBatch carries the records of one shard, in order. Apply accepts exactly the next sequence of the current shard epoch.
type GroupBatch struct {
	Shard      ShardID
	ShardEpoch ShardEpoch
	Sequence   int64
	Records    []GroupRecord
}

// GroupRecord is one change of a group's durable state. The set is closed.
type GroupRecord interface {
	// GroupID names the group that the record belongs to.
	GroupID() string
	groupRecord()
}

// GroupState replaces the whole durable state of a group: enough for a new coordinator to go on in the same generation.
type GroupState struct {
	Group string
	Type  GroupType
	// Epoch is the group epoch (native) or the generation (classic).
	Epoch    int32
	Assignor string // assignor (native) or protocol name (classic)
	Protocol string // protocol type (classic)
	Leader   string // leading member (classic)
	Members  []GroupMember
	// EmptySinceMs is when the last member left, wall clock ms; 0 while there are members.
	EmptySinceMs int64
}

// GroupMember is the durable state of one member.
type GroupMember struct {
	ID               string
	InstanceID       string // static membership; empty for dynamic members
	ClientID         string
	ClientHost       string
	Rack             string
	Epoch            int32    // member epoch (native)
	Topics           []string // subscribed topic names
	SessionTimeoutMs int32
	RebalanceMs      int32
	// Assigned is what the member may own now; Target is where the group wants it to be; Revoking is what it must give up first.
	Assigned, Target, Revoking []TopicPartition
	// Metadata and Assignment are opaque bytes of classic members.
	Metadata, Assignment []byte
}

// GroupDeleted removes a group and all its offsets.
type GroupDeleted struct{ Group string }

// CommittedOffset is the position of a group in one partition: the next offset to consume.
type CommittedOffset struct {
	Offset      record.Offset
	LeaderEpoch record.LeaderEpoch
	Metadata    string
	CommittedMs int64
	Number      CommitNumber
}

// CommitNumber orders the commits of one member in one epoch. The zero value is that of a commit without a number.
type CommitNumber struct {
	Committer uint64 // stands for the member and its epoch: what CommitterOf gives
	Sequence  int64  // from 1
}

// CommitterOf is what stands for a member in an epoch next to what it has committed. It is stored, so it is the same in all versions (FNV-1a).
func CommitterOf(member string, epoch int32) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint32([]byte(member), uint32(epoch)))
	return h.Sum64()
}

// Before reports whether n is of an earlier commit of the same member and epoch than other.
func (n CommitNumber) Before(other CommitNumber) bool {
	return n.Sequence > 0 && n.Committer == other.Committer && n.Sequence < other.Sequence
}

// OffsetCommitted stores a committed offset.
type OffsetCommitted struct {
	Group     string
	Partition TopicPartition
	Committed CommittedOffset
}

// OffsetDeleted removes a committed offset.
type OffsetDeleted struct {
	Group     string
	Partition TopicPartition
}

// GroupID implements GroupRecord.
func (r GroupState) GroupID() string { return r.Group }

// GroupID implements GroupRecord.
func (r GroupDeleted) GroupID() string { return r.Group }

// GroupID implements GroupRecord.
func (r OffsetCommitted) GroupID() string { return r.Group }

// GroupID implements GroupRecord.
func (r OffsetDeleted) GroupID() string { return r.Group }

func (GroupState) groupRecord()      {}
func (GroupDeleted) groupRecord()    {}
func (OffsetCommitted) groupRecord() {}
func (OffsetDeleted) groupRecord()   {}
