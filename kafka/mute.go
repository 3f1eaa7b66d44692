package kafka

import "time"

// longestMute is for how long a client is muted at most: a fraction of what consumers wait for records by default, for the records that come meanwhile.
const longestMute = 250 * time.Millisecond

// mute has a client come again later, as Apache Kafka throttles (KIP-219): its answer goes out at once and says in how many milliseconds, which mute returns, and the next
// request of the connection is not looked at before. Nothing of the request is held meanwhile. The pause is no longer than the client was ready to wait.
func (c *conn) mute(wished time.Duration) int32 {
	c.muted = min(wished, longestMute)
	return int32(c.muted.Milliseconds())
}

// pause waits as long as the client is muted, until it has gone, or the door closes.
func (c *conn) pause() {
	if c.muted <= 0 {
		return
	}
	timer := time.NewTimer(c.muted)
	defer timer.Stop()
	c.muted = 0
	select {
	case <-timer.C:
	case <-c.ctx.Done():
	}
}
