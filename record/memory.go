package record

import (
	"context"

	"github.com/moldau-log/moldau/internal/budget"
)

// Memory bounds the bytes that all decompressions of a process hold at once, together with what Hold adds. Who finds no room waits for the others: a decompression
// waits for nothing else, so the wait is short. One at a time passes above the bound, or those that need more to go on could wait for each other; so at most the
// bound and one decompressed batch, twice while its buffer grows, are held. A nil Memory bounds nothing. It is safe for concurrent use.
type Memory struct {
	budget *budget.Budget
}

// NewMemory returns a Memory of so many bytes.
func NewMemory(bytes int) *Memory { return &Memory{budget: budget.New(bytes)} }

// Hold counts bytes that were made of a decompressed batch and stay in memory until release is called, once. It waits until there is room for them, or nothing else is
// held. The caller must not wait for anything that decompresses before it releases.
func (m *Memory) Hold(bytes int) (release func()) {
	if m == nil {
		return func() {}
	}
	if err := m.budget.Take(context.Background(), bytes); err != nil {
		return func() {}
	}
	return func() { m.budget.Give(bytes) }
}

// Held is the number of bytes that are held now.
func (m *Memory) Held() int64 {
	if m == nil {
		return 0
	}
	return m.budget.Held()
}

// charge is what one decompression has of a Memory. The zero value has nothing, and counts nothing before begin.
type charge struct {
	of     *Memory
	growth budget.Growth
	held   int
}

// begin names the Memory that take counts in; nil for none.
func (c *charge) begin(m *Memory) {
	if m != nil {
		*c = charge{of: m, growth: m.budget.Growth()}
	}
}

// take counts bytes before they are allocated.
func (c *charge) take(bytes int) {
	if c.of == nil || bytes <= 0 {
		return
	}
	// The context never ends: others give back what they hold without waiting for this one.
	if err := c.growth.Take(context.Background(), bytes); err == nil {
		c.held += bytes
	}
}

// give returns bytes that take has counted.
func (c *charge) give(bytes int) {
	if c.of != nil && bytes > 0 {
		c.held -= bytes
		c.of.budget.Give(bytes)
	}
}

// end returns everything.
func (c *charge) end() {
	if c.of == nil {
		return
	}
	c.growth.Settle()
	c.give(c.held)
	*c = charge{}
}
