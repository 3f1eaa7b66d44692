package record

// Most records are small and without headers: every number in them takes one or two bytes. decodeShort reads those in about half
// the time of decode and leaves all others, and every fault, to it. So decode alone defines the format; a fuzz test holds the two together.

// shortNumber is the most that a number of two bytes holds, before zig-zag. shortNumberAt gives more for a longer one.
const shortNumber = 1<<14 - 1

// shortSlack is how many bytes must be left so that what precedes the key can be read without a check each: length, attributes,
// timestamp delta, offset delta.
const shortSlack = 2 + 1 + 2 + 2

// shortNumberAt reads a number of one or two bytes, and the position behind it.
func shortNumberAt(b []byte, pos int) (uint, int) {
	if v := uint(b[pos]); v < 0x80 {
		return v, pos + 1
	}
	return uint(b[pos]&0x7f) | uint(b[pos+1])<<7, pos + 2
}

// decodeShort decodes the record at c if it has the short shape, and reports whether it did. Otherwise c is where it was.
func (r *rawRecord) decodeShort(c *cursor) bool {
	b := c.b
	if c.remaining() < shortSlack {
		return false
	}
	size, pos := shortNumberAt(b, c.pos)
	end := pos + int(size>>1)
	timestampDelta, pos := shortNumberAt(b, pos+1)
	offsetDelta, pos := shortNumberAt(b, pos)
	key, pos, ok := shortField(b, pos, end)
	if size|timestampDelta|offsetDelta > shortNumber || size&1 != 0 || end > len(b) || !ok {
		return false
	}
	value, pos, ok := shortField(b, pos, end)
	if !ok || pos+1 != end || b[pos] != 0 { // no headers
		return false
	}
	*r = rawRecord{
		timestampDelta: int64(timestampDelta>>1) ^ -int64(timestampDelta&1),
		offsetDelta:    int32(offsetDelta>>1) ^ -int32(offsetDelta&1),
		key:            key,
		value:          value,
	}
	c.pos = end
	return true
}

// shortField reads a nullable field that ends at least one byte before end.
func shortField(b []byte, pos, end int) ([]byte, int, bool) {
	if pos+2 > end || end > len(b) {
		return nil, pos, false
	}
	n, pos := shortNumberAt(b, pos)
	if n == 1 {
		return nil, pos, true
	}
	stop := pos + int(n>>1)
	if n&1 != 0 || n > shortNumber || stop >= end {
		return nil, pos, false
	}
	return b[pos:stop:stop], stop, true
}
