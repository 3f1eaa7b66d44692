package client

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/internal/grpcframe"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

func refused(code moldauv1.ErrorCode, retriable bool) *grpcframe.Result {
	return &grpcframe.Result{BaseOffset: -1, Error: &moldauv1.Error{Code: code, Message: "m", Retriable: retriable}}
}

// TestGivenUp_SaysWhetherItMayBeStored: what every try was refused for certain has failed; anything else may be in the log, and its number is not used again.
func TestGivenUp_SaysWhetherItMayBeStored(t *testing.T) {
	timedOut, below := refused(moldauv1.ErrorCode_ERROR_CODE_TIMED_OUT, true), refused(moldauv1.ErrorCode_ERROR_CODE_NOT_ENOUGH_REPLICAS, true)
	odd, large := refused(moldauv1.ErrorCode_ERROR_CODE_UNKNOWN, false), refused(moldauv1.ErrorCode_ERROR_CODE_TOO_LARGE, false)
	lost := (*grpcframe.Result)(nil) // the stream ends before an answer
	for name, c := range map[string]struct {
		tries  []*grpcframe.Result
		unsure bool
		why    error
	}{
		"never sent":                           {nil, false, ErrDeliveryTimeout},
		"below min.insync.replicas":            {[]*grpcframe.Result{below, below}, false, ErrDeliveryTimeout},
		"timed out":                            {[]*grpcframe.Result{timedOut}, true, ErrDeliveryTimeout},
		"timed out, then refused":              {[]*grpcframe.Result{timedOut, below}, true, ErrDeliveryTimeout},
		"no answer":                            {[]*grpcframe.Result{lost}, true, ErrDeliveryTimeout},
		"no answer, then refused for good":     {[]*grpcframe.Result{lost, large}, true, &Error{Code: moldauv1.ErrorCode_ERROR_CODE_TOO_LARGE}},
		"too large":                            {[]*grpcframe.Result{large}, false, &Error{Code: moldauv1.ErrorCode_ERROR_CODE_TOO_LARGE}},
		"the broker does not know what it did": {[]*grpcframe.Result{odd}, true, &Error{Code: moldauv1.ErrorCode_ERROR_CODE_UNKNOWN}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProducer(local(t, 1))
			s := newSink(p, "nobody")
			q := &partProducer{id: 7, sink: s}
			p.topics["t"] = &topicProducer{parts: []*partProducer{q}}
			b := &batch{part: q, records: make([]pending, 1), sealed: true}
			var got error
			b.records[0] = pending{&Record{}, func(_ *Record, err error) { got = err }}
			q.batches, p.waiting = []*batch{b}, 1
			for i, result := range c.tries {
				q.assign(b)
				b.state, b.tries = batchSent, b.tries+1
				q.sent++
				stream := &produceStream{unanswered: map[uint64]*batch{uint64(i): b}, cancel: func() {}}
				if result == nil {
					s.lose(stream, errors.New("reset"))
					continue
				}
				result.ClientSeq = uint64(i)
				s.take(stream, result)
			}
			p.checkTimeouts(time.Now().Add(time.Hour))
			p.settle()
			if errors.Is(got, ErrMayBeStored) != c.unsure || !errors.Is(got, c.why) || strings.Contains(got.Error(), "may be in the log") != c.unsure {
				t.Errorf("error %q, want one that is %v, and may be stored: %v", got, c.why, c.unsure)
			}
			if next := q.id == 7 && !q.freshID && q.next == 0; b.producerID != 0 && c.unsure && next {
				t.Error("the next batch has the number of one that may be in the log")
			}
		})
	}
}

func TestClose_SaysWhatMayBeStored(t *testing.T) {
	p := newProducer(local(t, 1))
	q := queue(1)
	q.batches = append(q.batches, &batch{part: q, records: make([]pending, 1)})
	var got []error
	for _, b := range q.batches {
		b.records[0] = pending{&Record{}, func(_ *Record, err error) { got = append(got, err) }}
	}
	p.topics["t"], p.waiting = &topicProducer{parts: []*partProducer{q}}, 2
	p.close()
	if len(got) != 2 || !errors.Is(got[0], ErrMayBeStored) || !errors.Is(got[0], ErrClosed) || errors.Is(got[1], ErrMayBeStored) || !errors.Is(got[1], ErrClosed) {
		t.Errorf("of a batch that was sent, and of one that was not: %v", got)
	}
}
