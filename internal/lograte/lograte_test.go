package lograte

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// told is a wrapped logger, its clock and its text.
type told struct {
	log  *slog.Logger
	now  time.Time
	text bytes.Buffer
}

func newTold() *told {
	s := &told{now: time.Unix(1000, 0)}
	s.log = New(slog.New(slog.NewTextHandler(&s.text, nil)), Lines, func() time.Time { return s.now })
	return s
}

// lines reads what was logged since the last call.
func (s *told) lines() []string {
	out := strings.Split(strings.TrimSpace(s.text.String()), "\n")
	s.text.Reset()
	return out
}

func TestTheFirstLinesPassAndTheRestIsCounted(t *testing.T) {
	s := newTold()
	for i := range 1000 {
		s.log.Warn("closed", "client", i)
	}
	got := s.lines()
	if len(got) != Lines || !strings.Contains(got[0], "client=0") || strings.Contains(strings.Join(got, ""), Suppressed) {
		t.Errorf("of 1000 lines %d pass, the first is %s", len(got), got[0])
	}
	s.now = s.now.Add(Every - 1)
	s.log.Warn("closed", "client", 1000)
	if got := s.lines(); got[0] != "" {
		t.Errorf("before the time is over: %v", got)
	}
	s.now = s.now.Add(1)
	s.log.Warn("closed", "client", 1001)
	s.log.Warn("closed", "client", 1002)
	if got := s.lines(); len(got) != 2 || !strings.Contains(got[0], "client=1001 suppressed=991") || strings.Contains(got[1], Suppressed) {
		t.Errorf("after the time: %v", got)
	}
}

func TestOneMessageDoesNotSilenceAnother(t *testing.T) {
	s := newTold()
	for range 1000 {
		s.log.Warn("garbage")
	}
	s.lines()
	s.log.Error("panicked")
	if got := s.lines(); len(got) != 1 || !strings.Contains(got[0], "panicked") {
		t.Errorf("the other message: %v", got)
	}
}

func TestCopiesOfALoggerShareTheirBound(t *testing.T) {
	s := newTold()
	for i := range 1000 {
		s.log.With("connection", i).WithGroup("g").Warn("closed", "at", i)
	}
	if got := s.lines(); len(got) != Lines || !strings.Contains(got[1], "connection=1 g.at=1") {
		t.Errorf("%d lines pass: %v", len(got), got)
	}
}

func TestAClockThatGoesBackSilencesNobody(t *testing.T) {
	s := newTold()
	for range 1000 {
		s.log.Warn("closed")
	}
	s.lines()
	s.now = s.now.Add(-time.Hour)
	s.log.Warn("closed")
	if got := s.lines(); !strings.Contains(got[0], "suppressed=990") {
		t.Errorf("after the clock went back: %v", got)
	}
}

func TestMessagesThatAreNotConstantAreBounded(t *testing.T) {
	s := newTold()
	for i := range 10 * maxMessages {
		s.log.Warn(fmt.Sprint("message ", i))
	}
	if got := len(s.lines()); got != maxMessages+Lines {
		t.Errorf("%d lines pass, want %d", got, maxMessages+Lines)
	}
}

func TestWhatIsNotLoggedAnywayIsNotCounted(t *testing.T) {
	s := newTold()
	for range 1000 {
		s.log.Debug("closed")
	}
	s.log.Warn("closed")
	if got := s.lines(); len(got) != 1 || strings.Contains(got[0], Suppressed) {
		t.Errorf("%v", got)
	}
}
