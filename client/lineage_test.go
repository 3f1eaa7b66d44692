package client

import (
	"errors"
	"strings"
	"testing"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// TestCase59_WhereLogsPart tells a consumer, which has fetched up to 10 and delivered up to 9, of a leader's divergence.
func TestCase59_WhereLogsPart(t *testing.T) {
	read := lineage{{epoch: 1, start: 2}, {epoch: 3, start: 5}} // up to 2 another has read
	for name, c := range map[string]struct {
		lineage    lineage
		epoch      int32
		end        int64
		to         int64
		last       int32
		lost, stay bool
	}{
		"the same epoch ends earlier":          {read, 3, 7, 7, 3, true, false},
		"only what was not delivered":          {read, 3, 9, 9, 3, false, false},
		"an older epoch ends earlier":          {read, 1, 4, 4, 1, true, false},
		"an older epoch ends later":            {read, 1, 8, 5, 1, true, false},
		"an epoch that was not read, and long": {read, 2, 20, 5, 1, true, false},
		"before all that was read":             {read, 0, 20, 2, -1, true, false},
		"a committed offset":                   {nil, 2, 6, 6, -1, true, false},
		"a committed offset, and long":         {nil, 2, 20, 10, -1, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			k := &Consumer{wake: make(chan struct{}, 1)}
			p := &partConsumer{fetch: 10, position: 9, processed: 9, lastEpoch: 3, lineage: c.lineage}
			err := k.diverged(p, &moldauv1.EpochEnd{LeaderEpoch: c.epoch, EndOffset: c.end})
			var loss *DataLossError
			if errors.As(err, &loss) != c.lost || c.lost && (loss.End != c.to || loss.Position != 10) {
				t.Errorf("told %v, lost is %t", err, c.lost)
			}
			if c.lost && strings.Contains(err.Error(), "not known how many") != c.stay {
				t.Errorf("told %v", err)
			}
			if p.fetch != c.to || p.lastEpoch != c.last || (p.gen == 0) != c.stay {
				t.Errorf("goes on at %d, behind epoch %d, what was fetched is kept %t; want %d, %d", p.fetch, p.lastEpoch, p.gen == 0, c.to, c.last)
			}
			if n := len(p.lineage); c.last >= 0 && (n == 0 || p.lineage[n-1].epoch != c.last) || c.last < 0 && n > 0 {
				t.Errorf("its lineage is %v", p.lineage)
			}
		})
	}
}

func TestLineageIsBounded(t *testing.T) {
	var l lineage
	for i := range 3 * maxLineage {
		l = l.with(int32(i/2), int64(i))
	}
	if len(l) != maxLineage || l[len(l)-1] != (epochStart{3*maxLineage/2 - 1, 3*maxLineage - 2}) {
		t.Errorf("%d epochs, the last %v", len(l), l[len(l)-1])
	}
}
