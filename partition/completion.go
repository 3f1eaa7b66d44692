package partition

import "sync/atomic"

// Completion is the slot into which the answer of one produce request is put. The caller reserves it before it asks, so a Runner never
// waits for anybody: to complete is to store the result and to wake without blocking. It comes in two forms. With Reset, one wake channel of capacity 1
// serves all completions of a connection, whose goroutine then looks at its oldest ones; such a Completion may be used again once Done. With
// NewCompletion, a function is called with the answer.
type Completion struct {
	result ProduceResult
	done   atomic.Bool
	wake   chan<- struct{}
	call   func(ProduceResult)
}

// NewCompletion returns a slot that hands its answer to call, on the Runner's goroutine: call must not block and must not call back into the
// partition.
func NewCompletion(call func(ProduceResult)) *Completion { return &Completion{call: call} }

// Reset prepares the slot for one request. wake may be nil for a caller that polls Done; otherwise it has a capacity of at least 1.
func (c *Completion) Reset(wake chan<- struct{}) {
	c.result = ProduceResult{}
	c.wake = wake
	c.done.Store(false)
}

// Done reports whether the answer is there.
func (c *Completion) Done() bool { return c.done.Load() }

// Result is the answer. It may be called only after Done has returned true.
func (c *Completion) Result() ProduceResult { return c.result }

// complete stores the answer and wakes whoever waits. It is called exactly once per request.
func (c *Completion) complete(r ProduceResult) {
	if c.call != nil {
		c.call(r)
		return
	}
	c.result = r
	wake := c.wake
	c.done.Store(true) // from here on the caller may reuse c
	if wake == nil {
		return
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}
