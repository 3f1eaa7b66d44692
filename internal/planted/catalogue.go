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

	TruncateToWatermark:  {"truncate-to-watermark", "a new follower cuts its log only where its leader says that it differs, never to its own watermark", "29, KIP-101"},
	CountUnflushed:       {"count-unflushed", "the watermark counts flushed ends", "60, NATS #7564"},
	NewISROnly:           {"new-isr-only", "while an ISR change is in flight the watermark counts the union of old and new", "32, KAFKA-12686"},
	NoEpochFence:         {"no-epoch-fence", "subscriptions and acknowledgements of another leader epoch are refused", "27, KIP-320"},
	NoBrokerEpoch:        {"no-broker-epoch", "what an earlier life of a broker told does not count", "40, KIP-903"},
	NoDivergenceCheck:    {"no-divergence-check", "a follower is sent data only when its last epoch ends as the leader's does", "27, KIP-279"},
	StaleFlush:           {"stale-flush", "a flush that began before a truncation marks nothing as flushed", "144"},
	JoinBelowWatermark:   {"join-below-watermark", "a follower joins the ISR only with everything that is committed and that was there at the election", "KIP-966"},
	LateAlterAccepted:    {"late-alter-accepted", "the answer to an ISR proposal counts only for that proposal", "34, KAFKA-13790"},
	WatermarkBelowMinISR: {"watermark-below-min-isr", "below min.insync.replicas the watermark stands still", "39, KIP-966"},
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
