package session

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// Limits bounds the leader's end of one stream.
type Limits struct {
	// StreamCredit is how many bytes of batches may be sent and not acknowledged as appended, over all partitions.
	StreamCredit int
	// PartitionCredit is the same for one partition, so that a slow one does not use up the stream's.
	PartitionCredit int
	// MaxSend is how many bytes one data frame carries, unless a single batch is larger.
	MaxSend int
	// MaxSubscriptions is how many partitions one stream carries.
	MaxSubscriptions int
}

// DefaultLimits returns 8 MiB per stream, 4 MiB per partition, 512 KiB per frame and 65,536 partitions.
func DefaultLimits() Limits {
	return Limits{StreamCredit: 8 << 20, PartitionCredit: 4 << 20, MaxSend: 512 << 10, MaxSubscriptions: 1 << 16}
}

// The ways in which a follower breaks the protocol: the stream is to be closed.
var (
	ErrReusedID = errors.New("session: subscription id is not above the ones before it")
	ErrTooMany  = errors.New("session: too many subscriptions on one stream")
)

// maxChunks bounds the memory that one subscription's unacknowledged sends take; more of them merge.
const maxChunks = 64

// Leader is the sending end of one stream. The zero value is not usable.
type Leader struct {
	limits      Limits
	subs        map[SubscriptionID]*outgoing
	byPartition map[cluster.TopicPartition]*outgoing
	highest     SubscriptionID
	inFlight    int // bytes sent and not acknowledged
	// first and last are the ends of the queue of subscriptions that may have something to send and have credit of their own.
	first, last *outgoing
}

// outgoing is one subscription.
type outgoing struct {
	sub      Subscribe
	accepted bool
	position record.Offset // next to be sent
	chunks   []chunk       // sent and not acknowledged, oldest first
	inFlight int           // their bytes
	// told says that a frame has carried highWatermark and logStart.
	told                    bool
	highWatermark, logStart record.Offset

	dirty      bool // woken, or sent, since it was last found empty
	queued     bool
	prev, next *outgoing
}

// chunk is a stretch of sent bytes: acknowledged when the follower's log end reaches end.
type chunk struct {
	end   record.Offset
	bytes int
}

// NewLeader returns a Leader without subscriptions.
func NewLeader(limits Limits) *Leader {
	return &Leader{limits: limits, subs: make(map[SubscriptionID]*outgoing), byPartition: make(map[cluster.TopicPartition]*outgoing)}
}

// Subscribe takes a request in; nothing is sent for it until Accepted. It supersedes a subscription of the same partition, whose id it returns. An error is
// the follower's fault and ends the stream.
func (l *Leader) Subscribe(s Subscribe) (old SubscriptionID, superseded bool, err error) {
	if s.ID <= l.highest {
		return 0, false, fmt.Errorf("%w: %d after %d", ErrReusedID, s.ID, l.highest)
	}
	l.highest = s.ID
	if o := l.byPartition[s.Partition]; o != nil {
		old, superseded = o.sub.ID, true
		l.remove(o)
	}
	if len(l.subs) >= l.limits.MaxSubscriptions {
		return old, superseded, ErrTooMany
	}
	o := &outgoing{sub: s, position: s.LogEnd}
	l.subs[s.ID] = o
	l.byPartition[s.Partition] = o
	return old, superseded, nil
}

// Accepted says that the leader's core has admitted the follower: sending begins. False when the subscription has ended meanwhile.
func (l *Leader) Accepted(id SubscriptionID) bool {
	o := l.subs[id]
	if o == nil {
		return false
	}
	o.accepted = true
	l.stir(o)
	return true
}

// Wake says that a subscription may have something to send. It reports whether it has joined the queue by that, so that the sender must be woken.
func (l *Leader) Wake(id SubscriptionID) bool {
	o := l.subs[id]
	if o == nil || !o.accepted || o.queued {
		return false
	}
	l.stir(o)
	return o.queued
}

// End removes a subscription that was refused or unsubscribed, and returns its partition; false when it is not there.
func (l *Leader) End(id SubscriptionID) (cluster.TopicPartition, bool) {
	o := l.subs[id]
	if o == nil {
		return cluster.TopicPartition{}, false
	}
	l.remove(o)
	return o.sub.Partition, true
}

