package main

import (
	"strings"
	"testing"

	"github.com/moldau-log/moldau/config"
	"github.com/moldau-log/moldau/moldautest"
)

// TestWhatDoesNotExist: every command that names a topic, partition, group, broker or file that is not there exits 3 and says what to look at, whoever
// finds out: this process, the broker, or one part of an answer. It goes through a real broker.
func TestWhatDoesNotExist(t *testing.T) {
	broker := moldautest.Start(t, func(c *config.Config) { c.Topic.AutoCreate = false })
	for _, args := range []string{"topic create there -p 2", "produce there", "consume there -g pair -n 1"} {
		if got := cli(t, broker.GRPC, "a\nb\n", strings.Fields(args)...); got.code != exitDone {
			t.Fatalf("%s: exit %d, %s", args, got.code, got.err)
		}
	}
	const topics, groups, brokers = "`moldau topic", "`moldau group list`", "`moldau cluster brokers`"
	for _, c := range []struct {
		args string
		says []string
	}{
		{"topic describe nope", []string{"nope", topics}},
		{"topic describe there nope", []string{"nope", topics}},
		{"topic delete nope", []string{"nope", topics}},
		{"topic alter nope -c retention.ms=1", []string{"nope", topics}},
		{"topic add-partitions nope -p 9", []string{"nope", topics}},
		{"topic trim nope", []string{"nope", topics}},
		{"topic trim there -p 9", []string{"there", "no partition 9"}},
		{"topic create new --assignment 9", []string{"broker 9", brokers}},
		{"topic add-partitions there -p 3 --assignment 9", []string{"broker 9", brokers}},
		{"produce nope", []string{"nope", topics}},
		{"produce there -p 9", []string{"no partition 9"}},
		{"consume nope", []string{"nope", topics}},
		{"consume there -p 9", []string{"no partition 9"}},
		{"consume nope -g g", []string{"nope", topics}},
		{"group describe nope", []string{"nope", groups}},
		{"group why nope", []string{"nope", groups}},
		{"group delete nope", []string{"nope", groups}},
		{"group reset nope --to start", []string{"nope", groups}},
		{"group reset nope --to start --execute -o json", []string{"nope", groups}},
		{"group reset pair --topic nope --to start", []string{"nope", topics}},
		{"group reset pair --topic there:9 --to start", []string{"no partition 9"}},
		{"config get topic nope", []string{"nope", topics}},
		{"config get broker 9", []string{"9", brokers}},
		{"config get broker nine", []string{"nine", brokers}},
		{"config get topic there no.such.key", []string{"no.such.key"}},
		{"config set topic nope retention.ms=1", []string{"nope", topics}},
		{"config set broker 9 max.connections=1", []string{"9", brokers}},
		{"config unset topic nope retention.ms", []string{"nope", topics}},
		{"cluster partitions --topic nope", []string{"nope", topics}},
		{"cluster reassign nope:0 --replicas 0", []string{"nope", topics}},
		{"cluster reassign there:9 --replicas 0", []string{"topic there has no partition 9"}},
		{"cluster reassign there:9 --cancel", []string{"topic there has no partition 9"}},
		{"cluster reassign there:0 --replicas 9", []string{"broker 9", brokers}},
		{"cluster reassign there:0 --cancel", []string{"there-0", "`moldau cluster reassign`"}},
		{"cluster elect nope", []string{"nope", topics}},
		{"cluster elect nope:0", []string{"nope", topics}},
		{"cluster elect nope:0 --unclean", []string{"nope", topics}},
		{"cluster elect there:9", []string{"no partition 9"}},
		{"cluster unregister 9", []string{"9", brokers}},
		{"cluster recover --data /no/such/dir", []string{"/no/such/dir"}},
		{"log dump /no/such/dir", []string{"/no/such/dir"}},
		{"log verify /no/such/dir", []string{"/no/such/dir"}},
	} {
		got := cli(t, broker.GRPC, "x\n", strings.Fields(c.args)...)
		if got.code != exitNotFound {
			t.Errorf("%s: exit %d, want 3\n%s%s", c.args, got.code, got.out, got.err)
		}
		for _, want := range c.says {
			if !strings.Contains(got.err, want) {
				t.Errorf("%s: %q does not say %q", c.args, got.err, want)
			}
		}
		if strings.Contains(got.out, "-1") {
			t.Errorf("%s: -1 stands for what is unknown: %s", c.args, got.out)
		}
	}
	// A part that is there and a part that is not: that is a failure, not an absence.
	got := cli(t, broker.GRPC, "", "group", "reset", "pair", "--topic", "nope", "--topic", "there:0", "--to", "start", "-o", "json")
	resets := decodeAll[[]resetShape](t, got.out)
	if len(resets) != 1 || len(resets[0]) != 2 || resets[0][0].CommittedOffset != nil || resets[0][0].PreviousOffset != nil || !strings.Contains(got.out, `"committed_offset": null`) {
		t.Errorf("exit %d: %s", got.code, got.out)
	}
	if got := cli(t, broker.GRPC, "", "config", "set", "broker", "0", "foo=1"); got.code != exitFailure || !strings.Contains(got.err, "`moldau config get broker 0 -o wide`") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	if got := cli(t, broker.GRPC, "", "group", "reset", "new", "--topic", "there", "--to", "end"); got.code != exitDone {
		t.Errorf("a group that is to be made: exit %d: %s", got.code, got.err)
	}
}
