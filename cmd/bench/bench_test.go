package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/moldautest"
)

// bench runs a command line and decodes its result.
func bench(t *testing.T, address string, args ...string) result {
	t.Helper()
	var out, talk bytes.Buffer
	if code := run(t.Context(), append(args, "--server", address, "-o", "json"), &out, &talk); code != 0 {
		t.Fatalf("bench %v: exit %d: %s", args, code, talk.String())
	}
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	return r
}

// TestEveryRecordIsCounted holds the figures against what was asked for. Rates and latencies are only checked for being there.
func TestEveryRecordIsCounted(t *testing.T) {
	address := moldautest.Start(t).GRPC
	pid := strconv.Itoa(os.Getpid())
	produced := bench(t, address, "produce", "--count", "12345", "--batch", "100", "--size", "50", "--partitions", "3", "--in-flight", "8", "--broker-pids", pid)
	p := produced.Produce
	if p == nil || p.Records != 12345 || p.Errors != 0 || p.RecordsPerSecond <= 0 || p.LatencyMs == nil || p.LatencyMs.Batches != 124 || produced.Consume != nil {
		t.Errorf("produce: %+v", p)
	}
	if len(produced.Brokers) != 1 || produced.Brokers[0].RSSPeakBytes == 0 || produced.Client.CPUSeconds <= 0 || produced.TopicPartitions != 3 || produced.BrokerVersion != "test" {
		t.Errorf("produce: %+v", produced)
	}
	for _, args := range [][]string{{"consume"}, {"consume", "--decode", "--connections", "2"}, {"consume", "--api", "records"}} {
		if c := bench(t, address, args...).Consume; c == nil || c.Records != 12345 || c.LatencyMs != nil {
			t.Errorf("%v: %+v", args, c)
		}
	}
	records := bench(t, address, "produce", "--topic", "other", "--api", "records", "--count", "1000", "--batch", "100", "--key-size", "8", "-z", "zstd", "--connections", "2")
	if records.Produce.Records != 1000 || !records.Idempotent || records.Produce.Bytes != 1000*(100+8) {
		t.Errorf("records: %+v", records.Produce)
	}
	mixed := bench(t, address, "mixed", "--topic", "third", "--warmup", "100ms", "--duration", "500ms", "--rate", "20000", "--batch", "50")
	if mixed.Produce.Records == 0 || mixed.Consume.Records == 0 || mixed.Consume.LatencyMs == nil {
		t.Errorf("mixed: %+v %+v", mixed.Produce, mixed.Consume)
	}
	if n := mixed.Produce.RecordsPerSecond; n > 40000 {
		t.Errorf("a rate of 20000 gave %.0f records/s", n)
	}
}

func TestUsageAndFailures(t *testing.T) {
	address := moldautest.Start(t).GRPC
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"produce --acks most", exitUsage, "not isr, leader or none"},
		{"produce --protocol smoke", exitUsage, "only grpc"},
		{"produce --batch 0", exitUsage, "--batch 0"},
		{"produce --in-flight 65", exitUsage, "--in-flight 65"},
		{"produce -z zip", exitUsage, "zip"},
		{"consume --topic nope", exitFailure, "UNKNOWN_TOPIC"},
	} {
		var out, talk bytes.Buffer
		code := run(t.Context(), append(strings.Fields(c.args), "--server", address), &out, &talk)
		if code != c.code || !strings.Contains(talk.String(), c.says) {
			t.Errorf("%s: exit %d, want %d: %q does not say %q", c.args, code, c.code, talk.String(), c.says)
		}
	}
}

// TestPayloadIsReproducible: the same seed gives the same bytes, another one others.
func TestPayloadIsReproducible(t *testing.T) {
	take := func(seed uint64) string {
		p := newPayload(seed, 20, 4)
		var all []byte
		for range 10 {
			k, v := p.next()
			all = append(append(all, k...), v...)
		}
		return string(all)
	}
	first, again := take(1), take(1)
	if first != again || first == take(2) {
		t.Error("payloads do not follow their seed")
	}
}
