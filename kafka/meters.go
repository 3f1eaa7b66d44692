package kafka

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/internal/conns"
	"github.com/moldau-log/moldau/internal/meter"
)

// meters are what the door counts, in the families that the native door uses too.
type meters struct {
	requests    *meter.CounterVec
	durations   map[int16]*meter.Histogram
	connections *meter.GaugeVec   // by listener
	refused     *meter.CounterVec // connections, by listener and reason
}

// Why a connection is closed as soon as it is accepted: too many are open, too many of its address are, or the door is closing.
const (
	refusedTooMany  = conns.TooMany
	refusedAddress  = conns.OfAddress
	refusedStopping = "stopping"
)

func newMeters(set *meter.Set, apis map[int16]api) *meters {
	durations := set.Histogram("moldau_request_duration_seconds", "Time from a request to its answer, by API.", meter.DurationBuckets(), "api")
	m := &meters{
		requests:    set.Counter("moldau_requests_total", "Requests by API and outcome.", "api", "error"),
		durations:   make(map[int16]*meter.Histogram, len(apis)),
		connections: set.Gauge("moldau_connections", "Open client connections by listener.", "listener"),
		refused:     set.Counter("moldau_connections_refused_total", "Client connections closed at once, by listener and reason.", "listener", "reason"),
	}
	for _, reason := range []string{refusedTooMany, refusedAddress, refusedStopping} {
		m.refused.With(listenerName, reason)
	}
	m.connections.With(listenerName) // a series that is there before the first connection
	for key := range apis {
		m.durations[key] = durations.With(apiLabel(key))
	}
	return m
}

// apiLabel is the label of an API in metrics: kafka_produce, kafka_fetch ...
func apiLabel(key int16) string {
	if name := kmsg.NameForKey(key); name != "" {
		return "kafka_" + snake(name)
	}
	return "kafka_" + strconv.Itoa(int(key))
}

func snake(name string) string {
	var out []byte
	for i, r := range []byte(name) {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				out = append(out, '_')
			}
			r += 'a' - 'A'
		}
		out = append(out, r)
	}
	return string(out)
}
