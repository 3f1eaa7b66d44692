package main

import (
	"testing"
	"time"
)

func TestParseCapability(t *testing.T) {
	for _, tt := range []struct {
		line string
		want capability
		ok   bool
	}{
		{"group\n", capability{"group", capabilityWait, false}, true},
		{"rounds seconds=660\n", capability{"rounds", 660 * time.Second, false}, true},
		{"mirror second-cluster seconds=200\n", capability{"mirror", 200 * time.Second, true}, true},
		{"\n", capability{}, false},
		{"rounds 660\n", capability{}, false},
		{"rounds seconds=0\n", capability{}, false},
		{"rounds seconds=many\n", capability{}, false},
	} {
		got, err := parseCapability(tt.line)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%q: got %+v, %v; want %+v, ok %t", tt.line, got, err, tt.want, tt.ok)
		}
	}
}
