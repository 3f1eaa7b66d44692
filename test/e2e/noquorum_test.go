package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/moldau-log/moldau/client"
)

// TestCase145_NoQuorumWithSeveralInSync: two of three voters are gone for E2E_NO_QUORUM seconds, and with them the controller. Both replicas of the topic live, one of them on a voter.
// All the while acks=isr goes on without a pause, and from the end of the lease on acks=leader and the latest offset are refused, every time. Afterwards everything that was acknowledged is
// there once, on both, and nothing that was refused. `make no-quorum` makes it a minute.
func TestCase145_NoQuorumWithSeveralInSync(t *testing.T) {
	t.Parallel()
	gone := time.Duration(number(t, "E2E_NO_QUORUM", 4)) * time.Second
	c := Start(t, 4) // of which the first three vote
	leader := c.Brokers[3]
	for _, topic := range []string{"numbers", "probe"} {
		c.Must("topic", "create", topic, "--assignment", "3,2", "-c", "min.insync.replicas=2")
		c.awaitISR(topic, 2)
		c.awaitLeader(topic, leader.ID)
	}
	unsure := leader.Client(t, client.WithAcks(client.AcksLeader), client.WithDeliveryTimeout(time.Second))
	if err := unsure.ProduceSync(patient(t), value("probe", 0, "before")); err != nil {
		t.Fatal(err)
	}
	load := c.load(t)
	load.waitFor(200)

	c.Brokers[0].Kill()
	c.Brokers[1].Kill()
	Eventually(t, func() error {
		if _, err := logEnd(patient(t), unsure, "probe", 0); err == nil {
			return errors.New("the leader still answers for its latest offset")
		}
		return nil
	})
	var slowest time.Duration
	questions := 0
	for end := time.Now().Add(gone); time.Now().Before(end); questions++ {
		began := time.Now()
		load.waitFor(50)
		slowest = max(slowest, time.Since(began))
		if at, err := logEnd(patient(t), unsure, "probe", 0); err == nil {
			t.Errorf("the latest offset is said to be %d although nobody can say who leads", at)
		}
		if err := unsure.ProduceSync(patient(t), value("probe", 0, fmt.Sprint("unsure ", questions))); err == nil {
			t.Error("acks=leader is answered although nobody can say who leads")
		}
	}
	t.Logf("%d questions in %v without a quorum; fifty acknowledgements took %v at most", questions, gone, slowest)
	if most := 5 * time.Second; slowest > most {
		t.Errorf("fifty acknowledgements took %v", slowest)
	}

	c.Brokers[0].Start()
	c.Brokers[1].Start()
	c.WaitHealthy()
	load.waitFor(200)
	load.finish()
	c.checkAcknowledged(load)
	if got := c.values("probe"); !slices.Equal(got, []string{"before"}) {
		t.Errorf("what was refused is there: %q", got)
	}
	c.sameReplicas()
}
