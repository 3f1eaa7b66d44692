package replication

// Bug is a fault that a test can plant, to prove that its checks would find it. Production code plants none.
type Bug int

// The bugs that can be planted, each a mistake that some system has shipped.
const (
	NoBug                   Bug = iota
	BugTruncateToWatermark      // a new follower cuts its log to its high watermark (before KIP-101)
	BugCountUnflushed           // the watermark counts what is written, although it may be lost
	BugNewISROnly               // during a change the watermark counts the proposed ISR, not its union with the old one
	BugNoEpochFence             // subscriptions and acks of other leader epochs are taken
	BugNoBrokerEpoch            // acks of an earlier life of a broker count
	BugNoDivergenceCheck        // a follower is sent the log from its end on, whatever lies before
	BugStaleFlush               // a flush that began before a truncation counts
	BugJoinBelowWatermark       // a follower may join the ISR before it has everything
	BugLateAlterAccepted        // the answer to an ISR proposal is believed without its epochs being compared
	BugWatermarkBelowMinISR     // the watermark moves although the ISR is below its minimum
	bugEnd
)

// Bugs returns every bug, for tests of tests.
func Bugs() []Bug {
	out := make([]Bug, 0, bugEnd)
	for b := NoBug + 1; b < bugEnd; b++ {
		out = append(out, b)
	}
	return out
}

// WithBug returns c with a planted bug. Only tests and the simulator's self-test call it.
func (c Config) WithBug(b Bug) Config {
	c.bug = b
	return c
}
