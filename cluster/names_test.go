package cluster

import (
	"errors"
	"strings"
	"testing"
)

func code(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return CodeUnknown
	}
	return CodeNone
}

func TestCase115_TopicNamesThatAreRefused(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/../b", "a/b", `a\b`, "a\x00b", "a b", "ä", "a\n", strings.Repeat("x", 250)} {
		if err := ParseTopicName(name); code(err) != CodeInvalidTopicName {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"a", "...", "a.b_c-D9", "__consumer_offsets", strings.Repeat("x", 249)} {
		if err := ParseTopicName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestCase115_NamesThatDifferInDotAndUnderscoreCollide(t *testing.T) {
	i := sample() // has a.x and b
	for name, want := range map[string]Code{"a_x": CodeInvalidTopicName, "a.x": CodeTopicExists, "a-x": CodeNone, "ax": CodeNone, "..": CodeInvalidTopicName} {
		if err := i.CheckNewTopicName(name); code(err) != want {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
}

// The shard of a group is part of the metadata's format. These values may never change.
func TestShardOfIsPinned(t *testing.T) {
	golden := map[string]ShardID{"": 1, "a": 0, "group": 37, "orders-billing": 44, "consumer-1": 12, "länger": 31}
	for group, want := range golden {
		if got := ShardOf(group); got != want {
			t.Errorf("ShardOf(%q) = %d, want %d", group, got, want)
		}
	}
	var hits [ShardCount]int
	for i := range 6400 {
		hits[ShardOf("group-"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+string(rune('0'+i/26%10))+string(rune('A'+i/260)))]++
	}
	for s, n := range hits {
		if n < 50 || n > 200 {
			t.Errorf("shard %d got %d of 6400 groups", s, n)
		}
	}
}

func TestParseGroupID(t *testing.T) {
	if code(ParseGroupID("")) != CodeInvalidGroup || code(ParseGroupID(strings.Repeat("g", MaxGroupIDLen+1))) != CodeInvalidGroup {
		t.Error("an empty or oversized group id passes")
	}
	if err := ParseGroupID(strings.Repeat("g", MaxGroupIDLen)); err != nil {
		t.Error(err)
	}
}
