package planted

// Bug is one mistake. The zero Bug is none.
type Bug uint8

// The bugs, in the order of docs/bugs.md. catalogue.go says which rule each breaks and what it stands for.
const (
	None Bug = iota

	// Package replication.
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

	end
)
