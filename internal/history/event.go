package history

// Type says which end of an operation an event is.
type Type string

// The types. Fail is certain: it was not done and never will be. Info is anything else that is not ok.
const (
	Invoke Type = "invoke"
	OK     Type = "ok"
	Fail   Type = "fail"
	Info   Type = "info"
)

// Kind says what an operation does. docs/history.md says for each what its events carry.
type Kind string

// The kinds.
const (
	Send      Kind = "send"      // records of one producer; a completion carries their offsets
	Poll      Kind = "poll"      // one call for records; ok carries those that were returned, in order
	Commit    Kind = "commit"    // a group's offsets are set
	Committed Kind = "committed" // a group's offsets are asked for; ok carries them, -1 where there is none
	Latest    Kind = "latest"    // the end of partitions is asked for; ok carries it (the next offset)
	Join      Kind = "join"      // a member joins a group
	Assign    Kind = "assign"    // a member has got what it owns in a generation: all of it, see Kept
	Seek      Kind = "seek"      // a consumer's positions are set by hand
	Admin     Kind = "admin"     // see the Action constants
	Fault     Kind = "fault"     // invoke: a fault begins; ok: it is healed. Action names it
	Replica   Kind = "replica"   // records of one broker's log, read from its disk
)

// Actions of Admin, and the one of Poll.
const (
	CreateTopic   = "create-topic"
	DeleteTopic   = "delete-topic"   // after its invoke nothing of the topic has to be there
	DeleteRecords = "delete-records" // Records: the new log start of each partition; Unknown in the invoke for its readable end
	LogStart      = "log-start"      // ok: the log start as seen from outside; what is below has been removed by retention
	Relaxed       = "relaxed"        // ok: acknowledged records of these partitions may be lost (flush.policy, replication factor 1, compaction); no Records: all of Topic
	Unclean       = "unclean"        // ok: an unclean election was forced; from now on these partitions promise nothing about what was before
	DeleteGroup   = "delete-group"   // Group and its offsets go
	Drain         = "drain"          // of a Poll: reads a partition from its log start to its end while Broker leads it
	Drained       = "drained"        // ok: the drain from Broker is complete; Records: the end that it reached in each partition
)

// Acknowledgements of a send, as docs/guarantees.md has them. An empty one is AcksISR.
const (
	AcksISR    = "isr"
	AcksLeader = "leader"
	AcksNone   = "none"
)

// Unknown is an offset or an epoch that is not known; Kept is the offset of a partition in an Assign that the member had before and goes on reading.
const (
	Unknown = -1
	Kept    = -2
)

// Event is one line of a history.
type Event struct {
	// Time is in nanoseconds of one monotonic clock for all files that are checked together, such as Now. Of an invoke it is taken before the operation
	// begins, of a completion after it has ended.
	Time int64
	// Client names a producer, a consumer or anything else that acts; the events of one client are in the order in which they happened.
	Client string
	// Op numbers a client's operations; a completion has the number of its invoke.
	Op   int64
	Type Type
	Kind Kind
	// Action says which admin operation or fault it is, or that a poll belongs to a drain.
	Action string
	// Topic is the topic of an event without Records. See Record.Topic for what names a topic.
	Topic   string
	Records []Record
	// Group, Member and Generation (or member epoch; 0: none) belong to Commit, Committed, Join, Assign, and to the polls of a group's member.
	Group      string
	Member     string
	Generation int32
	// Acks is what a send waits for.
	Acks string
	// NotIdempotent marks a send that may be stored twice or out of order by its own retries.
	NotIdempotent bool
	// Ordered marks a commit whose client numbers its commits: one of unknown outcome cannot happen behind a later acknowledged one of the same member in the same generation.
	Ordered bool
	// Broker is whose log a Replica event shows, and who led while a drain read. 0 is a broker; Unknown is one of these that was read without it.
	Broker int32
	// broker0 says that the line named broker 0, where it does not say itself that it needs one: that is known of its invoke.
	broker0 bool
	// Error is the reason of a fail or an info: for people, not for checks.
	Error string
}

// NamesBroker says whether the event names a broker: 0 is one only where it has to name one, or was read with it.
func (e *Event) NamesBroker() bool {
	return e.Broker > 0 || e.Broker == 0 && (e.broker0 || e.needsBroker())
}

// needsBroker says that an event without a broker is not whole, and so 0 has to be told from none.
func (e *Event) needsBroker() bool {
	return e.Kind == Replica || e.Kind == Poll && e.Action == Drain || e.Kind == Admin && e.Action == Drained
}

// Record is one record of a send, poll or replica, or one partition with a position. Which fields count depends on the event's kind.
type Record struct {
	// Topic identifies one incarnation of a topic: its id. A name will do where topics are never created again. "" in a send: not known yet.
	Topic string
	// Partition is Unknown in the invoke of a send whose client chooses it later.
	Partition int32
	// Offset is Unknown where it does not apply; 0 is an offset.
	Offset int64
	// Epoch is the leader epoch of the record's batch, Unknown where the client does not see it; 0 is an epoch.
	Epoch int32
	// CRC is the checksum of the record's batch, in Replica events.
	CRC uint32
	// Value is what Describe says of the record's value.
	Value string
}
