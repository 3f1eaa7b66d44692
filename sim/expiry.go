package sim

import (
	"math/rand/v2"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// In some histories a producer is forgotten when it has written nothing for some seconds, and not only after a day (case 70). It is longer than a request may lie on
// its way. Producers fall silent for longer then, and some write what happened before. Wall clocks are right in these histories: they must not jump by as much as
// producers are remembered.
const (
	minExpiry = 5 * time.Second
	maxExpiry = 7 * time.Second
	// maxBehind is how far the timestamps of a producer lie behind.
	maxBehind = time.Hour
)

// drawExpiry chooses how long idle producers are remembered, 0 for as long as the product does.
func drawExpiry(apart *rand.Rand) time.Duration {
	if apart.IntN(1000) >= 200 {
		return 0
	}
	return drawBetween(apart, minExpiry, maxExpiry)
}

// silence is how long a producer writes nothing, mostly for a moment.
func (p *producer) silence(moment time.Duration) time.Duration {
	w := p.l.w
	if w.mix.expiry == 0 || !w.chance(20) {
		return moment
	}
	w.cov.SilentProducers++
	return w.mix.expiry + w.between(0, 2*time.Second)
}

// drawBehind chooses how far a producer's timestamps lie behind.
func (w *World) drawBehind() time.Duration {
	if w.mix.expiry == 0 || w.chance(700) {
		return 0
	}
	return w.between(0, maxBehind)
}

// mayRepeat lets the records of an operation be stored again once the brokers may have forgotten them, if the producer still does not know what became of them.
func (p *producer) mayRepeat(op *operation, outstanding func() bool) {
	w := p.l.w
	if w.mix.expiry == 0 {
		return
	}
	w.after(w.mix.expiry, func() {
		for i := op.first; i < op.first+op.count && outstanding(); i++ {
			w.check.values[i].forgotten = true
		}
	})
}

// forgotten reports whether a producer is told of a duplicate or of a gap because a broker had forgotten it while it did not know what became of a batch, and then saw a later
// one. It goes on as another one.
func (p *producer) forgotten(op *operation, code cluster.Code) bool {
	if code != cluster.CodeDuplicateSequence && code != cluster.CodeOutOfOrderSequence || !p.l.w.check.values[op.first].forgotten {
		return false
	}
	p.l.w.cov.ProducersRenewed++
	return true
}

// expiryFloors are for them.
func expiryFloors() []floor {
	return []floor{{"producers that fell silent for longer than they are remembered", func(c *Coverage) int { return c.SilentProducers }, 50}}
}
