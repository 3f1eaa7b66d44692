package sim

import (
	"fmt"
	"reflect"
	"strings"
)

// Coverage counts what a history has seen. A simulator that finds nothing proves something only about what it did.
type Coverage struct {
	Operations      int // produce and fetch requests of clients
	Acknowledged    int
	Retries         int // produce requests sent again
	Pipelined       int // batches that came behind others in flight
	FullInboxes     int // that kept a connection waiting
	SequenceWraps   int // from 2^31-1 to 0
	Duplicates      int // of those, answered from memory
	Reads           int // answers with records
	OutOfRange      int // answers to who asks for deleted records
	Latest          int // answers to "latest"
	Elections       int
	ShrinksInFlight int // ISR shrinks while writes were under way
	Expansions      int
	Truncations     int
	Kills           int
	PowerCuts       int
	PowerCutsOfAll  int
	CrashesWithLoss int // lives that found less than the life before had written
	CleanStops      int
	Cuts            int // one-way cuts
	Isolations      int
	Pauses          int
	SlowDisks       int
	SyncFailures    int
	ControllerMoves int
	SlowRafts       int // times in which nothing was committed
	LateMetadata    int // times in which a broker applied nothing
	LateDrains      int // drains of such a broker
	LateFences      int // silences of about a session, with slow commits at their end
	AltersUnknown   int // ISR proposals without an answer in time
	MessagesLost    int
	StreamsBroken   int
	Overruns        int

	// Disks.
	DiskErrors   int
	ReadErrors   int
	FullDisks    int
	BitFlips     int
	FlipsBehind  int // of them in what a follower has still to copy
	LostSegments int
	LostEnds     int
	// LostDirectories were moved away; MissingReplicas is how often a start has missed one.
	LostDirectories   int
	MissingReplicas   int
	EmptyDisks        int
	OldDisks          int
	OldCopies         int // of a running broker's disk
	SwappedDisks      int
	RefusedStarts     int // of a broker that does not start with the disk it has
	DamagedLogs       int // that were found so at opening
	RoomFound         int // replicas that a full disk had kept from being opened, and that were opened later
	DoubtfulEnds      int // of logs that were cut at opening and do not look torn
	ProducerSnapshots int // of replicas that run
	CorruptAnswers    int // reads that were refused for damage
	CorruptReads      int // damaged bytes that a client has found out
	Repairs           int
	ClockJumps        int

	// Losses that an operator accepts.
	LostCopies       int // partitions that lost every complete copy
	UncleanElections int // that were forced
	RecordsLost      int // by them, of those known to be committed
	LossesTold       int // readers that were sent back
	ProducersRenewed int // that were told of a gap, and went on as others

	SilentProducers int // that were forgotten meanwhile

	GroupRequests       int
	Joins               int // members that got a place in their group
	Generations         int
	CommitsAcknowledged int
	CommitsRefused      int
	CommitsUnknown      int
	OffsetReads         int // answers to clients that only look
	Revocations         int
	Rebalances          int // classic members told to join again
	Takeovers           int // of shards with groups
	ShardMoves          int
	MembersFenced       int
	InstancesFenced     int
	SessionsEnded       int
	MemberPauses        int
	GroupAppends        int
	Resets              int // and commits for nobody
	OffsetsDeleted      int
	OffsetsExpired      int
	GroupsDeleted       int
	GroupAppendsUnknown int

	// The life of topics and brokers.
	Errands                                                   int // wishes of administrators that were carried out and answered
	PartitionsAdded                                           int
	Trims                                                     int // DeleteRecords
	ConfigChanges                                             int
	ReassignmentsBegun, ReassignmentsCancelled, Reassignments int // Reassignments: ended
	Snapshots                                                 int // of the metadata, written and restored
	BrokersJoined, BrokersRetired                             int // late, and unregistered for good
	PreferredElections                                        int
	Retentions                                                int // log starts moved by retention
	PartitionsDeleted                                         int
	ReplicasRemoved                                           int // for a tombstone
	ReplicasParked                                            int // of which the metadata does not know
}

// Add adds the counts of another history.
func (c *Coverage) Add(o *Coverage) {
	to, from := reflect.ValueOf(c).Elem(), reflect.ValueOf(o).Elem()
	for i := range to.NumField() {
		to.Field(i).SetInt(to.Field(i).Int() + from.Field(i).Int())
	}
}

// String lists the counts, one line.
func (c Coverage) String() string {
	var b strings.Builder
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%d", snake(v.Type().Field(i).Name), v.Field(i).Int())
	}
	return b.String()
}

// snake turns a field name into the form that scripts read.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
