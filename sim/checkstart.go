package sim

import (
	"fmt"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
	"github.com/moldau-log/moldau/record"
)

// retention is a moment in which a leader may have decided what its topic no longer keeps.
type retention struct {
	by     cluster.BrokerID
	images []*cluster.Image // of which it may have had its settings
	wallMs int64            // by its own clock
	// from and size are where its log began, and how many bytes that had, before.
	from      record.Offset
	size      int64
	watermark record.Offset
}

// opensAt checks where a log begins that was opened: not above what somebody has deleted. What a leader was deleting when its log failed is deleted when the new start
// was in place by then, though nobody has heard of it.
func (c *checker) opensAt(r *replica) {
	l := c.ledgers[r.tp]
	if c.w.isSpoilt(r.b) || l == nil || r.at.LogStart <= max(l.start, l.deleted) {
		return
	}
	tried, ok := l.tried[r.b.id]
	if !ok {
		c.fail("I1: broker %d opens %s, which begins at %d, the leaders have deleted up to %d", r.b.id, c.w.named(r.tp), r.at.LogStart, l.start)
		return
	}
	c.retained(l, &r.at, &tried)
}

// retained checks that retention has deleted only what a topic does not keep, and notes it: now is the log that is left.
func (c *checker) retained(l *ledger, now *partition.Status, how *retention) {
	c.w.cov.Retentions++
	if now.LogStart > how.watermark {
		c.fail("I1: leader %d of %s deletes up to %d, above its watermark %d", how.by, c.w.named(l.tp), now.LogStart, how.watermark)
		return
	}
	// Segment after segment goes for its size or its age. Timestamps do not rise with the offsets: retries are late.
	sent := func(from record.Offset) (newest int64) {
		for at := from; at < now.LogStart && int(at) < len(l.slots); at++ {
			if s := l.slots[at]; s.known {
				newest = max(newest, c.values[s.value].sentMs)
			}
		}
		return newest
	}
	newest := sent(how.from)
	var kept []string
	for _, image := range how.images { // the configuration may have changed in this turn
		topic, _ := image.Topic(l.tp.Topic)
		config := image.TopicConfig(topic)
		kept = append(kept, fmt.Sprintf("%d bytes or %s", config.RetentionBytes, config.RetentionAge))
		big := config.RetentionBytes >= 0 && now.SizeBytes >= config.RetentionBytes
		// A clock may have been that much behind at the append. Three times are rounded down to a millisecond.
		oldest := how.wallMs - config.RetentionAge.Milliseconds() - c.w.wallLow.Milliseconds() + 3
		old := config.RetentionAge >= 0 && newest < oldest
		mixed := config.RetentionAge >= 0 && config.RetentionBytes >= 0 && how.size >= config.RetentionBytes && sent(now.LogStart-1) < oldest
		if big || old || mixed {
			l.start = now.LogStart
			return
		}
	}
	c.fail("I1: leader %d of %s has deleted %d to %d, sent until %d ms, at %d; %d bytes are left; it keeps %v",
		how.by, c.w.named(l.tp), how.from, now.LogStart, newest, how.wallMs, now.SizeBytes, kept)
}
