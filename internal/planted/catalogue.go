//go:build planted

package planted

// Info describes a bug.
type Info struct {
	// Name is what flags, the environment and docs/bugs.md call it.
	Name string
	// Rule is the rule of the product that it breaks.
	Rule string
	// Case is what it stands for: a hard case, an invariant, a report of another system.
	Case string
}

// catalogue describes every bug, in their order.
var catalogue = [end]Info{
	None: {Name: "none"},

	TruncateToWatermark:      {"truncate-to-watermark", "a new follower cuts its log only where its leader says that it differs, never to its own watermark", "29, KIP-101"},
	CountUnflushed:           {"count-unflushed", "the watermark counts flushed ends", "60, NATS #7564"},
	NewISROnly:               {"new-isr-only", "while an ISR change is in flight the watermark counts the union of old and new", "32, KAFKA-12686"},
	NoEpochFence:             {"no-epoch-fence", "who speaks under another leader epoch is refused: followers, their acknowledgements, clients", "27, KIP-320"},
	NoBrokerEpoch:            {"no-broker-epoch", "what an earlier life of a broker told does not count", "40, KIP-903"},
	NoDivergenceCheck:        {"no-divergence-check", "a follower is sent data only when its last epoch ends as the leader's does", "27, KIP-279"},
	StaleFlush:               {"stale-flush", "a flush that began before a truncation marks nothing as flushed", "144"},
	JoinBelowWatermark:       {"join-below-watermark", "a follower joins the ISR only with everything that is committed and that was there at the election", "KIP-966"},
	LateAlterAccepted:        {"late-alter-accepted", "the answer to an ISR proposal counts only for that proposal", "34, KAFKA-13790"},
	WatermarkBelowMinISR:     {"watermark-below-min-isr", "below min.insync.replicas the watermark stands still", "39, KIP-966"},
	JoinUnflushed:            {"join-unflushed", "a follower joins the ISR by what it has flushed, not by what it has", "KIP-966, I1"},
	JoinBeforeEpochStart:     {"join-before-epoch-start", "a follower joins the ISR only with everything that was there when this leader epoch began", "KIP-966"},
	LostProposalForgotten:    {"lost-proposal-forgotten", "members of an ISR proposal of unknown fate count until the partition epoch moves on", "34, KAFKA-12686"},
	DuplicateAnsweredEarly:   {"duplicate-answered-early", "the retry of a batch is answered only when the original is committed", "66"},
	LeaderTrustsItsLog:       {"leader-trusts-its-log", "a new leader's watermark counts what its followers have, not all that it has itself", "31, KIP-207"},
	LeaseIgnoredByAcksLeader: {"lease-ignored-by-acks-leader", "acks=leader stops when the controller's lease has run out", "145"},
	LeadsFormerEpoch:         {"leads-former-epoch", "no broker writes in a leader epoch that an earlier life of it has written in", "142, I8"},
	SubscriptionIDsRestart:   {"subscription-ids-restart", "ids of subscriptions rise over all streams, so that the end of an old one never ends a new one", "found by the simulator"},
	AckFromBeforeTruncation:  {"ack-from-before-truncation", "an acknowledgement from before a truncation is not sent for the log after it", "27"},
	SettingsBeforeState:      {"settings-before-state", "the settings of an image count together with its state", "143"},
	FormerLeaderNotAwaited:   {"former-leader-not-awaited", "a new leader tells no latest offset while a former one that is no replica any more may", "I9"},

	DuplicateAppended:          {"duplicate-appended", "a batch that was appended before is not appended again", "66, I5"},
	SequenceGapAccepted:        {"sequence-gap-accepted", "a batch whose predecessor is missing is refused", "68, I3"},
	FollowerForgetsSequences:   {"follower-forgets-sequences", "followers keep the sequences of producers, so that they know duplicates when they lead", "62, I5"},
	SequencesOutliveTruncation: {"sequences-outlive-truncation", "the sequences of batches that were cut off are forgotten with them", "27, redpanda #3039"},
	SnapshotAhead:              {"snapshot-ahead", "a producer snapshot tells of what its flush has made durable, and of nothing later", "66, I5"},
	SnapshotOutlivesTruncation: {"snapshot-outlives-truncation", "a producer snapshot from before a truncation is not written after it", "144, I5"},
	ReadsUncommitted:           {"reads-uncommitted", "consumers read below the watermark only", "I6"},
	LatestBeforeSettled:        {"latest-before-settled", "a new leader tells no latest offset before its watermark reaches its log end at the election", "31, KIP-207"},
	LeaseIgnoredByLatest:       {"lease-ignored-by-latest", "a leader tells no latest offset when the controller's lease has run out", "145, I9"},
	FollowerSkipsChecksum:      {"follower-skips-checksum", "a follower checks every batch before it appends it", "63, I10"},
	RelaxedMarkMissing:         {"relaxed-mark-missing", "a log is marked relaxed before the first append that is acknowledged without a flush", "38"},
	TombstoneIgnored:           {"tombstone-ignored", "a replica that a tombstone names is removed", "55, 149"},
	UnknownReplicaDeleted:      {"unknown-replica-deleted", "a replica is never deleted because metadata does not know it", "149"},
	MissingReplicaReplaced:     {"missing-replica-replaced", "a replica whose directory is gone is reported, not replaced by an empty one that counts as complete", "40"},
	RefusedBatchForgotten:      {"refused-batch-forgotten", "what a producer has in flight behind its refused first batch is not taken before it", "68"},
	TrimmedBatchNotReplayed:    {"trimmed-batch-not-replayed", "after a restart the batch in which the log start lies is known as a duplicate", "66"},
	FoundNamesNotSynced:        {"found-names-not-synced", "a start makes the names of the replicas durable that it finds", "60"},
	FollowerTakesGaps:          {"follower-takes-gaps", "a follower takes no batch that leaves a gap: its base offset lies outside the checksum", "63, I2"},

	TailNotCut:               {"tail-not-cut", "what recovery and truncation leave of a file is all that is left of it", "1, 27"},
	RecoveryForgetsSync:      {"recovery-forgets-sync", "what recovery keeps is on disk before it is reported as flushed", "60"},
	DamageCutAsTorn:          {"damage-cut-as-torn", "a bad batch with valid ones behind it is damage, not a torn tail", "5"},
	RecoveryPointAhead:       {"recovery-point-ahead", "log.meta never says that something is on disk which is not", "17"},
	FlushesActiveFileOnly:    {"flushes-active-file-only", "a flush syncs every file that was written since the last one", "60"},
	DirectoryNotSynced:       {"directory-not-synced", "the name of a new segment is durable before log.meta lists it", "60"},
	FailedSyncRetried:        {"failed-sync-retried", "after a failed fsync the log is offline, since another one proves nothing", "9, ATC'20"},
	TruncationUnannounced:    {"truncation-unannounced", "log.meta says that a truncation was begun before anything is cut", "27"},
	LogStartNotDurable:       {"log-start-not-durable", "a new log start is on disk before anything below it is deleted", "65"},
	RetentionPassesWatermark: {"retention-passes-watermark", "retention deletes nothing above the watermark", "96"},
	RottenEndTakenForTorn:    {"rotten-end-taken-for-torn", "a bad end that was written whole puts the replica in doubt", "5"},
	DoubtNotDurable:          {"doubt-not-durable", "the doubt about a bad end is on disk before it is cut off", "5"},
	SegmentNamedLate:         {"segment-named-late", "log.meta names a file before its first byte", "22"},
	LeaderEpochUnchecked:     {"leader-epoch-unchecked", "the leader epoch of a batch is held against the epoch history", "3"},
	ReadUnchecked:            {"read-unchecked", "what is read for the first time since the log was opened is checked before it is given out", "3, I10"},

	AlterWithoutCompare:      {"alter-without-compare", "an ISR change is a compare-and-set on the partition epoch", "34, KAFKA-13790"},
	AlterWithoutBrokerEpoch:  {"alter-without-broker-epoch", "a member joins the ISR only in the life that the leader has seen it in", "40, KIP-903"},
	IncompleteInELR:          {"incomplete-in-elr", "only who left the ISR complete is an eligible leader replica", "58, KIP-966"},
	ELROutlivesMinISR:        {"elr-outlives-min-isr", "a lower min.insync.replicas empties the eligible leader replicas in the same step", "143"},
	UncleanByDefault:         {"unclean-by-default", "nobody is elected who may lack acknowledged records", "58"},
	RegistrationDoesNotFence: {"registration-does-not-fence", "a registration takes the broker's former life out of its leaderships", "142, I8"},
	DamagedKeepsPlace:        {"damaged-keeps-place", "a replica that its broker reports as damaged or relaxed leaves ISR and ELR", "38"},
	OldDiskKeepsPlace:        {"old-disk-keeps-place", "a directory older than the last life of its broker leaves every ISR and ELR", "40"},
	NewDiskKeepsPlace:        {"new-disk-keeps-place", "a replica in a new directory leaves ISR and ELR", "40, redpanda #9766"},
	DrainLeavesAtOnce:        {"drain-leaves-at-once", "a draining broker stays in the ISR of what it led until it knows that it drains", "found by the simulator"},
	LeaseWhileFencing:        {"lease-while-fencing", "who is about to be fenced gets no lease", "46, I9"},
	LogStartGoesBack:         {"log-start-goes-back", "the log start that DeleteRecords has committed never goes back", "65"},
	DroppedReplicaKeepsEpoch: {"dropped-replica-keeps-epoch", "a replica that is taken away, or given up, begins a new leader epoch", "53"},
	ReassignEndsEarly:        {"reassign-ends-early", "a reassignment ends when all that it brings are in sync", "53"},
	OffsetsOutliveTopic:      {"offsets-outlive-topic", "the offsets committed for a topic go with it", "90"},
	BatchAppliedTwice:        {"batch-applied-twice", "a batch of group records is applied once, in its place", "147"},
	OldCoordinatorWrites:     {"old-coordinator-writes", "only the present coordinator of a shard writes its groups", "83"},
	ELRClearedWithoutLeader:  {"elr-cleared-without-leader", "without a leader the eligible leader replicas stay when min.insync.replicas is lowered", "58, 143"},
	StartsIgnored:            {"starts-ignored", "a disk is not old when a run that was begun on it since its clean stop is the last that is registered", "40"},
	ReturnedNotCompared:      {"returned-not-compared", "of complete replicas that have all restarted the one with the longest log leads", "60, I1"},

	OldGenerationCommits:  {"old-generation-commits", "a commit of an old generation is refused", "79, I7"},
	AssignedBeforeRevoked: {"assigned-before-revoked", "a partition is given to nobody while another member holds it", "81, I7"},
	StaleTakeover:         {"stale-takeover", "a new coordinator begins with everything that was committed before", "83, 148"},
	CommitAnsweredEarly:   {"commit-answered-early", "a commit is answered when it is in the metadata log", "84"},
	DoubtNotReloaded:      {"doubt-not-reloaded", "a coordinator loads anew when it does not know what became of a batch", "147"},
	LiveOffsetsExpire:     {"live-offsets-expire", "offsets that members read by do not expire", "85"},
	OccupiedGroupDeleted:  {"occupied-group-deleted", "a group with members is not deleted", "90"},
}

// All returns every bug.
func All() []Bug {
	out := make([]Bug, 0, end)
	for b := None + 1; b < end; b++ {
		out = append(out, b)
	}
	return out
}

// Info describes the bug.
func (b Bug) Info() Info { return catalogue[b] }

// String is the bug's name.
func (b Bug) String() string { return catalogue[b].Name }

// Named finds a bug by its name.
func Named(name string) (Bug, bool) {
	for b := None; b < end; b++ {
		if catalogue[b].Name == name {
			return b, true
		}
	}
	return None, false
}
