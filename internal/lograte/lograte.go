// Package lograte bounds how many lines a log gets from what comes by the thousand: strangers at a door, and what is tried again on a full disk. A door wraps its logger once, and
// no line that a client can cause, one that is there now or one that comes later, needs a bound of its own. It is not for lines that tell of a change in the broker's own state:
// each of those is wanted.
//
// The doors, consumergroup and partition call it, from any goroutine; it runs none. Lines are told apart by their message, which is constant in this house.
package lograte

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Every is the time for which lines are counted; it begins with the first of them. Lines is how many with one message pass in it, where no one needs more.
const (
	Lines = 10
	Every = 10 * time.Second
)

// maxMessages bounds the messages that are told apart. Those that come later share one bound.
const maxMessages = 256

// Suppressed is the attribute of a line that says how many with its message were left out before it.
const Suppressed = "suppressed"

// New wraps a logger. Of the lines with one message, lines pass in a time of Every. now is a clock that need not be monotonic.
func New(log *slog.Logger, lines int, now func() time.Time) *slog.Logger {
	return slog.New(handler{log.Handler(), &rates{lines: lines, now: now, messages: map[string]*rate{}}})
}

// handler lets records through that their rate allows. Its copies with attributes and groups share the rates.
type handler struct {
	slog.Handler
	rates *rates
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	pass, suppressed := h.rates.pass(r.Message)
	if !pass {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int(Suppressed, suppressed))
	}
	return h.Handler.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.rates}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.rates}
}

// rates are the rates of all messages.
type rates struct {
	lines int
	now   func() time.Time

	mu       sync.Mutex // guards what follows
	messages map[string]*rate
	others   rate
}

// rate is what has become of one message.
type rate struct {
	began      time.Time
	passed     int // since then
	suppressed int // since the last that passed
}

// pass reports whether a line may be written now, and how many were left out since the last one that could be.
func (s *rates) pass(message string) (ok bool, suppressed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.messages[message]
	switch {
	case r != nil:
	case len(s.messages) < maxMessages:
		r = new(rate)
		s.messages[message] = r
	default:
		r = &s.others
	}
	now := s.now()
	if age := now.Sub(r.began); age < 0 || age >= Every {
		r.began, r.passed = now, 0
	}
	if r.passed == s.lines {
		r.suppressed++
		return false, 0
	}
	r.passed++
	suppressed, r.suppressed = r.suppressed, 0
	return true, suppressed
}
