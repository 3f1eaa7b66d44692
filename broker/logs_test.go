package broker

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/cluster"
)

// asked is a Forwarder that answers for other brokers.
type asked func(ctx context.Context, to cluster.BrokerID) (LogsOf, error)

// Forward implements Forwarder.
func (f asked) Forward(ctx context.Context, to cluster.BrokerID, kind uint8, _ []byte) ([]byte, error) {
	if kind != forwardLogs {
		return nil, errors.New("not that question")
	}
	a, err := f(ctx, to)
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}

// TestLogsOfAll: every live broker is asked; one that is fenced, that fails, or that says nothing in time is named, and does not hold up the others.
func TestLogsOfAll(t *testing.T) {
	m := newMetadata(t, 6)
	m.fence(4)
	b := &Broker{id: 1, forwarder: asked(func(ctx context.Context, to cluster.BrokerID) (LogsOf, error) {
		switch to {
		case 0:
			return LogsOf{Broker: 0, Offline: 2}, nil
		case 2:
			<-ctx.Done() // it hangs
			return LogsOf{}, ctx.Err()
		case 3:
			return LogsOf{}, errors.New("connection refused")
		case 4:
			t.Error("a fenced broker is asked")
		case 5:
			return LogsOf{Broker: 5, LostEnds: 1, Named: []string{"t:0"}, DiskFull: true}, nil
		}
		return LogsOf{}, nil
	})}
	own := LogsOf{Broker: 1, Offline: 1}
	answers, unreached := b.logsOfAll(t.Context(), m.state.Image(), own)
	want := []LogsOf{{Broker: 0, Offline: 2}, own, {Broker: 5, LostEnds: 1, Named: []string{"t:0"}, DiskFull: true}}
	if !reflect.DeepEqual(answers, want) || !slices.Equal(unreached, []cluster.BrokerID{2, 3, 4}) {
		t.Fatalf("answers %+v, unreached %v", answers, unreached)
	}

	h := Health{Fenced: []cluster.BrokerID{4}}
	countLogs(&h, answers, unreached)
	if h.OfflineLogs != 3 || h.LostEnds != 1 || !slices.Equal(h.Unreached, unreached) {
		t.Errorf("%+v", h)
	}
	said := strings.Join(h.Reasons, "\n")
	for _, part := range []string{"2 partitions are offline on broker 0", "1 partitions are offline on broker 1", "of broker 5 may have lost acknowledged records", "(t:0)",
		"the disk of broker 5", "broker 2 did not say", "broker 3 did not say"} {
		if !strings.Contains(said, part) {
			t.Errorf("no word of %q in\n%s", part, said)
		}
	}
	if strings.Contains(said, "broker 4") {
		t.Errorf("of a fenced broker it is said already that it is down:\n%s", said)
	}
	healthy := Health{}
	countLogs(&healthy, []LogsOf{{Broker: 0}, {Broker: 1}}, nil)
	if len(healthy.Reasons) != 0 {
		t.Errorf("nothing is wrong, and yet: %v", healthy.Reasons)
	}
}
