package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
)

// Backoff is how long a follower waits before it asks again for a partition that was refused, doubling from Min to Max until data arrives.
type Backoff struct{ Min, Max time.Duration }

// answerWithin is how long a subscription may stay without a first frame. A leader that admits one tells its watermark at once; one that says nothing has lost
// the request, in a full inbox, say.
const answerWithin = 5 * time.Second

// netFactor is how much longer than Backoff.Min a refusal that the replica answers itself first waits.
const netFactor = 4

// DefaultBackoff returns 20 ms to 1 s.
func DefaultBackoff() Backoff { return Backoff{Min: 20 * time.Millisecond, Max: time.Second} }

// Wanted is a partition that follows under a leader epoch.
type Wanted struct {
	Partition   cluster.TopicPartition
	LeaderEpoch record.LeaderEpoch
}

// Follower is the subscribing end of the streams to one leader broker, over reconnects. The zero value is not usable.
type Follower struct {
	backoff   Backoff
	wants     map[cluster.TopicPartition]*want
	byID      map[SubscriptionID]*want
	lastID    SubscriptionID // over all streams: what is late from an earlier one must not be taken for the present subscription's
	connected bool
	due       dueHeap
	seq       uint64
	// control are Subscribe and Unsubscribe frames in order; acks are the wants with an acknowledgement to send, each once. Both are bounded by the
	// number of partitions that are or were wanted since the last Frames.
	control []Up
	acks    []*want
}

// phase is how far a wanted partition's subscription is.
type phase uint8

const (
	resting     phase = iota // waits for its time in the heap, or for a stream
	positioning              // its position is being asked for
	active                   // subscribed; in the heap until the first frame comes
)

// want is one wanted partition.
type want struct {
	Wanted
	phase phase
	id    SubscriptionID // while active
	// from is the log end that the subscription stated; heard says that data came since.
	from  record.Offset
	heard bool

	ack     Ack // newest, if hasAck
	hasAck  bool
	ackDue  bool // is in Follower.acks
	retries int  // refusals and overruns since data was last taken

	at    time.Duration // when to ask, or ask again, while in the heap
	seq   uint64        // order among equals
	index int           // in the heap, -1 when not there
}

// NewFollower returns a Follower that wants nothing and has no stream.
func NewFollower(backoff Backoff) *Follower {
	return &Follower{backoff: backoff, wants: make(map[cluster.TopicPartition]*want), byID: make(map[SubscriptionID]*want)}
}

// Follow wants a partition under a leader epoch. A newer epoch supersedes an older one, whose subscription ends; an older one is ignored. Called again for
// the same epoch it subscribes anew, at once: the replica's position is not what the subscription assumed.
func (f *Follower) Follow(now time.Duration, w Wanted) {
	old := f.wants[w.Partition]
	if old != nil && old.LeaderEpoch > w.LeaderEpoch {
		return
	}
	if old != nil && old.LeaderEpoch == w.LeaderEpoch {
		f.leave(old)
		f.schedule(old, now)
		return
	}
	if old != nil {
		f.forget(old)
	}
	n := &want{Wanted: w, index: -1}
	f.wants[w.Partition] = n
	f.schedule(n, now)
}

// Unfollow no longer wants a partition, unless it is wanted under a newer epoch by now.
func (f *Follower) Unfollow(w Wanted) {
	if old := f.wants[w.Partition]; old != nil && old.LeaderEpoch <= w.LeaderEpoch {
		f.forget(old)
	}
}

// Len returns how many partitions are wanted.
func (f *Follower) Len() int { return len(f.wants) }

// Wants reports whether a partition is wanted under exactly that epoch.
func (f *Follower) Wants(w Wanted) bool {
	have := f.wants[w.Partition]
	return have != nil && have.LeaderEpoch == w.LeaderEpoch
}

// Connected begins a stream: everything wanted is due.
func (f *Follower) Connected(now time.Duration) {
	f.connected = true
	if planted.On(planted.SubscriptionIDsRestart) {
		f.lastID = 0
	}
	f.clearFrames()
	for _, w := range f.sorted() {
		w.retries = 0
		f.rest(w)
		f.schedule(w, now)
	}
}

// Disconnected ends the stream and returns the partitions whose subscription broke, in key order.
func (f *Follower) Disconnected() []Wanted {
	f.connected = false
	f.clearFrames()
	var lost []Wanted
	for _, w := range f.sorted() {
		if w.phase == active {
			lost = append(lost, w.Wanted)
		}
		f.rest(w)
	}
	return lost
}

// clearFrames throws away what was to be sent on a stream that is gone.
func (f *Follower) clearFrames() {
	for _, w := range f.acks {
		w.ackDue = false
	}
	f.control, f.acks = nil, nil
}

// sorted returns the wants in key order.
func (f *Follower) sorted() []*want {
	out := make([]*want, 0, len(f.wants))
	for _, w := range f.wants {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b *want) int { return a.Partition.Compare(b.Partition) })
	return out
}

// Due returns the next partition that must be subscribed now: ask for its position, then call Begin or Absent. False when there is none, or no stream.
func (f *Follower) Due(now time.Duration) (Wanted, bool) {
	if !f.connected || f.due.Len() == 0 || f.due[0].at > now {
		return Wanted{}, false
	}
	w := f.due.pop()
	f.leave(w) // one that was never answered
	w.phase = positioning
	w.hasAck = false // what was acknowledged before is part of the position
	return w.Wanted, true
}