// Acked takes an acknowledgement in, which frees credit, and returns the request it belongs to. It is not ok when the subscription has ended: the
// acknowledgement means nothing any more. It may lie beyond what this subscription has sent: frames of the one before may still have waited at the
// follower when that stated its position. Whether it lies beyond the log is the replica's to check.
func (l *Leader) Acked(a Ack) (of Subscribe, ok bool) {
	o := l.subs[a.ID]
	if o == nil {
		return Subscribe{}, false
	}
	done := 0
	for done < len(o.chunks) && o.chunks[done].end <= a.LogEnd {
		o.inFlight -= o.chunks[done].bytes
		l.inFlight -= o.chunks[done].bytes
		done++
	}
	o.chunks = append(o.chunks[:0], o.chunks[done:]...)
	if o.dirty && done > 0 {
		l.enqueue(o)
	}
	return o.sub, true
}

// Send is one turn: read at most Max bytes of a partition from From on, tell Sent what that gave, and write it if Sent says so.
type Send struct {
	ID        SubscriptionID
	Partition cluster.TopicPartition
	From      record.Offset
	Max       int
}

// Next picks whose turn it is; false when nobody has both something to send and credit. The subscription leaves the queue.
func (l *Leader) Next() (Send, bool) {
	for l.Ready() {
		room := l.limits.StreamCredit - l.inFlight
		o := l.first
		l.dequeue(o)
		own := l.limits.PartitionCredit - o.inFlight
		if o.inFlight > 0 && own < l.quantum() {
			continue // comes back with an acknowledgement
		}
		o.dirty = false
		return Send{ID: o.sub.ID, Partition: o.sub.Partition, From: o.position, Max: min(room, own, l.limits.MaxSend)}, true
	}
	return Send{}, false
}

// quantum is the least credit that is worth a turn: smaller pieces would cost a frame and a system call each.
func (l *Leader) quantum() int { return max(l.limits.MaxSend/4, 1) }

// Found is what a turn read.
type Found struct {
	Bytes                   int           // 0: nothing new
	End                     record.Offset // behind the last batch
	HighWatermark, LogStart record.Offset
}

// Sent takes the outcome of a turn in, and reports whether a frame is due: there are bytes, or the follower has not heard the watermark or log start. A
// partition with bytes goes to the end of the queue; one without rests until it is woken.
func (l *Leader) Sent(id SubscriptionID, f Found) bool {
	o := l.subs[id]
	if o == nil {
		return false
	}
	news := !o.told || f.HighWatermark != o.highWatermark || f.LogStart != o.logStart
	o.told, o.highWatermark, o.logStart = true, f.HighWatermark, f.LogStart
	if f.Bytes == 0 {
		return news
	}
	o.position = f.End
	o.inFlight += f.Bytes
	l.inFlight += f.Bytes
	if n := len(o.chunks); n >= maxChunks {
		o.chunks[n-1] = chunk{end: f.End, bytes: o.chunks[n-1].bytes + f.Bytes}
	} else {
		o.chunks = append(o.chunks, chunk{end: f.End, bytes: f.Bytes})
	}
	l.stir(o)
	return true
}

// Ready reports whether Next has somebody.
func (l *Leader) Ready() bool {
	return l.first != nil && (l.inFlight == 0 || l.limits.StreamCredit-l.inFlight >= l.quantum())
}

// Subscriptions returns what is subscribed, in the order of the ids.
func (l *Leader) Subscriptions() []Subscribe {
	out := make([]Subscribe, 0, len(l.subs))
	for _, o := range l.subs {
		out = append(out, o.sub)
	}
	slices.SortFunc(out, func(a, b Subscribe) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// InFlight returns the bytes sent and not acknowledged.
func (l *Leader) InFlight() int { return l.inFlight }

// Len returns how many subscriptions there are.
func (l *Leader) Len() int { return len(l.subs) }

// stir marks a subscription as having something to send and queues it if its credit allows.
func (l *Leader) stir(o *outgoing) {
	o.dirty = true
	l.enqueue(o)
}

func (l *Leader) enqueue(o *outgoing) {
	if o.queued || o.inFlight > 0 && l.limits.PartitionCredit-o.inFlight < l.quantum() {
		return
	}
	o.queued = true
	o.prev, o.next = l.last, nil
	if l.last != nil {
		l.last.next = o
	} else {
		l.first = o
	}
	l.last = o
}

func (l *Leader) dequeue(o *outgoing) {
	if !o.queued {
		return
	}
	if o.prev != nil {
		o.prev.next = o.next
	} else {
		l.first = o.next
	}
	if o.next != nil {
		o.next.prev = o.prev
	} else {
		l.last = o.prev
	}
	o.queued, o.prev, o.next = false, nil, nil
}

func (l *Leader) remove(o *outgoing) {
	l.dequeue(o)
	l.inFlight -= o.inFlight
	delete(l.subs, o.sub.ID)
	delete(l.byPartition, o.sub.Partition)
}
