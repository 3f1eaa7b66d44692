package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// Client is a native client of all brokers, closed when the test ends.
func (c *Cluster) Client(t testing.TB, opts ...client.Option) *client.Client {
	t.Helper()
	return newClient(t, append([]client.Option{client.WithSeeds(strings.Split(c.Servers(), ",")...)}, opts...)...)
}

// Client is a native client that asks this broker first.
func (b *Broker) Client(t testing.TB, opts ...client.Option) *client.Client {
	t.Helper()
	return newClient(t, append([]client.Option{client.WithSeeds(b.GRPC)}, opts...)...)
}

func newClient(t testing.TB, opts ...client.Option) *client.Client {
	t.Helper()
	cl, err := client.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

// patient is a context that ends with the harness's patience, and with the test.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Metric sums the samples of a metric whose line begins with name, which may carry labels.
func (b *Broker) Metric(name string) (float64, error) {
	web := http.Client{Timeout: Patience}
	resp, err := web.Get("http://" + b.HTTP + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var sum float64
	found := false
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(page)) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric line %q: %w", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, fmt.Errorf("broker %d has no metric %s", b.ID, name)
	}
	return sum, nil
}

// value is a record of one partition.
func value(topic string, partition int32, v string) *client.Record {
	return &client.Record{Topic: topic, Partition: partition, Value: []byte(v)}
}

// logStart asks the leader where a partition begins.
func logStart(ctx context.Context, cl *client.Client, topic string, partition int32) (int64, error) {
	return offset(ctx, cl, topic, partition, moldauv1.OffsetSpec_OFFSET_SPEC_EARLIEST)
}

// logEnd asks the leader for the high watermark.
func logEnd(ctx context.Context, cl *client.Client, topic string, partition int32) (int64, error) {
	return offset(ctx, cl, topic, partition, moldauv1.OffsetSpec_OFFSET_SPEC_LATEST)
}

func offset(ctx context.Context, cl *client.Client, topic string, partition int32, spec moldauv1.OffsetSpec) (int64, error) {
	res, err := cl.ListOffsets(ctx, &moldauv1.ListOffsetsRequest{Queries: []*moldauv1.OffsetQuery{{Topic: topic, Partition: partition, Spec: spec}}})
	if err != nil {
		return 0, err
	}
	o := res.GetOffsets()[0]
	return o.GetOffset(), client.FromWire(o.GetError())
}

// values reads a topic from its start to its present end, one value a line.
func (c *Cluster) values(topic string) []string {
	c.t.Helper()
	return strings.Fields(c.Must("consume", topic, "--from", "start", "--exit-at-end"))
}

// decode runs the command line and decodes what it prints; a field that v does not have is an error, so that v documents the output.
func (c *Cluster) decode(v any, args ...string) error {
	c.t.Helper()
	out := c.CLI(args...)
	if out.Code != 0 {
		return fmt.Errorf("moldau %s: exit %d: %s", strings.Join(args, " "), out.Code, out.Stderr)
	}
	dec := json.NewDecoder(strings.NewReader(out.Stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("moldau %s: %w\n%s", strings.Join(args, " "), err, out.Stdout)
	}
	return nil
}
