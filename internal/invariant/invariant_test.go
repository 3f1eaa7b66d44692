package invariant

import (
	"errors"
	"fmt"
	"testing"
)

// neverFormatted fails the test when somebody asks for its text.
type neverFormatted struct{ t *testing.T }

func (n neverFormatted) String() string {
	n.t.Error("the message of a passing check was formatted")
	return ""
}

func recovered(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

func TestCheck_PassesWithoutFormatting(t *testing.T) {
	if value := recovered(func() { Check(true, "end %v", neverFormatted{t}) }); value != nil {
		t.Fatalf("a passing check panicked: %v", value)
	}
}

func TestCheck_PanicsWithATypedViolation(t *testing.T) {
	value := recovered(func() { Check(false, "end %d before start %d", 3, 7) })
	violation, ok := Recovered(value)
	if !ok {
		t.Fatalf("panicked with %T, want Violation", value)
	}
	if violation.Message != "end 3 before start 7" {
		t.Errorf("message %q", violation.Message)
	}
	var target Violation
	if wrapped := fmt.Errorf("partition: %w", violation); !errors.As(wrapped, &target) || target != violation {
		t.Errorf("a wrapped violation is not found by errors.As")
	}
	if got, want := violation.Error(), "invariant violated: end 3 before start 7"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

func TestRecovered_LeavesOtherPanicsAlone(t *testing.T) {
	for _, value := range []any{nil, "text", errors.New("other"), &Violation{}} {
		if _, ok := Recovered(value); ok {
			t.Errorf("Recovered(%v) claims a violation", value)
		}
	}
}

func TestCheck_AllocatesNothingForConstants(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Check(true, "constant") }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
