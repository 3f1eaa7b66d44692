package e2e

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// TestRounds kills -9 a random broker and starts it again, round after round, while idempotent producers and a consumer group work. At the end nothing
// acknowledged is missing, nothing is there twice, the order of each key is kept, and the replicas are the same batch by batch. E2E_ROUNDS and E2E_SEED
// make it longer or another one; `make soak` does 50 rounds.
func TestRounds(t *testing.T) {
	rounds, seed := number(t, "E2E_ROUNDS", 4), number(t, "E2E_SEED", 1)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	c := Start(t, 3)
	c.Must("topic", "create", "numbers", "-p", "4", "-r", "3")
	m := c.member("rounds")
	defer m.stop()
	load := c.load(t)
	for round := range rounds {
		victim := c.Brokers[random.IntN(len(c.Brokers))]
		load.waitFor(200 + random.IntN(2000))
		victim.Kill()
		load.waitFor(200 + random.IntN(2000))
		victim.Start()
		c.WaitHealthy()
		t.Logf("round %d: broker %d killed and back; the group has read %d records", round, victim.ID, m.lines())
	}
	load.finish()
	c.checkAcknowledged(load)
	m.stop()
	c.sameReplicas()
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, text, err)
	}
	return n
}
