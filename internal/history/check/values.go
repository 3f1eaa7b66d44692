package check

import (
	"math"
	"slices"
	"strconv"

	"github.com/moldau-log/moldau/internal/history"
)

// valueID names a value: the client in the upper bits, its sequence number below. Client 0 has what does not describe itself. 0 is no value.
type valueID uint64

const (
	seqBits   = 40
	valuePage = 16 // few, as a page may hold one value only
)

// status is how the send of a value ended. Unknown stays unknown for ever.
type status uint8

const (
	neverSent status = iota
	unknown
	okay
	failed
)

// value is what is known of one value. It is kept for every record of a history, so it is small: 64 bytes.
type value struct {
	began, ended int64 // of its send
	firstRead    int64 // end of the earliest poll that returned it
	op           int64
	offset       int64 // where it was first seen or acknowledged; see placed
	acked        int64 // offset of the acknowledgement, -1 for none
	place        int32 // partition of offset
	want         int32 // partition that it was sent to, -1 for not known
	status       status
	weak         bool // the acknowledgement promises nothing
	loose        bool // its producer's retries may store it twice
	placed       bool
	read         bool // in a poll
	stored       bool // in a replica's log
}

// values are all values of a history, in pages, because sequence numbers are dense.
type values struct {
	pages map[valueID]*[valuePage]value
	// last is the page of the last look-up: a producer's values come in order.
	lastKey valueID
	last    *[valuePage]value
	foreign map[string]valueID
	texts   []string // of foreign values
}

func newValues() values {
	return values{pages: map[valueID]*[valuePage]value{}, foreign: map[string]valueID{}}
}

// valueOf finds the id of a value's text.
func (c *Checker) valueOf(text string) valueID {
	v, err := history.ParseValue(text)
	if err == nil && v.Seq < 1<<seqBits {
		return valueID(c.names.client(v.Client))<<seqBits | valueID(v.Seq)
	}
	id, ok := c.values.foreign[text]
	if !ok {
		c.values.texts = append(c.values.texts, text)
		id = valueID(len(c.values.texts))
		c.values.foreign[text] = id
	}
	return id
}

func (id valueID) isForeign() bool { return id>>seqBits == 0 }

func (id valueID) seq() int64 { return int64(id & (1<<seqBits - 1)) }

// text is a value as the history has it, without its checksum.
func (c *Checker) text(id valueID) string {
	if id.isForeign() {
		return c.values.texts[id-1]
	}
	return c.names.texts[id>>seqBits] + "/" + strconv.FormatInt(id.seq(), 10)
}

// at is what is known of a value.
func (v *values) at(id valueID) *value {
	key := id / valuePage
	if v.last == nil || v.lastKey != key {
		page := v.pages[key]
		if page == nil {
			page = new([valuePage]value)
			for i := range page {
				page[i] = value{want: -1, acked: -1, firstRead: math.MaxInt64}
			}
			v.pages[key] = page
		}
		v.last, v.lastKey = page, key
	}
	return &v.last[id%valuePage]
}

// each calls f for every value that was sent or seen: by client, and in the order of each client's sequence.
func (v *values) each(f func(id valueID, v *value)) {
	keys := make([]valueID, 0, len(v.pages))
	for key := range v.pages {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		page := v.pages[key]
		for i := range page {
			if page[i].status != neverSent || page[i].placed {
				f(key*valuePage+valueID(i), &page[i])
			}
		}
	}
}
