// Command kcat is the row of kcat in the matrix of test/compat: it runs the tool, one process for each producer's send, each read and each member.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moldau-log/moldau/test/compat/kit"
)

type client struct {
	brokers string
	single  map[string]bool // topics of which one partition is used
}

func main() {
	kit.Main(func(brokers []string) (kit.Client, error) {
		return &client{strings.Join(brokers, ","), map[string]bool{}}, nil
	})
}

// run is kcat with arguments and an input, to its end.
func (c *client) run(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "kcat", append([]string{"-b", c.brokers}, args...)...)
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("kcat %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// CreateTopic asks for the metadata of the topic, which creates it with the brokers' number of partitions. Where one was asked for, one is used.
func (c *client) CreateTopic(ctx context.Context, topic string, partitions int) error {
	c.single[topic] = partitions == 1
	return kit.Eventually(ctx, "metadata", func() error {
		out, err := c.run(ctx, nil, "-L", "-t", topic, "-X", "allow.auto.create.topics=true")
		if err == nil && (!bytes.Contains(out, []byte("partition 0, leader")) || bytes.Contains(out, []byte("leader -1"))) {
			err = fmt.Errorf("no leaders yet: %s", out)
		}
		return err
	})
}

type producer struct {
	c    *client
	args []string
}

func (c *client) Producer(_ context.Context, topic string, p kit.Producing) (kit.Producer, error) {
	args := []string{"-P", "-t", topic, "-K", "|", "-Z", "-z", p.Codec, "-X", "acks=all", "-X", "enable.idempotence=" + strconv.FormatBool(p.Idempotent)}
	if c.single[topic] {
		args = append(args, "-p", "0")
	}
	return &producer{c, args}, nil
}

// Send groups the records by their headers, which belong to a whole run of kcat. It ends with 0 when every record was delivered.
func (p *producer) Send(ctx context.Context, records []kit.Record) error {
	for len(records) > 0 {
		var lines bytes.Buffer
		args := append([]string{}, p.args...)
		for _, h := range records[0].Headers {
			args = append(args, "-H", h.Key+"="+string(h.Value))
		}
		n := 0
		for ; n < len(records) && (n == 0 || len(records[n].Headers) == 0 && len(records[0].Headers) == 0); n++ {
			fmt.Fprintf(&lines, "%s|%s\n", records[n].Key, records[n].Value)
		}
		if _, err := p.c.run(ctx, lines.Bytes(), args...); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

func (p *producer) Close() error { return nil }

// line is what kcat -J prints of a record.
type line struct {
	Partition int32
	Offset    int64
	TS        int64
	Key       *string
	Payload   *string
	Headers   []string
}

func record(text []byte) (kit.Record, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return kit.Record{}, fmt.Errorf("%.80q: %w", text, err)
	}
	r := kit.Record{Partition: l.Partition, Offset: l.Offset, Time: time.UnixMilli(l.TS)}
	if l.Key != nil {
		r.Key = []byte(*l.Key)
	}
	if l.Payload != nil {
		r.Value = []byte(*l.Payload)
	}
	for i := 0; i+1 < len(l.Headers); i += 2 {
		r.Headers = append(r.Headers, kit.Header{Key: l.Headers[i], Value: []byte(l.Headers[i+1])})
	}
	return r, nil
}

func (c *client) Read(ctx context.Context, r kit.Reading) ([]kit.Record, error) {
	args := []string{"-C", "-t", r.Topic, "-J", "-q", "-c", strconv.Itoa(r.N)}
	if r.From.IsZero() {
		args = append(args, "-o", "beginning")
	} else {
		args = append(args, "-o", fmt.Sprintf("s@%d", r.From.UnixMilli()))
	}
	if c.single[r.Topic] {
		args = append(args, "-p", "0")
	}
	if r.MaxBytes > 0 {
		args = append(args, "-X", fmt.Sprintf("max.partition.fetch.bytes=%d", r.MaxBytes))
	}
	out, err := c.run(ctx, nil, args...)
	if err != nil {
		return nil, err
	}
	var records []kit.Record
	for text := range bytes.Lines(out) {
		rec, err := record(text)
		if err != nil {
			return nil, err
		}
		records = append(records, rec)
	}
	return records, nil
}

// Member is kcat -G, which commits by itself and leaves at SIGTERM.
func (c *client) Member(ctx context.Context, group, topic string, deliver func(kit.Record)) error {
	cmd := exec.CommandContext(ctx, "kcat", "-b", c.brokers, "-G", group, "-J", "-q", "-u", "-X", "auto.offset.reset=earliest", "-X", "auto.commit.interval.ms=500",
		"-X", "session.timeout.ms=10000", topic)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		r, err := record(lines.Bytes())
		if err != nil {
			return err
		}
		deliver(r)
	}
	if err := cmd.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// Own: a librdkafka that does not ask for versions speaks what the version of the broker that it is told of had. From 0.10.0 on it asks all the same, and works; what it
// speaks to 0.9.0 Apache Kafka 4 has dropped, and kcat says that nothing was delivered.
func (c *client) Own() []kit.Own {
	return []kit.Own{{Name: "old-version", Do: c.oldVersion}}
}

func (c *client) oldVersion(ctx context.Context, topic string) error {
	if err := c.CreateTopic(ctx, topic, 1); err != nil {
		return err
	}
	pinned := func(version string) []string {
		return []string{"-t", topic, "-p", "0", "-X", "api.version.request=false", "-X", "broker.version.fallback=" + version}
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4"} {
		if _, err := c.run(ctx, []byte(codec+"\n"), append(pinned("0.10.0"), "-P", "-z", codec)...); err != nil {
			return err
		}
	}
	if _, err := c.run(ctx, []byte("refused\n"), append(pinned("0.9.0"), "-P", "-X", "message.timeout.ms=3000")...); err == nil {
		return errors.New("a client of the time of 0.9.0 is told that its record was taken")
	}
	out, err := c.run(ctx, nil, append(pinned("0.10.0"), "-C", "-o", "beginning", "-e", "-q")...)
	if want := "none\ngzip\nsnappy\nlz4\n"; err == nil && string(out) != want {
		err = fmt.Errorf("read %q, want %q", out, want)
	}
	return err
}

// LeavesIdle: kcat drops the record that it has in hand when it is told to end, after the library has stored its offset.
func (c *client) LeavesIdle() {}

func (c *client) Admin(context.Context, string) error {
	return kit.Unsupported("kcat has no administration")
}
