package planted

// Variable is the environment variable that names the bug of a process.
const Variable = "MOLDAU_PLANTED"

// Bug is one mistake. The zero Bug is none.
type Bug uint8

// The bugs, in the order of docs/bugs.md. catalogue.go says which rule each breaks and what it stands for.
const (
	None Bug = iota

	// Package replication and its sessions.
	TruncateToWatermark
	CountUnflushed
	NewISROnly
	NoEpochFence
	NoBrokerEpoch
	NoDivergenceCheck
	StaleFlush
	JoinBelowWatermark
	LateAlterAccepted
	WatermarkBelowMinISR
	JoinUnflushed
	JoinBeforeEpochStart
	LostProposalForgotten
	DuplicateAnsweredEarly
	LeaderTrustsItsLog
	LeaseIgnoredByAcksLeader
	LeadsFormerEpoch
	SubscriptionIDsRestart
	AckFromBeforeTruncation
	SettingsBeforeState
	FormerLeaderNotAwaited

	// Package partition.
	DuplicateAppended
	SequenceGapAccepted
	FollowerForgetsSequences
	SequencesOutliveTruncation
	SnapshotAhead
	SnapshotOutlivesTruncation
	ReadsUncommitted
	LatestBeforeSettled
	LeaseIgnoredByLatest
	FollowerSkipsChecksum
	RelaxedMarkMissing
	TombstoneIgnored
	UnknownReplicaDeleted
	MissingReplicaReplaced
	RefusedBatchForgotten
	TrimmedBatchNotReplayed
	FoundNamesNotSynced
	FollowerTakesGaps

	// Package segment.
	TailNotCut
	RecoveryForgetsSync
	DamageCutAsTorn
	RecoveryPointAhead
	FlushesActiveFileOnly
	DirectoryNotSynced
	FailedSyncRetried
	TruncationUnannounced
	LogStartNotDurable
	RetentionPassesWatermark
	RottenEndTakenForTorn
	DoubtNotDurable
	SegmentNamedLate
	LeaderEpochUnchecked
	ReadUnchecked

	// Packages controller/state and controller/driver.
	AlterWithoutCompare
	AlterWithoutBrokerEpoch
	IncompleteInELR
	ELROutlivesMinISR
	UncleanByDefault
	RegistrationDoesNotFence
	DamagedKeepsPlace
	OldDiskKeepsPlace
	NewDiskKeepsPlace
	DrainLeavesAtOnce
	LeaseWhileFencing
	LogStartGoesBack
	ReassignEndsEarly
	DroppedReplicaKeepsEpoch
	OffsetsOutliveTopic
	BatchAppliedTwice
	OldCoordinatorWrites
	ELRClearedWithoutLeader
	StartsIgnored
	ReturnedNotCompared

	// Package consumergroup.
	OldGenerationCommits
	AssignedBeforeRevoked
	StaleTakeover
	CommitAnsweredEarly
	DoubtNotReloaded
	LiveOffsetsExpire
	OccupiedGroupDeleted

	end
)
