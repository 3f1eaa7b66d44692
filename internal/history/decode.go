package history

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// maxInterned bounds the texts that a decoder keeps, so that topics and clients are not allocated once a line.
const maxInterned = 1 << 16

// decoder reads lines; it reuses the texts that come again and again.
type decoder struct {
	texts map[string]string
	scan  scanner
	timed bool // the line has a time
	from  bool // the line has a broker
}

// decode reads one line into e, whose Records are reused. Unknown members are skipped, so that a recorder may write more than the checks need.
func (d *decoder) decode(line []byte, e *Event) error {
	*e = Event{Records: e.Records[:0]}
	d.timed, d.from = false, false
	d.scan.reset(line)
	s := &d.scan
	if err := s.object(func(key []byte) { d.event(s, key, e) }); err != nil {
		return err
	}
	if s.space(); s.at < len(s.text) {
		return fmt.Errorf("byte %d: text after the object", s.at)
	}
	for i := range e.Records {
		if e.Records[i].Topic == "" {
			e.Records[i].Topic = e.Topic
		}
	}
	if !d.timed {
		return errNoTime
	}
	switch needed := e.needsBroker(); {
	case needed && !d.from:
		e.Broker = Unknown
	case d.from && e.Broker == 0 && !needed:
		e.broker0 = true
	}
	if e.Acks == acksAll {
		e.Acks = AcksISR
	}
	return e.validate()
}

func (d *decoder) event(s *scanner, key []byte, e *Event) {
	switch string(key) {
	case "t":
		e.Time, d.timed = s.integer(math.MinInt64, math.MaxInt64), true
	case "client":
		e.Client = d.intern(s.str())
	case "op":
		e.Op = s.integer(math.MinInt64, math.MaxInt64)
	case "type":
		e.Type = Type(d.intern(s.str()))
	case "kind":
		e.Kind = Kind(d.intern(s.str()))
	case "action":
		e.Action = d.intern(s.str())
	case "topic":
		e.Topic = d.intern(s.str())
	case "group":
		e.Group = d.intern(s.str())
	case "member":
		e.Member = d.intern(s.str())
	case "generation":
		e.Generation = int32(s.integer(math.MinInt32, math.MaxInt32))
	case "acks":
		e.Acks = d.intern(s.str())
	case "not_idempotent":
		e.NotIdempotent = s.boolean()
	case "ordered":
		e.Ordered = s.boolean()
	case "broker":
		e.Broker, d.from = int32(s.integer(0, math.MaxInt32)), true
	case "error":
		e.Error = string(s.str())
	case "records":
		e.Records = e.Records[:0]
		s.array(func() {
			r := Record{Partition: missing, Offset: Unknown, Epoch: Unknown}
			s.nested(func(key []byte) { d.record(s, key, &r) })
			e.Records = append(e.Records, r)
		})
	default:
		s.skip(0)
	}
}

func (d *decoder) record(s *scanner, key []byte, r *Record) {
	switch string(key) {
	case "p":
		r.Partition = int32(s.integer(math.MinInt32, math.MaxInt32))
	case "topic":
		r.Topic = d.intern(s.str())
	case "o":
		r.Offset = s.integer(math.MinInt64, math.MaxInt64)
	case "e":
		r.Epoch = int32(s.integer(math.MinInt32, math.MaxInt32))
	case "crc":
		r.CRC = uint32(s.integer(0, math.MaxUint32))
	case "v":
		r.Value = string(s.str())
	default:
		s.skip(0)
	}
}

// intern returns one copy of a text that is likely to come again.
func (d *decoder) intern(text []byte) string {
	if known, ok := d.texts[string(text)]; ok {
		return known
	}
	if d.texts == nil || len(d.texts) >= maxInterned {
		d.texts = map[string]string{}
	}
	copied := string(text)
	d.texts[copied] = copied
	return copied
}

var (
	types = []Type{Invoke, OK, Fail, Info}
	kinds = []Kind{Send, Poll, Commit, Committed, Latest, Join, Assign, Seek, Admin, Fault, Replica}
	acks  = []string{"", AcksISR, AcksLeader, AcksNone}
	// actions are those of an admin operation. What the checks do not know must not be passed over: a misspelt one would take a drain's or a deletion's place.
	actions = []string{CreateTopic, DeleteTopic, DeleteRecords, LogStart, Relaxed, Unclean, DeleteGroup, Drained}
)

// acksAll is Kafka's name of AcksISR.
const acksAll = "all"

// missing is the partition of a record that has none.
const missing = math.MinInt32

var errNoTime = errors.New("t is missing")

// validate refuses what no recorder may write.
func (e *Event) validate() error {
	switch {
	case e.Client == "":
		return fmt.Errorf("client is missing")
	case !slices.Contains(types, e.Type):
		return fmt.Errorf("type %q is not one of %q", e.Type, types)
	case !slices.Contains(kinds, e.Kind):
		return fmt.Errorf("kind %q is not one of %q", e.Kind, kinds)
	case !slices.Contains(acks, e.Acks):
		return fmt.Errorf("acks %q is not one of %q", e.Acks, acks[1:])
	case e.Kind == Admin && !slices.Contains(actions, e.Action) && (e.Action != "" || e.Type == Invoke):
		return fmt.Errorf("action %q of an admin operation is not one of %q", e.Action, actions)
	case e.Kind == Poll && e.Action != "" && e.Action != Drain:
		return fmt.Errorf("action %q of a poll is not %q", e.Action, Drain)
	}
	for i := range e.Records {
		r := &e.Records[i]
		if r.Partition == missing {
			return fmt.Errorf("record %d: p is missing", i)
		}
		if e.Action == Drained && e.Type == OK && r.Offset < 0 {
			return fmt.Errorf("record %d: o is missing: the end that the drain reached", i)
		}
		if r.Partition < Unknown || r.Offset < Kept || r.Epoch < Unknown {
			return fmt.Errorf("record %d: partition %d, offset %d, epoch %d", i, r.Partition, r.Offset, r.Epoch)
		}
	}
	return nil
}
