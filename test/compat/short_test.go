package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
			if slices.Contains(library, got.capability) {
				ran++
			}
			if !got.pass && !got.na {
				t.Errorf("%s, %s: %s", got.client, got.capability, got.text)
			}
		}
		if ran != len(library)-2 {
			t.Errorf("%s: %d capabilities ran, want all but two", name, ran)
		}
	}
}

var (
	sentID     = regexp.MustCompile(`Sent (\w+)Request \(.*CorrId (\d+)`)
	receivedID = regexp.MustCompile(`Received (\w+)Response \(.*CorrId (\d+)`)
)

// TestKcatMeetsANewBroker: mockforge 149. kcat lists the metadata of a broker that has no topic, then of the same with four; every answer is to a request that was sent,
// and no connection is lost.
func TestKcatMeetsANewBroker(t *testing.T) {
	dir := t.TempDir()
	c, err := startCluster(t.Context(), os.Getenv("E2E_BIN"), dir, 1, brokers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	r := &runner{name: "kcat", dir: filepath.Join("clients", "kcat"), logs: dir, cache: filepath.Join(dir, "cache"), cluster: c}
	if out, err := r.script(t.Context(), setupWait, nil, "setup.sh"); err != nil {
		t.Fatalf("setup: %v: %s", err, out.stderr)
	}
	for _, topics := range []int{0, 4} {
		for i := range topics {
			if _, err := c.cli(t.Context(), "topic", "create", fmt.Sprint("new-", i), "-p", "2", "-r", "1"); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "kcat", "-b", c.bootstrap(), "-L", "-d", "protocol")
		var debug strings.Builder
		cmd.Stderr = &debug
		out, err := cmd.Output()
		if want := fmt.Sprintf(" %d topics:\n", topics); err != nil || !strings.Contains(string(out), want) || strings.Count(string(out), "partition 0, leader 0") != topics {
			t.Errorf("%d topics: %v: %s", topics, err, out)
		}
		sent := map[string]string{}
		for _, m := range sentID.FindAllStringSubmatch(debug.String(), -1) {
			sent[m[2]] = m[1]
		}
		received := receivedID.FindAllStringSubmatch(debug.String(), -1)
		for _, m := range received {
			if sent[m[2]] != m[1] {
				t.Errorf("%d topics: %s, and %q was sent with that id", topics, m[0], sent[m[2]])
			}
		}
		if len(received) < 2 || strings.Contains(debug.String(), "isconnected") || strings.Contains(debug.String(), "|FAIL|") {
			t.Errorf("%d topics, %d answers: %s", topics, len(received), debug.String())
		}
	}
}

// inShort leaves out what the processes of test/e2e go through with franz-go.
func inShort(capability string) bool {
	return !slices.Contains([]string{"broker-kill", "idempotent"}, capability)
}
