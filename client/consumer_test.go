package client

import (
	"testing"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// TestRefused_HopelessEndsThePartition: damage that no replica makes good is told after some tries; until then it may be that another one takes over.
func TestRefused_HopelessEndsThePartition(t *testing.T) {
	c := local(t, 1)
	tp := TopicPartition{"t", 0}
	k, err := c.NewConsumer(WithPartitions(map[TopicPartition]Start{tp: FromOffset(0)}))
	if err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.parts[tp]
	for try := 1; ; try++ {
		s := &fetchStream{k: k, parts: []*partConsumer{p}, left: 1}
		err := s.refused(p, &Error{Code: moldauv1.ErrorCode_ERROR_CODE_CORRUPT, Retriable: true}, nil)
		switch {
		case err == nil && try > hopelessTries:
			t.Fatalf("still trying after %d refusals", try)
		case err != nil && (try <= hopelessTries || !p.halted || CodeOf(err) != moldauv1.ErrorCode_ERROR_CODE_CORRUPT):
			t.Fatalf("refusal %d: %v, halted %v", try, err, p.halted)
		}
		if err != nil {
			return
		}
	}
}