// NextDue returns when Due will have something; false when only an event can change that.
func (f *Follower) NextDue() (time.Duration, bool) {
	if !f.connected || f.due.Len() == 0 {
		return 0, false
	}
	return f.due[0].at, true
}

// Begin subscribes from a position; s.ID is set here. False when the partition is no longer wanted under that epoch.
func (f *Follower) Begin(now time.Duration, s Subscribe) bool {
	w := f.wants[s.Partition]
	if w == nil || w.LeaderEpoch != s.LeaderEpoch || w.phase != positioning || !f.connected {
		return false
	}
	f.lastID++
	s.ID = f.lastID
	w.phase, w.id, w.from, w.heard = active, s.ID, s.LogEnd, false
	f.byID[s.ID] = w
	f.schedule(w, now+answerWithin)
	f.control = append(f.control, s)
	if w.hasAck && (w.ack.LogEnd != s.LogEnd || w.ack.Flushed <= s.Flushed) {
		w.hasAck = false
	}
	f.queueAck(w)
	return true
}

// Absent says that a due partition has no position: it does not follow under that epoch, not yet or no longer. It is asked again later, until somebody
// calls Unfollow; the replica that begins to follow calls Follow.
func (f *Follower) Absent(now time.Duration, w Wanted) {
	if have := f.wants[w.Partition]; have != nil && have.LeaderEpoch == w.LeaderEpoch && have.phase == positioning {
		f.rest(have)
		f.retry(now, have, netFactor*f.backoff.Min)
	}
}

// Received returns whose data frame this is; false when its subscription has ended.
func (f *Follower) Received(id SubscriptionID) (Wanted, bool) {
	w := f.byID[id]
	if w == nil {
		return Wanted{}, false
	}
	if w.heard {
		w.retries = 0 // the frame before this one was taken
		return w.Wanted, true
	}
	w.heard = true
	f.due.remove(w)
	return w.Wanted, true
}

// Refused ends a subscription that the leader refused or ended, to be tried again later; false when it has ended already. The replica calls Follow when it is
// ready to ask again, after it has cut its log where that is due; the attempt from here is a net below that, and comes later.
func (f *Follower) Refused(now time.Duration, r Refused) (Wanted, bool) {
	w := f.byID[r.ID]
	if w == nil {
		return Wanted{}, false
	}
	f.rest(w)
	first := netFactor * f.backoff.Min
	if r.Diverged || r.Code == cluster.CodeOffsetOutOfRange {
		first = f.backoff.Max
	}
	f.retry(now, w, first)
	return w.Wanted, true
}

// Overrun ends a subscription whose data the local replica did not take, to be begun again later from where the replica then is.
func (f *Follower) Overrun(now time.Duration, id SubscriptionID) {
	w := f.byID[id]
	if w == nil {
		return
	}
	f.leave(w)
	f.retry(now, w, f.backoff.Min)
}

// Acknowledge takes how far the replica is; the newest counts. It reports whether there is a frame to send for it. a.ID is ignored.
func (f *Follower) Acknowledge(w Wanted, a Ack) bool {
	have := f.wants[w.Partition]
	if have == nil || have.LeaderEpoch != w.LeaderEpoch || have.phase == resting {
		return false // the position will say it
	}
	if have.phase == active && !have.heard && a.LogEnd != have.from && !planted.On(planted.AckFromBeforeTruncation) {
		return false // from before a truncation
	}
	have.ack, have.hasAck = a, true
	return f.queueAck(have)
}

// queueAck puts a want with an acknowledgement into the list of those to send.
func (f *Follower) queueAck(w *want) bool {
	if w.phase != active || !w.hasAck {
		return false
	}
	if !w.ackDue {
		w.ackDue = true
		f.acks = append(f.acks, w)
	}
	return true
}

// Frames appends what is to be sent: subscriptions in order, then one acknowledgement per partition that has one.
func (f *Follower) Frames(dst []Up) []Up {
	dst = append(dst, f.control...)
	f.control = f.control[:0]
	for _, w := range f.acks {
		w.ackDue = false
		if w.phase != active || !w.hasAck {
			continue
		}
		w.ack.ID = w.id
		w.hasAck = false
		dst = append(dst, w.ack)
	}
	f.acks = f.acks[:0]
	return dst
}

// forget removes a want and ends its subscription.
func (f *Follower) forget(w *want) {
	f.leave(w)
	delete(f.wants, w.Partition)
}

// leave ends a want's subscription, if there is one, and tells the leader.
func (f *Follower) leave(w *want) {
	if w.phase == active {
		f.control = append(f.control, Unsubscribe{ID: w.id})
	}
	f.rest(w)
}

// rest takes a want out of every structure but wants.
func (f *Follower) rest(w *want) {
	if w.phase == active {
		delete(f.byID, w.id)
	}
	w.phase, w.hasAck = resting, false // ackDue stays: the want is still in acks, and Frames skips it
	f.due.remove(w)
}

// retry schedules the next attempt after a refusal: after first, doubling with every one in a row.
func (f *Follower) retry(now time.Duration, w *want, first time.Duration) {
	wait := f.backoff.Max
	if w.retries < 16 {
		wait = min(first<<w.retries, f.backoff.Max)
	}
	w.retries++
	f.schedule(w, now+wait)
}

func (f *Follower) schedule(w *want, at time.Duration) {
	f.due.remove(w)
	f.seq++
	w.at, w.seq = at, f.seq
	f.due.push(w)
}

// less orders by time, then by when it was scheduled.
func (w *want) less(o *want) bool {
	return cmp.Or(cmp.Compare(w.at, o.at), cmp.Compare(w.seq, o.seq)) < 0
}
