package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestShort is the part of the matrix that runs with every change: sarama and kcat (librdkafka) against three brokers; franz-go is in test/e2e. The
// clients are set up by their own scripts; a setup that fails is a failure.
func TestShort(t *testing.T) {
	bin := os.Getenv("E2E_BIN")
	if bin == "" {
		t.Fatal("E2E_BIN must name the directory of the binary moldau: run make test")
	}
	dir := t.TempDir()
	c, err := startCluster(t.Context(), bin, dir, brokers, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	for _, name := range []string{"sarama", "kcat"} {
		r := &runner{name: name, dir: filepath.Join("clients", name), logs: dir, cache: filepath.Join(dir, "cache"), cluster: c, prefix: name + "-"}
		ran := 0
		for _, got := range r.row(t.Context(), inShort) {
			ran++
			if !got.pass && !got.na {
				t.Errorf("%s, %s: %s", got.client, got.capability, got.text)
			}
		}
		if ran != len(library)-2 {
			t.Errorf("%s: %d capabilities ran, want all but two", name, ran)
		}
	}
}

// inShort leaves out what the processes of test/e2e go through with franz-go.
func inShort(capability string) bool {
	return !slices.Contains([]string{"broker-kill", "idempotent"}, capability)
}
