package main

import (
	"testing"
	"time"
)

func TestParseCapability(t *testing.T) {
	for _, tt := range []struct {
		line, name string
		limit      time.Duration
		ok         bool
	}{
		{"group\n", "group", capabilityWait, true},
		{"rounds seconds=660\n", "rounds", 660 * time.Second, true},
		{"\n", "", 0, false},
		{"rounds 660\n", "", 0, false},
		{"rounds seconds=0\n", "", 0, false},
		{"rounds seconds=many\n", "", 0, false},
	} {
		name, limit, err := parseCapability(tt.line)
		if name != tt.name || limit != tt.limit || (err == nil) != tt.ok {
			t.Errorf("%q: got %q, %s, %v; want %q, %s, ok %t", tt.line, name, limit, err, tt.name, tt.limit, tt.ok)
		}
	}
}
