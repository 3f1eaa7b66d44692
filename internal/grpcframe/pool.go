package grpcframe

import (
	"math/bits"
	"sync"
)

// Tiers of the pool, in bytes. Between two powers of two lie four tiers, so that a buffer wastes at most a quarter; batches of records
// are typically 50 to 500 KB, where a pool of powers of two would waste up to half.
const (
	minPooled    = 1 << 12
	maxPooled    = 1 << 24
	stepsPerTwo  = 4
	tierCount    = 12*stepsPerTwo + 1 // from 4 KiB to 16 MiB
	minPooledLog = 12
)

// Pool is a pool of byte buffers (a mem.BufferPool). What it hands out is not zeroed. Larger buffers than 16 MiB, and smaller ones than
// 4 KiB, are not kept. The zero Pool is ready; it must not be copied.
type Pool struct {
	tiers [tierCount]sync.Pool
}

// Get returns a buffer of that length in bytes, with arbitrary content.
func (p *Pool) Get(length int) *[]byte {
	tier, size := tierOf(length)
	if tier < 0 {
		b := make([]byte, length)
		return &b
	}
	if b, ok := p.tiers[tier].Get().(*[]byte); ok {
		*b = (*b)[:length]
		return b
	}
	b := make([]byte, length, size)
	return &b
}

// Put gives a buffer back. Nobody may use it afterwards. Buffers that this pool did not make are dropped, unless they fit a tier exactly.
func (p *Pool) Put(b *[]byte) {
	tier, size := tierOf(cap(*b))
	if tier < 0 || size != cap(*b) {
		return
	}
	p.tiers[tier].Put(b)
}

// tierOf returns the smallest tier that holds length bytes, and its size; -1 if the length is not pooled.
func tierOf(length int) (tier, size int) {
	if length < minPooled/2 || length > maxPooled {
		return -1, 0
	}
	if length <= minPooled {
		return 0, minPooled
	}
	power := bits.Len(uint(length-1)) - 1 // 2^power < length <= 2^(power+1)
	step := 1 << (power - 2)
	over := (length - 1<<power + step - 1) / step // 1 to 4 quarters above the power
	return (power-minPooledLog)*stepsPerTwo + over, 1<<power + over*step
}
