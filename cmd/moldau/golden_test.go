package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// TestGoldenOutputs compares whole command lines with testdata/*.golden. Their JSON is an interface: a change here is a change for every script.
// go test ./cmd/moldau -rewrite writes the files anew; review the difference as code.
func TestGoldenOutputs(t *testing.T) {
	address := sampleBroker().start(t)
	for _, args := range []string{
		"topic list", "topic list -o json", "topic create new -o json", "topic describe orders", "topic describe orders -o wide",
		"topic describe orders -o json", "topic describe orders orders -o name", "topic trim orders --before 40 -o jsonl", "config get topic orders -o wide",
		"config get topic orders -o json", "group list", "group list -o json", "group why billing", "group why billing -o json",
		"group reset billing --to 17 -o json", "cluster status", "cluster status -o json", "cluster brokers -o wide", "cluster brokers -o json",
		"cluster health", "cluster health -o json", "cluster partitions --unhealthy", "cluster partitions --leaderless -o json", "cluster reassign -o json",
		"cluster elect orders -o yaml",
	} {
		got := cli(t, address, "", strings.Fields(args)...)
		text := "$ moldau " + args + "\n" + got.out
		path := filepath.Join("testdata", strings.NewReplacer(" ", "_", "-", "").Replace(args)+".golden")
		if *rewrite {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if text != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", path, text, want)
		}
	}
}

// TestGroupDescribe is not golden: it has the present time.
func TestGroupDescribe(t *testing.T) {
	got := cli(t, sampleBroker().start(t), "", "group", "describe", "billing")
	for _, want := range []string{"state        reconciling", "lag          5", "orders:0,1", "orders  0          112        117             5    m1", "orders  1          -          -               -    m1"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("does not have %q:\n%s", want, got.out)
		}
	}
}
