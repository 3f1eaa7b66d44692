package check

import (
	"errors"
	"fmt"

	"github.com/moldau-log/moldau/internal/history"
)

// opKey names an operation that has begun and not ended.
type opKey struct {
	client int32
	op     int64
}

// operation is what its completion needs of an invoke.
type operation struct {
	kind    history.Kind
	action  string
	began   int64
	group   string
	said    said
	topic   string
	values  []valueID
	commits []*commit
	trims   map[*part]*trim
	fault   int // index in Checker.faults
}

// beganAt is when the operation of a completion began, as far as that is known.
func beganAt(op *operation, e *history.Event) int64 {
	if op == nil {
		return e.Time
	}
	return op.began
}

// What a recorder must not write.
var (
	errNoInvoke = errors.New("it completes what was not begun")
	errTwice    = errors.New("an operation of this number is under way")
	errReused   = errors.New("its value was sent before")
	errForeign  = errors.New("its value does not describe itself")
	errSeq      = fmt.Errorf("the SEQ of its value is not below %d", int64(1)<<seqBits)
	errNoPlace  = errors.New("it is acknowledged without partition and offset")
	errClients  = errors.New("too many clients")
)

// maxClients bounds the clients of a history, because their numbers are part of a valueID.
const maxClients = 1 << 23

// begin takes an invoke.
func (c *Checker) begin(client int32, e *history.Event) error {
	if len(c.names.texts) > maxClients {
		return errClients
	}
	key := opKey{client, e.Op}
	if c.pending[key] != nil {
		return errTwice
	}
	op := &operation{kind: e.Kind, action: e.Action, began: e.Time, group: e.Group, said: saidBy(e)}
	c.pending[key] = op
	c.counts.of(e.Kind).Begun++
	switch e.Kind {
	case history.Send:
		return c.sending(op, e)
	case history.Commit:
		c.committing(op, client, e)
	case history.Admin:
		c.administering(op, e)
	case history.Fault:
		op.fault = len(c.faults)
		c.faults = append(c.faults, faultWindow{name: e.Action, began: e.Time, client: client, op: e.Op})
	}
	return nil
}

// needsInvoke says which kinds cannot do without one: those whose beginning is what they are judged by.
func needsInvoke(k history.Kind) bool {
	return k == history.Send || k == history.Commit || k == history.Committed || k == history.Latest
}

// end finds what a completion ends; nil where the kind can do without an invoke.
func (c *Checker) end(client int32, e *history.Event) (*operation, error) {
	key := opKey{client, e.Op}
	op := c.pending[key]
	if op != nil && op.kind != e.Kind {
		return nil, fmt.Errorf("it began as %s", op.kind)
	}
	if op != nil && e.Kind == history.Admin && e.Action != "" && e.Action != op.action {
		return nil, fmt.Errorf("it began as %s", op.action)
	}
	if op == nil && needsInvoke(e.Kind) {
		return nil, errNoInvoke
	}
	if op != nil && e.Time < op.began {
		return nil, fmt.Errorf("it ends before it began, at %d: all times have to be of one clock", op.began)
	}
	delete(c.pending, key)
	n := c.counts.of(e.Kind)
	if op == nil {
		n.Begun++
	}
	switch e.Type {
	case history.OK:
		n.OK++
	case history.Fail:
		n.Fail++
	default:
		n.Info++
	}
	return op, nil
}

// sending notes the values of a send that begins.
func (c *Checker) sending(op *operation, e *history.Event) error {
	op.values = make([]valueID, len(e.Records))
	for i := range e.Records {
		r := &e.Records[i]
		id := c.valueOf(r.Value)
		if id.isForeign() {
			if _, err := history.ParseValue(r.Value); err == nil {
				return fmt.Errorf("%s: %w", r.Value, errSeq)
			}
			return errForeign
		}
		v := c.values.at(id)
		if v.status != neverSent {
			return fmt.Errorf("%s: %w", r.Value, errReused)
		}
		v.status, v.began, v.op = unknown, e.Time, e.Op
		v.weak = e.Acks == history.AcksLeader || e.Acks == history.AcksNone
		v.loose = e.NotIdempotent
		if p := c.part(r.Topic, r.Partition); p != nil {
			v.want = p.index
			p.begun = append(p.begun, e.Time)
		}
		op.values[i] = id
		c.counts.Values++
	}
	return nil
}

// sent notes how a send ended.
func (c *Checker) sent(op *operation, e *history.Event) error {
	if e.Type == history.OK && len(e.Records) != len(op.values) {
		return fmt.Errorf("%d of its %d records are acknowledged", len(e.Records), len(op.values))
	}
	var counted *part
	for i, id := range op.values {
		v := c.values.at(id)
		if e.Type != history.Info {
			v.ended = e.Time
		}
		switch e.Type {
		case history.Fail:
			v.status = failed
		case history.OK:
			v.status = okay
			r := &e.Records[i]
			if r.Value != "" && c.valueOf(r.Value) != id {
				return fmt.Errorf("record %d is not the one that was sent", i)
			}
			p := c.part(r.Topic, r.Partition)
			if p == nil || r.Offset < 0 {
				if !v.weak {
					return errNoPlace
				}
				continue
			}
			v.acked = r.Offset
			c.place(p, r.Offset, id, v, byAck)
			if p != counted {
				counted = p
				p.acked = append(p.acked, e.Time)
			}
		}
	}
	return nil
}
