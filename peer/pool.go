package peer

import "sync"

// bufferPool lends the buffers that received batches lie in until the log has them. A buffer comes from the smallest tier that fits, so that at
// most half of it is unused; larger ones than the last tier are allocated and left to the collector, and so are idle ones of any tier.
type bufferPool struct{ tiers []tier }

// tier is the buffers of one size. sync.Pool holds pointers to arrays: a slice would be boxed, which allocates.
type tier struct {
	size int
	pool *sync.Pool
	get  func(*sync.Pool) []byte
	put  func(*sync.Pool, []byte)
}

func newBufferPool() *bufferPool {
	return &bufferPool{tiers: []tier{
		newTier(func(a *[4 << 10]byte) []byte { return a[:] }, func(b []byte) *[4 << 10]byte { return (*[4 << 10]byte)(b) }),
		newTier(func(a *[8 << 10]byte) []byte { return a[:] }, func(b []byte) *[8 << 10]byte { return (*[8 << 10]byte)(b) }),
		newTier(func(a *[16 << 10]byte) []byte { return a[:] }, func(b []byte) *[16 << 10]byte { return (*[16 << 10]byte)(b) }),
		newTier(func(a *[32 << 10]byte) []byte { return a[:] }, func(b []byte) *[32 << 10]byte { return (*[32 << 10]byte)(b) }),
		newTier(func(a *[64 << 10]byte) []byte { return a[:] }, func(b []byte) *[64 << 10]byte { return (*[64 << 10]byte)(b) }),
		newTier(func(a *[128 << 10]byte) []byte { return a[:] }, func(b []byte) *[128 << 10]byte { return (*[128 << 10]byte)(b) }),
		newTier(func(a *[256 << 10]byte) []byte { return a[:] }, func(b []byte) *[256 << 10]byte { return (*[256 << 10]byte)(b) }),
		newTier(func(a *[512 << 10]byte) []byte { return a[:] }, func(b []byte) *[512 << 10]byte { return (*[512 << 10]byte)(b) }),
		newTier(func(a *[1 << 20]byte) []byte { return a[:] }, func(b []byte) *[1 << 20]byte { return (*[1 << 20]byte)(b) }),
		newTier(func(a *[2 << 20]byte) []byte { return a[:] }, func(b []byte) *[2 << 20]byte { return (*[2 << 20]byte)(b) }),
		newTier(func(a *[4 << 20]byte) []byte { return a[:] }, func(b []byte) *[4 << 20]byte { return (*[4 << 20]byte)(b) }),
	}}
}

func newTier[A any](slice func(*A) []byte, array func([]byte) *A) tier {
	return tier{
		size: len(slice(new(A))),
		pool: new(sync.Pool),
		get: func(p *sync.Pool) []byte {
			if a, ok := p.Get().(*A); ok {
				return slice(a)
			}
			return slice(new(A))
		},
		put: func(p *sync.Pool, b []byte) { p.Put(array(b)) },
	}
}

// largest is the size of the last tier.
func (p *bufferPool) largest() int { return p.tiers[len(p.tiers)-1].size }

// get returns a buffer of exactly n bytes, with what is left in it from its last use.
func (p *bufferPool) get(n int) []byte {
	for i := range p.tiers {
		if t := &p.tiers[i]; n <= t.size {
			return t.get(t.pool)[:n]
		}
	}
	return make([]byte, n)
}

// put takes a buffer back that get returned; the caller and everybody it was shown to have forgotten it. Others are ignored.
func (p *bufferPool) put(b []byte) {
	for i := range p.tiers {
		if t := &p.tiers[i]; cap(b) == t.size {
			t.put(t.pool, b[:t.size])
			return
		}
	}
}
