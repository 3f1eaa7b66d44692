package e2e

import (
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// TestCase107_IdleConnectionsDoNotTakeAllDescriptors: strangers open more connections than the process may have descriptors, at one port after the other, and keep them. Every other
// port answers all the while, and the flooded one does when they are gone.
func TestCase107_IdleConnectionsDoNotTakeAllDescriptors(t *testing.T) {
	t.Parallel()
	const descriptors = 600
	c := Prepare(t, 1)
	b := c.Brokers[0]
	b.Descriptors = descriptors
	b.Start()
	c.WaitHealthy()
	answers := map[string]func() error{
		b.GRPC: func() error {
			_, err := moldauv1.NewLogServiceClient(dial(t, b.GRPC)).InitProducerId(patient(t), &moldauv1.InitProducerIdRequest{})
			return err
		},
		b.Kafka: func() error {
			return askOnce(b, &kmsg.ListOffsetsRequest{Version: 5, ReplicaID: -1}, &kmsg.ListOffsetsResponse{Version: 5})
		},
		b.HTTP: func() error {
			client := http.Client{Timeout: Patience, Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Get("http://" + b.HTTP + "/healthz")
			if err != nil {
				return err
			}
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
			return errors.Join(err, resp.Body.Close())
		},
	}
	for flooded := range answers {
		var held []net.Conn
		for range descriptors + 100 {
			conn, err := net.DialTimeout("tcp", flooded, Patience)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, conn)
		}
		// The last one is closed when the others have been taken or refused.
		last := held[len(held)-1]
		if err := last.SetDeadline(time.Now().Add(Patience)); err != nil {
			t.Fatal(err)
		}
		if n, err := last.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: the last of %d connections got %d bytes", flooded, len(held), n)
		}
		for addr, ask := range answers {
			if addr == flooded {
				continue
			}
			if err := ask(); err != nil {
				t.Errorf("while %s is flooded %s does not answer: %v", flooded, addr, err)
			}
		}
		for _, conn := range held {
			conn.Close()
		}
		Eventually(t, answers[flooded])
	}
}
