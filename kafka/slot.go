package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/internal/budget"
)

// slot is the place of one answer in the order of answers.
type slot struct {
	key, version int16
	correlation  int32
	clientID     string
	start        time.Time
	response     kmsg.Response  // set before done is closed
	encoded      []byte         // the answer, where it is ready with done; otherwise the writer encodes the response
	cuts         []cut          // ranges of segments that belong into encoded
	copied       func()         // counts the records in encoded when it is written; may be nil
	working      *budget.Budget // of which a large request has taken large; nil otherwise
	large        int
	held         *budget.Budget // of which the request's bytes have frame
	frame        int
	shares       *budget.Budget // of which the answer has taken share until it is written; nil otherwise
	share        int
	outcome      string // for the meter: "none" or what was refused
	done         chan struct{}
	written      chan struct{} // closed by the writer, or when the connection has ended
	free         func()        // what the answer holds until it is written, and for which the next request waits; may be nil
	sent         func()        // as free, for what the next request does not wait for; may be nil
}

// size is that of an encoded answer with its ranges.
func (s *slot) size() int {
	n := len(s.encoded)
	for i := range s.cuts {
		n += s.cuts[i].slice.Len()
	}
	return n
}

// unshare gives back what the answer has of what all connections share.
func (s *slot) unshare() {
	if s.shares != nil {
		s.shares.Give(s.share)
		s.shares = nil
	}
}

// unframe gives back what the request's bytes have of what all connections share, but for kept of them, so that a request that waits keeps nobody from another. Nothing may use
// the bytes any more. Its connection counts them until it is answered: no large request is read behind it. JoinGroup and SyncGroup, which wait for others too, do not call it before
// they are answered: the group copies what a member says, and this is all that bounds such copies over all groups.
func (s *slot) unframe(kept int) {
	if s.frame > kept {
		s.held.Give(s.frame - kept)
		s.frame = kept
	}
}
