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
		{"produce --protocol smoke", exitUsage, "not grpc or kafka"},
		{"produce --prebuilt --api records", exitUsage, "--api batch"},
		{"consume --cold", exitUsage, "--broker-data"},
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

// TestKafkaProtocol sends and reads the same through Kafka's protocol, with both clients, and what one has written the other reads.
func TestKafkaProtocol(t *testing.T) {
	address := moldautest.Start(t).Kafka
	for _, c := range []struct {
		topic, args string
		records     int64
	}{
		{"raw", "--in-flight 8 --connections 2", 12345},
		{"raw-prebuilt", "--in-flight 2 --prebuilt", 12345},
		{"raw-leader", "--acks leader -z lz4", 12345},
		{"franz", "--api records", 12345},
		{"franz-wide", "--api records --in-flight 8 --connections 2 -z zstd --linger 1ms", 12345},
		{"franz-leader", "--api records --acks leader --key-size 4", 12345},
	} {
		args := append([]string{"produce", "--protocol", "kafka", "--topic", c.topic, "--count", "12345", "--batch", "100", "--size", "50", "--partitions", "3"}, strings.Fields(c.args)...)
		produced := bench(t, address, args...)
		p := produced.Produce
		if p.Records != c.records || p.Errors != 0 || p.LatencyMs == nil || p.LatencyMs.Batches != 124 || produced.TopicPartitions != 3 {
			t.Errorf("%s: %+v", c.topic, p)
		}
		if raw := produced.Settings.API == apiBatch; raw == (produced.RecordsPerBatch > 0) {
			t.Errorf("%s: %.1f records a batch", c.topic, produced.RecordsPerBatch)
		}
		for _, read := range []string{"--api batch --decode", "--api batch --connections 2", "--api records"} {
			args := append([]string{"consume", "--protocol", "kafka", "--topic", c.topic}, strings.Fields(read)...)
			if got := bench(t, address, args...).Consume; got.Records != c.records || got.LatencyMs != nil {
				t.Errorf("%s, %s: %+v", c.topic, read, got)
			}
		}
	}
	for _, api := range []string{apiBatch, apiRecords} {
		mixed := bench(t, address, "mixed", "--protocol", "kafka", "--topic", "mixed-"+api, "--api", api, "--warmup", "100ms", "--duration", "500ms", "--rate", "20000", "--batch", "50")
		if mixed.Produce.Records == 0 || mixed.Consume.Records == 0 || mixed.Consume.LatencyMs == nil || mixed.Produce.Errors != 0 {
			t.Errorf("mixed, %s: %+v %+v", api, mixed.Produce, mixed.Consume)
		}
	}
}

// TestKafkaRefusalsAreCounted: a batch that the topic refuses is an error of the run, with the broker's words.
func TestKafkaRefusalsAreCounted(t *testing.T) {
	address := moldautest.Start(t).Kafka
	for _, api := range []string{apiBatch, apiRecords} {
		var out, talk bytes.Buffer
		args := "produce --protocol kafka --count 1000 -c max.message.bytes=1000 --topic small-" + api + " --api " + api + " --server " + address
		if code := run(t.Context(), strings.Fields(args), &out, &talk); code != exitFailure || !strings.Contains(talk.String(), "MESSAGE_TOO_LARGE") {
			t.Errorf("%s: exit %d: %s", api, code, talk.String())
		}
	}
}

// TestSettingsOfReading: a run that only reads prints nothing of how its records were made, which it does not know.
func TestSettingsOfReading(t *testing.T) {
	address := moldautest.Start(t).GRPC
	bench(t, address, "produce", "--count", "1000", "--size", "7")
	var out, talk bytes.Buffer
	for _, format := range []string{"json", "table"} {
		out.Reset()
		if code := run(t.Context(), []string{"consume", "--server", address, "-o", format}, &out, &talk); code != 0 {
			t.Fatal(talk.String())
		}
		for _, unknown := range []string{"record_bytes", "acks", "batch_records", "100 B", "topic_configs", "linger"} {
			if strings.Contains(out.String(), unknown) {
				t.Errorf("%s says %q:\n%s", format, unknown, out.String())
			}
		}
	}
}

func TestReady(t *testing.T) {
	address := moldautest.Start(t).Kafka
	var out, talk bytes.Buffer
	if code := run(t.Context(), []string{"ready", "--server", address}, &out, &talk); code != 0 || !strings.Contains(out.String(), "ready after") {
		t.Errorf("exit %d: %s%s", code, out.String(), talk.String())
	}
	if code := run(t.Context(), []string{"ready", "--server", address + "," + address, "--timeout", "500ms"}, &out, &talk); code != exitFailure || !strings.Contains(talk.String(), "1 brokers of 2") {
		t.Errorf("one broker of two: exit %d: %s", code, talk.String())
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
