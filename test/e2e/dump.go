package e2e

import (
	"os"
	"path/filepath"
	"regexp"
)

// place is where a batch lies in a replica's files: a truncation begins a new segment, so that replicas may differ in it.
var place = regexp.MustCompile(`"file":"[0-9]+\.log","position":[0-9]+,`)

// dump prints the batches of every replica of a stopped broker, by the name of its directory.
func (b *Broker) dump() map[string]string {
	t := b.cluster.t
	t.Helper()
	root := filepath.Join(b.Data, "partitions")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		out[e.Name()] = place.ReplaceAllString(b.cluster.Must("log", "dump", filepath.Join(root, e.Name()), "-o", "jsonl"), "")
	}
	return out
}
