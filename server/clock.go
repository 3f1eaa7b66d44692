package server

import "time"

// clock is the time that a broker lives by: monotonic since its start, and the wall clock for what people and records see.
type clock struct{ start time.Time }

func newClock() *clock { return &clock{start: time.Now()} }

// Now is the monotonic time since the start.
func (c *clock) Now() time.Duration { return time.Since(c.start) }

// WallMs is the wall clock, milliseconds since 1970.
func (c *clock) WallMs() int64 { return time.Now().UnixMilli() }
