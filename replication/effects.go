package replication

import (
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
	"github.com/moldau-log/moldau/replication/session"
)

// Effects is what the owner has to do after a Step, in the order of the fields. Inputs that arise meanwhile are stepped after the whole
// Effects is done. It belongs to the Replica and is overwritten by the next Step.
type Effects struct {
	// Truncate cuts the log, if To is not below 0. The owner answers with Truncated.
	Truncate Truncate
	// MoveStart removes everything below an offset, unless it is below 0. The owner answers with LogStartMoved.
	MoveStart record.Offset
	// Append lists what to append, in order. The owner may gather the appends of several ProduceRequested, but appends them before it steps any
	// other input, and then answers with one Appended. A single entry without Request appends the bytes of the Delivered just stepped.
	Append []Append
	// Flush asks for a flush of everything appended, when one can begin. The owner answers with Flushed.
	Flush bool
	// Watermark says that the high watermark has risen.
	Watermark bool
	// RoleChanged says that Role, Leader or LeaderEpoch have changed.
	RoleChanged bool
	// Respond answers produce requests.
	Respond []Response
	// Admit answers subscription requests, and refuses running subscriptions that have to end.
	Admit []Admission
	// Unsubscribe ends the subscription of this follower, before Subscribe.
	Unsubscribe bool
	// Subscribe asks to follow Leader under LeaderEpoch from the log end on.
	Subscribe bool
	// Ack tells the leader about the present log end, flushed end and log start.
	Ack bool
	// Alter proposes a new ISR to the controller, which answers with AlterPartitionResult.
	Alter *cluster.ISRChange
	// Offline reports why the replica has failed; nil while it has not.
	Offline error
	// Deadline is when the next Tick is wanted, 0 for never.
	Deadline time.Duration
}

// Truncate cuts a log.
type Truncate struct {
	// To is the new end, below 0 for no truncation.
	To record.Offset
	// Reset empties the whole log and begins it anew at To.
	Reset bool
}

// Append is one batch to append.
type Append struct {
	Request RequestID
	Base    record.Offset
	Epoch   record.LeaderEpoch // to be stamped on a leader's batch
	// Verbatim marks what a follower appends unchanged: the bytes of the Delivered just stepped.
	Verbatim bool
}

// Response answers one produce request.
type Response struct {
	Request RequestID
	Code    cluster.Code
	// Base is the offset of the batch, -1 if it was refused. A Code with a Base says that the batch was appended and its outcome is unknown.
	Base record.Offset
}

// Admission answers a subscription request.
type Admission struct {
	Follower cluster.BrokerID
	Accepted bool
	// Refused carries the ID in both cases; the rest is the refusal.
	Refused session.Refused
	// Lost, if not nil, says that the follower has come back with less than it had flushed.
	Lost *Lost
}

// Lost is what a follower had told to be on its disk in this leader epoch, and what it says after a restart. It may have a new disk, or one that has not kept what was flushed.
type Lost struct{ Flushed, LogEnd record.Offset }

// reset empties e and keeps its memory.
func (e *Effects) reset() {
	*e = Effects{
		Truncate:  Truncate{To: -1},
		MoveStart: -1,
		Append:    e.Append[:0],
		Respond:   e.Respond[:0],
		Admit:     e.Admit[:0],
	}
}
