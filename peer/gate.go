package peer

import (
	"sync"
	"time"
)

// logGate lets one log line through per interval and counts the ones it mutes.
type logGate struct {
	every time.Duration
	now   func() time.Time

	mu    sync.Mutex // guards the two below
	last  time.Time
	muted int
}

func newLogGate(every time.Duration, now func() time.Time) *logGate {
	return &logGate{every: every, now: now}
}

// pass reports whether a line may be written now, and how many were muted since the last one.
func (g *logGate) pass() (bool, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if !g.last.IsZero() && now.Sub(g.last) < g.every {
		g.muted++
		return false, 0
	}
	muted := g.muted
	g.last, g.muted = now, 0
	return true, muted
}
