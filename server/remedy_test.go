package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/config"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// TestADamagedIdentityIsRefusedWithTheRemedy: the message names the file, what is wrong and what to do, and the file stays as it was.
func TestADamagedIdentityIsRefusedWithTheRemedy(t *testing.T) {
	path := t.TempDir()
	d := open(t, nil, path, 1)
	if err := d.joined(cluster.ClusterID{3}); err != nil {
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, identityFile)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty": "", "cut": string(good[:len(good)/2]), "zeros": strings.Repeat("\x00", len(good)), "nothing in it": "{}", "no text": "\xff\xfe",
		"no directory": strings.Replace(string(good), d.id.String(), "", 1), "a directory that is none": strings.Replace(string(good), d.id.String(), "!", 1),
		"a cluster that is none": strings.Replace(string(good), d.clusterID().String(), "AAAA", 1),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := openDirectory(path, 1, cluster.IncarnationID{2})
		if err == nil || !strings.Contains(err.Error(), file+" is damaged") || !strings.Contains(err.Error(), remedyIdentity) {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != text {
			t.Errorf("%s: the file was changed to %q, %v", name, after, err)
		}
	}
	later := strings.Replace(string(good), `"format": 1`, `"format": 2`, 1)
	if err := os.WriteFile(file, []byte(later), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDirectory(path, 1, cluster.IncarnationID{2}); err == nil || !strings.Contains(err.Error(), "use the version that wrote it") || strings.Contains(err.Error(), "damaged") {
		t.Errorf("of a later version: %v", err)
	}
}

// alone is a broker on a data directory that outlives it.
type alone struct {
	t    *testing.T
	data string
}

func (a alone) config() config.Config {
	cfg := config.Default()
	cfg.Data = a.data
	cfg.Kafka.Addr, cfg.GRPC.Addr, cfg.Peer.Addr, cfg.HTTP.Addr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Shutdown.Drain = time.Second
	return cfg
}

// life runs the broker for f, and stops it in order.
func (a alone) life(f func(*client.Client)) error {
	a.t.Helper()
	s, err := New(a.config(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), 30*time.Second)
	defer cancel()
	defer func() {
		if err := s.Stop(ctx); err != nil {
			a.t.Errorf("stop: %v", err)
		}
	}()
	if err := s.Start(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ready, reason := s.Ready(); !ready; ready, reason = s.Ready() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not ready: %s", reason)
		}
	}
	cl, err := client.New(client.WithSeeds(s.Addresses().GRPC), client.WithRequestTimeout(10*time.Second))
	if err != nil {
		a.t.Fatal(err)
	}
	defer cl.Close()
	f(cl)
	return nil
}

func (a alone) write(name, text string) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.data, name), []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a alone) readJSON(name string, into any) {
	a.t.Helper()
	names, err := filepath.Glob(filepath.Join(a.data, name))
	if err != nil || len(names) == 0 {
		a.t.Fatalf("no %s: %v", name, err)
	}
	if err := readJSON(names[0], into); err != nil {
		a.t.Fatal(err)
	}
}

// TestTheRunbookOfADamagedSmallFile does what docs/operations.md says of broker.meta and replicas to a broker that has the only replica: everything is there afterwards.
func TestTheRunbookOfADamagedSmallFile(t *testing.T) {
	a := alone{t, t.TempDir()}
	put := func(value string) func(*client.Client) {
		return func(cl *client.Client) {
			_, err := cl.CreateTopic(t.Context(), &moldauv1.CreateTopicRequest{Topic: "t", Partitions: 1, ReplicationFactor: 1})
			if err != nil && client.CodeOf(err) != moldauv1.ErrorCode_ERROR_CODE_TOPIC_EXISTS {
				t.Fatal(err)
			}
			r := &client.Record{Topic: "t", Value: []byte(value)}
			if err := cl.ProduceSync(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if want := int64(value[0] - 'a'); r.Offset != want {
				t.Errorf("%s is at offset %d, want %d", value, r.Offset, want)
			}
		}
	}
	must := func(f func(*client.Client)) {
		t.Helper()
		if err := a.life(f); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(file, remedy string) {
		t.Helper()
		err := a.life(func(*client.Client) {})
		if err == nil || !strings.Contains(err.Error(), filepath.Join(a.data, file)) || !strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), "docs/operations.md") {
			t.Fatalf("with a damaged %s: %v", file, err)
		}
	}
	must(put("a"))

	a.write(identityFile, "")
	refused(identityFile, "whole data directory away")
	var marker struct{ Server string }
	a.readJSON("raft/marker.json", &marker)
	var meta struct {
		Cluster string `json:"cluster_id"`
	}
	a.readJSON("partitions/*/partition.meta", &meta)
	id, directory, _ := strings.Cut(marker.Server, "-")
	anew := fmt.Sprintf(`{"format": 1, "broker": %s, "directory_id": %q, "cluster_id": %q}`, id, directory, meta.Cluster)
	var other identity
	if err := json.Unmarshal([]byte(anew), &other); err != nil {
		t.Fatal(err)
	}
	other.Directory = cluster.DirectoryID{1}.String()
	wrong, err := json.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	a.write(identityFile, string(wrong))
	if err := a.life(func(*client.Client) {}); err == nil || !strings.Contains(err.Error(), "marker.json") {
		t.Fatalf("with another directory's id: %v", err)
	}
	a.write(identityFile, anew)
	must(put("b"))

	a.write("replicas", "")
	refused("replicas", "remove the file and start again")
	if err := os.Remove(filepath.Join(a.data, "replicas")); err != nil {
		t.Fatal(err)
	}
	must(put("c"))
}
