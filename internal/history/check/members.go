package check

import (
	"errors"
	"fmt"

	"github.com/moldau-log/moldau/internal/history"
)

// said is what an invoke said, and its completion may leave out.
type said struct {
	// topic is the one that all its records have, or its own.
	topic      string
	member     string
	generation int32
	broker     int32
}

func saidBy(e *history.Event) said {
	s := said{topic: e.Topic, member: e.Member, generation: e.Generation, broker: e.Broker}
	for i := range e.Records {
		if s.topic = e.Records[0].Topic; e.Records[i].Topic != s.topic {
			s.topic = ""
			break
		}
	}
	return s
}

// completed is a completion with what its invoke said and it left out; it is valid until the next one.
func (c *Checker) completed(op *operation, e *history.Event) *history.Event {
	if op == nil {
		return e
	}
	full := &c.full
	records := full.Records[:0]
	*full = *e
	if e.Action == "" && op.action != "" {
		full.Action = op.action
		if !e.NamesBroker() {
			full.Broker = history.Unknown
		}
	}
	if full.Broker == history.Unknown {
		full.Broker = op.said.broker
	}
	if full.Group == "" {
		full.Group = op.group
	}
	if full.Member == "" {
		full.Member = op.said.member
	}
	if full.Generation == 0 {
		full.Generation = op.said.generation
	}
	if full.Topic == "" && len(e.Records) == 0 {
		full.Topic = op.said.topic
	}
	full.Records = append(records, e.Records...)
	for i := range full.Records {
		if r := &full.Records[i]; r.Topic == "" {
			r.Topic = op.said.topic
		}
	}
	return full
}

// What an event cannot be judged without. Passed over, it would make a check pass.
var (
	errNoGroup  = errors.New("group is missing")
	errNoTopic  = errors.New("topic is missing")
	errNoBroker = errors.New("broker is missing")
	errNoAction = errors.New("action is missing")
)

// whole refuses a completion that lacks something; one without an invoke has to have what that would have.
func whole(op *operation, e *history.Event) error {
	if op == nil {
		if err := wholeInvoke(e); err != nil {
			return err
		}
	}
	if e.Type != history.OK {
		return nil
	}
	return wholeOK(e)
}

// wholeInvoke refuses the beginning of an operation that lacks what its kind is judged by.
func wholeInvoke(e *history.Event) error {
	switch {
	case e.Kind == history.Admin && e.Action == "":
		return errNoAction
	case e.Kind == history.Commit, e.Action == history.DeleteGroup && e.Kind == history.Admin:
		if e.Group == "" {
			return errNoGroup
		}
	case e.Kind == history.Admin && (e.Action == history.CreateTopic || e.Action == history.DeleteTopic):
		if topicOf(e) == "" {
			return errNoTopic
		}
		return nil
	}
	if e.Kind == history.Commit || e.Kind == history.Admin && e.Action == history.DeleteRecords {
		return places(e)
	}
	return nil
}

// wholeOK refuses a completion that lacks what its kind is judged by, and its invoke did not say it either.
func wholeOK(e *history.Event) error {
	switch e.Kind {
	case history.Assign, history.Committed, history.Join:
		if e.Group == "" {
			return errNoGroup
		}
		return places(e)
	case history.Poll:
		if e.Action == history.Drain && e.Broker == history.Unknown {
			return errNoBroker
		}
		return places(e)
	case history.Replica:
		if e.Broker == history.Unknown {
			return errNoBroker
		}
		return places(e)
	case history.Latest, history.Seek:
		return places(e)
	case history.Admin:
		return wholeAdmin(e)
	}
	return nil
}

func wholeAdmin(e *history.Event) error {
	switch e.Action {
	case history.Relaxed, history.Unclean:
		if len(e.Records) == 0 && e.Topic == "" {
			return errNoTopic
		}
	case history.Drained:
		if e.Broker == history.Unknown {
			return errNoBroker
		}
		for i := range e.Records {
			if e.Records[i].Offset < 0 {
				return fmt.Errorf("record %d: o is missing: the end that the drain reached", i)
			}
		}
	case history.LogStart, history.DeleteRecords:
	default:
		return nil
	}
	return places(e)
}

// places refuses records that do not say which partition they are about.
func places(e *history.Event) error {
	for i := range e.Records {
		switch r := &e.Records[i]; {
		case r.Topic == "":
			return fmt.Errorf("record %d: %w", i, errNoTopic)
		case r.Partition < 0:
			return fmt.Errorf("record %d: p is %d, which is no partition", i, r.Partition)
		}
	}
	return nil
}
