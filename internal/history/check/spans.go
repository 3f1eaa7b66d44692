package check

import "slices"

// spans are ranges of offsets, first and last included.
type spans []span

type span struct{ first, last int64 }

// merged sorts and joins what overlaps or touches.
func (s spans) merged() spans {
	slices.SortFunc(s, func(a, b span) int {
		switch {
		case a.first < b.first:
			return -1
		case a.first > b.first:
			return 1
		}
		return 0
	})
	var out spans
	for _, r := range s {
		if n := len(out); n > 0 && r.first-1 <= out[n-1].last {
			out[n-1].last = max(out[n-1].last, r.last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// has says whether an offset lies in a span; s is merged.
func (s spans) has(offset int64) bool {
	i, found := slices.BinarySearchFunc(s, offset, func(r span, offset int64) int {
		switch {
		case r.last < offset:
			return -1
		case r.first > offset:
			return 1
		}
		return 0
	})
	return found && i < len(s)
}
