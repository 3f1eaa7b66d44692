package peer

import "github.com/moldau-log/moldau/internal/meter"

// counters are what a Peer counts. The names are in docs/metrics.md.
type counters struct {
	accepted, strange, refused *meter.Counter
	dialled, dialFailed        *meter.Counter
	bytesIn, bytesOut          *meter.Counter
}

// newCounters registers them; open returns how many connections there are.
func newCounters(set *meter.Set, open func() int) *counters {
	hellos := set.Counter("moldau_peer_hellos_total", "Connections from other brokers by outcome of their hello.", "outcome")
	dials := set.Counter("moldau_peer_dials_total", "Connections to other brokers by outcome.", "outcome")
	bytes := set.Counter("moldau_peer_replication_bytes_total", "Bytes of record batches on replication streams.", "direction")
	set.GaugeFunc("moldau_peer_connections", "Open connections with other brokers, both directions.", nil,
		func(emit func(float64, ...string)) { emit(float64(open())) })
	return &counters{
		accepted: hellos.With("accepted"), strange: hellos.With("not_a_broker"), refused: hellos.With("refused"),
		dialled: dials.With("welcomed"), dialFailed: dials.With("failed"),
		bytesIn: bytes.With("received"), bytesOut: bytes.With("sent"),
	}
}

// Stats is a snapshot of what a Peer has counted since its start.
type Stats struct {
	Connections    int   // open now, both directions
	Accepted       int64 // hellos accepted
	Strange        int64 // connections that did not open with a hello
	Refused        int64 // hellos refused, by either end
	Dialled        int64 // connections dialled and welcomed
	DialFailed     int64
	ReplicationIn  int64 // bytes of batches received
	ReplicationOut int64 // bytes of batches sent
}

// Stats returns what has been counted.
func (p *Peer) Stats() Stats {
	return Stats{
		Connections:    p.open(),
		Accepted:       p.stats.accepted.Value(),
		Strange:        p.stats.strange.Value(),
		Refused:        p.stats.refused.Value(),
		Dialled:        p.stats.dialled.Value(),
		DialFailed:     p.stats.dialFailed.Value(),
		ReplicationIn:  p.stats.bytesIn.Value(),
		ReplicationOut: p.stats.bytesOut.Value(),
	}
}

// open returns the number of open connections.
func (p *Peer) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}
