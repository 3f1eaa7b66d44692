package partition

import (
	"testing"

	"github.com/moldau-log/moldau/record"
)

// TestProducers_AreComparedWithTheirLog: what is remembered is what the log tells, apart from what lies below its start.
func TestProducers_AreComparedWithTheirLog(t *testing.T) {
	a, b, c := rememberedBatch{0, 1, 0, 2}, rememberedBatch{2, 2, 2, 3}, rememberedBatch{2, 2, 7, 8}
	state := func(id record.ProducerID, epoch record.ProducerEpoch, batches ...rememberedBatch) *Producers {
		p := &producer{epoch: epoch}
		for _, b := range batches {
			p.remember(b)
		}
		s := newProducers()
		s.known[id] = p
		return s
	}
	for name, test := range map[string]struct {
		remembered, told *Producers
		start            record.Offset
		same             bool
	}{
		"the same":                  {state(4, 0, a, b), state(4, 0, a, b), 0, true},
		"more, below the log start": {state(4, 0, a, b), state(4, 0, b), 2, true},
		"more, across it":           {state(4, 0, a, b), state(4, 0, b), 1, false},
		"all below it":              {state(4, 0, a, b), newProducers(), 3, true},
		"one that is not there":     {state(4, 0, a, b), state(4, 0, a), 0, false},
		"one elsewhere":             {state(4, 0, a, b), state(4, 0, a, c), 0, false},
		"less":                      {state(4, 0, a), state(4, 0, a, b), 0, false},
		"another epoch":             {state(4, 0, a), state(4, 1, a), 0, false},
		"another producer":          {state(5, 0, a), state(4, 0, a), 0, false},
		"nobody":                    {newProducers(), state(4, 0, a), 0, false},
		"somebody":                  {state(4, 0, a), newProducers(), 0, false},
	} {
		if err := test.remembered.compare(test.told, test.start); (err == nil) != test.same {
			t.Errorf("%s: %v", name, err)
		}
	}
}
