package coordinator

import (
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// Ticket names one waiting request. The shell chooses it; 0 stands for nobody.
type Ticket uint64

// Effects is what the shell has to carry out. The order of Answers and Wake is the order in which things happened.
type Effects struct {
	// Append is to be sent once; its outcome comes back by Appended.
	Append *cluster.GroupAppend
	// Loads are to be carried out side by side; their outcomes come back by Loaded or LoadFailed.
	Loads   []Load
	Answers []Answer
	// Wake names members for whom a heartbeat would have news.
	Wake []Watched
	// Moved lists shards that were lost, or loaded anew: whoever watches one of their groups is to ask again.
	Moved []cluster.ShardID
	// Removed and Expired are for the log and the metrics; they are committed.
	Removed []Removed
	Expired []Expired
}

// Answer completes a request.
type Answer struct {
	Ticket Ticket
	Reply  group.Reply
}

// Watched names one member.
type Watched struct{ Group, Member string }

// Removed is a member that was removed without having asked for it.
type Removed struct {
	Group string
	group.Removal
}

// Expired says what retention took from a group.
type Expired struct {
	Group   string
	Offsets int
	// Deleted says that nothing was left, so the group went too.
	Deleted bool
}

// Load asks for the content of a shard.
type Load struct {
	Shard cluster.ShardID
	Epoch cluster.ShardEpoch
	// MinIndex is an entry of the metadata log that the content must include.
	MinIndex uint64
	// Attempt counts from 0; the shell waits before a repeated one.
	Attempt int
}

// Counts are totals since the start.
type Counts struct {
	Appends   int64 // sent
	Records   int64 // sent
	Committed int64 // batches accepted
	Refused   int64 // batches refused as stale
	Unknown   int64 // appends of unknown outcome
	Loads     int64 // of shards, first attempts
}
