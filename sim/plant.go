package sim

// Plant is a fault put into the simulated surroundings of the product, to prove that the checks would see it. Each stands for a mistake that some
// system has shipped.
type Plant int

// The plants.
const (
	NoPlant                 Plant = iota
	PlantForgetsSync              // the disk acknowledges an fsync of a log file without doing it
	PlantForgetsSyncDir           // new names in a directory are never made durable
	PlantAcksUnflushed            // a follower's acknowledgement calls flushed what is only written
	PlantUncleanElection          // the metadata elects who is not in sync
	PlantEarlyStart               // a restarted broker acts on the metadata of its former life
	PlantEternalLease             // a broker believes for ever that it has heard of every election
	PlantReadsUncommitted         // reads are not bounded by the watermark
	PlantForgetsSequence          // a producer's retry looks like a new batch
	PlantForgedISR                // an ISR change is answered as accepted and then lost
	PlantStaleLoad                // a coordinator that takes a shard over misses its newest batch
	PlantEternalCoordinator       // a coordinator answers without a lease, and takes an append without an answer for one that was never made
	PlantForgetsGap               // a coordinator that could not be reached counts that time as silence of its members
	PlantResentAppend             // a group append of unknown outcome is sent again under the next sequence
)

// Plants lists all of them.
func Plants() []Plant {
	return []Plant{PlantForgetsSync, PlantForgetsSyncDir, PlantAcksUnflushed, PlantUncleanElection, PlantEarlyStart, PlantEternalLease,
		PlantReadsUncommitted, PlantForgetsSequence, PlantForgedISR,
		PlantStaleLoad, PlantEternalCoordinator, PlantForgetsGap, PlantResentAppend}
}

// String names the plant, as the flag of cmd/sim does.
func (p Plant) String() string {
	return [...]string{"none", "forgets-sync", "forgets-syncdir", "acks-unflushed", "unclean-election", "early-start", "eternal-lease", "reads-uncommitted",
		"forgets-sequence", "forged-isr", "stale-load", "eternal-coordinator", "forgets-gap", "resent-append"}[p]
}

// inGroups reports whether the plant is in the surroundings of group coordinators: there must be some then.
func (p Plant) inGroups() bool { return p >= PlantStaleLoad && p <= PlantResentAppend }
