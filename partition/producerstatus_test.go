package partition

import (
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

func TestProducers_AreListedByID(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1)
	for offset, s := range []sent{{id: 9, seq: 0, values: []string{"a"}}, {id: 4, seq: 7, values: []string{"b"}}, {id: 9, seq: 1, values: []string{"c"}}} {
		k.checkProduced(k.produce(s.bytes(t), AcksISR), cluster.CodeNone, record.Offset(offset))
	}
	list, code := k.runner().Producers()
	if code != cluster.CodeNone || len(list) != 2 {
		t.Fatalf("%+v, %v", list, code)
	}
	now := k.clock.WallMs()
	for i, want := range []ProducerStatus{{ID: 4, LastSequence: 7, LastMs: now}, {ID: 9, LastSequence: 1, LastMs: now}} {
		if list[i] != want {
			t.Errorf("producer %d is %+v, want %+v", i, list[i], want)
		}
	}
}
