package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type clusterStatus struct {
	ClusterID  string `json:"cluster_id"`
	Controller int    `json:"controller"`
	Brokers    []struct {
		Broker int  `json:"broker"`
		Fenced bool `json:"fenced"`
	} `json:"brokers"`
}

func (c *Cluster) status() (clusterStatus, error) {
	var s clusterStatus
	out := c.CLI("cluster", "status", "-o", "json")
	if out.Code != 0 {
		return s, fmt.Errorf("cluster status: exit %d: %s", out.Code, out.Stderr)
	}
	return s, json.Unmarshal([]byte(out.Stdout), &s)
}

// status asks this broker alone.
func (b *Broker) status() (clusterStatus, error) {
	var s clusterStatus
	out := b.cluster.CLI("cluster", "status", "-o", "json", "--server", b.GRPC)
	if out.Code != 0 {
		return s, fmt.Errorf("cluster status of broker %d: exit %d: %s", b.ID, out.Code, out.Stderr)
	}
	return s, json.Unmarshal([]byte(out.Stdout), &s)
}

// TestCase131_FormsInAnyOrderAndAgain: first start in any order, a full stop, and a start again end in the same cluster without anybody's help.
func TestCase131_FormsInAnyOrderAndAgain(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			c := Prepare(t, 3)
			for _, i := range order {
				c.Brokers[i].Start()
			}
			c.WaitHealthy()
			first, err := c.status()
			if err != nil {
				t.Fatal(err)
			}
			if len(first.Brokers) != 3 {
				t.Fatalf("%d brokers are registered, want 3", len(first.Brokers))
			}
			for i, code := range c.TerminateAll() {
				if code != 0 {
					t.Errorf("broker %d: orderly stop of all exits %d", i, code)
				}
			}
			for _, i := range order {
				c.Brokers[i].Start()
			}
			c.WaitHealthy()
			second, err := c.status()
			if err != nil {
				t.Fatal(err)
			}
			if first.ClusterID != second.ClusterID || first.ClusterID == "" {
				t.Errorf("cluster id %q became %q", first.ClusterID, second.ClusterID)
			}
		})
	}
}

// TestCase24_SecondProcessOnTheSameDirectory is refused before it writes anything.
func TestCase24_SecondProcessOnTheSameDirectory(t *testing.T) {
	c := Start(t, 1)
	ports := freePorts(t, 3)
	out := c.CLI("server", "--id", "0", "--data", c.Brokers[0].Data, "--grpc-addr", ports[0], "--peer-addr", ports[1], "--http-addr", ports[2])
	if out.Code == 0 || !strings.Contains(out.Stderr, "in use by another process") {
		t.Fatalf("exit %d: %s", out.Code, out.Stderr)
	}
	if !c.Brokers[0].Running() {
		t.Fatal("the first process ended")
	}
	c.WaitHealthy()
}

// TestCase44_VolumeOfAnotherBroker is refused at the start.
func TestCase44_VolumeOfAnotherBroker(t *testing.T) {
	c := Start(t, 1)
	c.Brokers[0].Terminate()
	out := c.CLI("server", "--id", "3", "--data", c.Brokers[0].Data, "--grpc-addr", "127.0.0.1:0", "--peer-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0")
	if out.Code == 0 || !strings.Contains(out.Stderr, "belongs to broker 0") {
		t.Fatalf("exit %d: %s", out.Code, out.Stderr)
	}
}

// TestCase45_BrokerOfAnotherCluster never becomes part of this one.
func TestCase45_BrokerOfAnotherCluster(t *testing.T) {
	c := Start(t, 3)
	stranger := Start(t, 2) // one of two, which does not go on as a cluster of its own before it has asked its seeds
	stranger.TerminateAll()
	// The same id would be taken for a restart: give the stranger's directory a place of its own in this cluster.
	data := filepath.Join(t.TempDir(), "data-0")
	if err := os.CopyFS(data, os.DirFS(stranger.Brokers[0].Data)); err != nil {
		t.Fatal(err)
	}
	before, err := c.status()
	if err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t, 3)
	b := &Broker{cluster: c, ID: 0, Data: data, logPath: filepath.Join(t.TempDir(), "stranger.log"), GRPC: ports[0], Peer: ports[1], HTTP: ports[2]}
	b.Start()
	defer b.Kill()
	Eventually(t, func() error {
		if log := b.Log(); !strings.Contains(log, "cluster") || b.Running() && !strings.Contains(log, "wrong cluster") && !strings.Contains(log, before.ClusterID) {
			return fmt.Errorf("the stranger does not say why it cannot join:\n%s", log)
		}
		return nil
	})
	after, err := c.status()
	if err != nil {
		t.Fatal(err)
	}
	if after.ClusterID != before.ClusterID || len(after.Brokers) != 3 {
		t.Fatalf("the cluster changed: %+v, then %+v", before, after)
	}
	c.WaitHealthy()
}

// TestReadinessAndMetrics: /healthz answers while the process lives, /readyz when it serves, /metrics has the names of docs/metrics.md.
func TestReadinessAndMetrics(t *testing.T) {
	c := Start(t, 1)
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + c.Brokers[0].HTTP + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b strings.Builder
		if _, err := fmt.Fprint(&b, readAll(t, resp.Body)); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, b.String()
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := get(path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	c.Must("topic", "create", "numbers", "-p", "1")
	c.MustWith("one\ntwo\n", "produce", "numbers")
	_, metrics := get("/metrics")
	for _, name := range []string{"moldau_build_info", "moldau_controller_is_leader 1", `moldau_partitions{state="online"} 1`, `moldau_produced_bytes_total{topic="numbers"}`, "moldau_disk_free_bytes"} {
		if !strings.Contains(metrics, name) {
			t.Errorf("/metrics lacks %s", name)
		}
	}
}
