package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKafkaReadyRounds: testcontainers-go 1827. As soon as /readyz says yes, the first record of a new client is taken, at the first try. E2E_ROUNDS makes it longer.
func TestKafkaReadyRounds(t *testing.T) {
	c := Start(t, 1)
	c.Must("topic", "create", "ready", "-p", "3")
	b := c.Brokers[0]
	web := http.Client{Timeout: Patience}
	for round := range number(t, "E2E_ROUNDS", 3) {
		if round%2 == 0 {
			b.Kill()
		} else {
			b.Terminate()
		}
		b.Start()
		deadline := time.Now().Add(Patience)
		for ready := false; !ready; {
			if resp, err := web.Get("http://" + b.HTTP + "/readyz"); err == nil {
				ready = resp.StatusCode == http.StatusOK
				resp.Body.Close()
			}
			if time.Now().After(deadline) {
				t.Fatalf("round %d: not ready", round)
			}
		}
		client := kafkaClient(t, c, kgo.RecordRetries(0))
		if err := client.ProduceSync(kafkaContext(t), &kgo.Record{Topic: "ready", Value: fmt.Append(nil, round)}).FirstErr(); err != nil {
			t.Errorf("round %d: the first record of a broker that is ready: %v", round, err)
		}
		client.Close()
	}
}
