package sim

import (
	"bytes"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/codec"
	"github.com/moldau-log/moldau/controller/state"
)

// snapshotGap is how many entries a broker has to have missed before the log may be cut behind it.
const snapshotGap = 8

// missed reports whether the metadata comes to a broker as a snapshot: it has missed too much, or has just lost its log.
func (m *metadata) missed(b *broker) bool {
	if m.state.Image().Index() > b.image.Index()+snapshotGap {
		return m.w.chance(300)
	}
	return m.w.chance(2)
}

// restored is the state after it was written to a snapshot and read back. From here on it is applied to as the state itself is, as on a controller that began
// with the snapshot, and must stay the same.
func (m *metadata) restored() *state.State {
	m.w.cov.Snapshots++
	m.compareTwin()
	written := m.encode(m.state)
	again, err := state.Restore(codec.ReadSnapshot(bytes.NewReader(written)))
	m.w.check.must(err)
	if err != nil {
		return m.state
	}
	if !bytes.Equal(m.encode(again), written) {
		m.w.check.fail("case 121: the metadata that was restored from a snapshot at %d is not the one that was written", m.state.Image().Index())
	}
	if m.twin == nil || m.w.chance(300) {
		m.twin = again
	}
	return again
}

func (m *metadata) encode(s *state.State) []byte {
	var out bytes.Buffer
	m.w.check.must(codec.WriteSnapshot(&out, s.Snapshot().Records()))
	return out.Bytes()
}

// applyToTwin applies an entry to what was once restored from a snapshot.
func (m *metadata) applyToTwin(cmd cluster.Command, res *cluster.Result) {
	if m.twin == nil {
		return
	}
	if got := m.twin.Apply(res.Index, cmd); got.Code != res.Code || got.BrokerEpoch != res.BrokerEpoch || len(got.Items) != len(res.Items) {
		m.w.check.fail("case 121: entry %d gives %s, and %s where a snapshot was restored", res.Index, res.Code, got.Code)
	}
}

// compareTwin compares all of it.
func (m *metadata) compareTwin() {
	if m.twin != nil && !bytes.Equal(m.encode(m.twin), m.encode(m.state)) {
		m.w.check.fail("case 121: at %d the metadata is another one where a snapshot was restored", m.state.Image().Index())
	}
}
