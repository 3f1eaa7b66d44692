package history

import (
	"errors"
	"strings"
	"testing"
)

func TestValuesDescribeThemselves(t *testing.T) {
	for _, v := range []Value{{"p1", 0}, {"a-B_c.9", 1<<63 - 1}, {strings.Repeat("x", MaxClient), 7}} {
		for _, size := range []int{0, 1, 20, 30, 100, 5000} {
			raw := v.Padded(size)
			if len(raw) != size && string(raw) != v.String() {
				t.Errorf("%v padded to %d has %d bytes", v, size, len(raw))
			}
			if got, err := ParseValue(raw); err != nil || got != v {
				t.Errorf("%s: %v, %v", raw, got, err)
			}
			if got := Describe(raw); got != v.String() {
				t.Errorf("%s is described as %s", raw, got)
			}
		}
	}
}

// TestAnyChangeOfAValueIsSeen flips each bit, cuts at each byte, and adds one.
func TestAnyChangeOfAValueIsSeen(t *testing.T) {
	v := Value{"producer-1", 123456}
	for _, whole := range []string{v.String(), string(v.Padded(200))} {
		var changed []string
		for i := range len(whole) {
			for bit := range 8 {
				b := []byte(whole)
				b[i] ^= 1 << bit
				changed = append(changed, string(b))
			}
			if whole[:i] != v.String() {
				changed = append(changed, whole[:i])
			}
		}
		for _, text := range append(changed, whole+"a", "", "/", "//", "a/1/", "a/-1/00000000", strings.Repeat("\x00", 100)) {
			if got, err := ParseValue(text); !errors.Is(err, ErrForeign) {
				t.Errorf("%q was taken for %v", text, got)
			}
			if !strings.HasPrefix(Describe([]byte(text)), "?") {
				t.Errorf("%q is described as %s", text, Describe([]byte(text)))
			}
		}
	}
}
