// Package kit has the scenarios that every Go client of the matrix goes through, so that a client brings only an adapter: how it sends, reads, joins
// a group. Main does one capability of the contract in docs/compatibility.md. It is called by the programs under clients/ and by the short test.
//
// A scenario checks contents, never only success, and every wait in it ends with its context.
package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Limit is how long a capability may take.
const Limit = 85 * time.Second

// Record is a record as a client gives or gets it. Partition, Offset and Time are set by reading only.
type Record struct {
	Key, Value []byte // nil is null
	Headers    []Header
	Partition  int32
	Offset     int64
	Time       time.Time
}

// Header is a header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Producing says how a producer is to be made. It always has acks=all.
type Producing struct {
	Codec      string // none, gzip, snappy, lz4, zstd
	Idempotent bool
}

// Reading says what to read: N records of all partitions from the start, or from the first record at or after From.
type Reading struct {
	Topic      string
	Partitions int
	N          int
	From       time.Time // zero: from the start
	MaxBytes   int       // limit of one fetch and of one partition in it; 0: the client's default
}

// Client is an adapter.
type Client interface {
	CreateTopic(ctx context.Context, topic string, partitions int) error
	// Producer opens a producer for the topic.
	Producer(ctx context.Context, topic string, p Producing) (Producer, error)
	Read(ctx context.Context, r Reading) ([]Record, error)
	// Member takes part in the group from the start of the topic until ctx ends, commits what it has delivered, leaves and returns nil.
	Member(ctx context.Context, group, topic string, deliver func(Record)) error
	// Admin creates, describes, alters, extends, lists and deletes the topic, and checks each.
	Admin(ctx context.Context, topic string) error
}

// IdleLeaver is a client whose members lose a record when they leave in the middle of the work, whatever the broker does.
type IdleLeaver interface{ LeavesIdle() }

// Producer sends.
type Producer interface {
	// Send returns nil when every record is acknowledged.
	Send(ctx context.Context, records []Record) error
	Close() error
}

// errUnsupported marks what a client cannot do.
var errUnsupported = errors.New("unsupported")

// Unsupported says why the client cannot do what was asked.
func Unsupported(why string) error { return fmt.Errorf("%w: %s", errUnsupported, why) }

// capabilities are the names of the contract in order.
var capabilities = []string{
	"produce-none", "produce-gzip", "produce-snappy", "produce-lz4", "produce-zstd", "consume", "group", "admin", "seek-time", "headers", "nulls", "big", "idempotent", "broker-kill",
}

// Own is a capability that only one client has.
type Own struct {
	Name string
	// Do may use topics whose names begin with the given one.
	Do func(ctx context.Context, topic string) error
}

// Owner is a client with capabilities of its own.
type Owner interface{ Own() []Own }

// Main is the main function of a client's program: list, or one capability.
func Main(open func(brokers []string) (Client, error)) {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: list, or a capability")
		os.Exit(2)
	}
	if os.Args[1] == "list" {
		fmt.Println(strings.Join(capabilities, "\n"))
		client, err := open(nil)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for _, own := range owned(client) {
			fmt.Println(own.Name)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	client, err := open(strings.Split(os.Getenv("BROKERS"), ","))
	if err == nil {
		err = Run(ctx, client, os.Args[1], os.Getenv("PREFIX"))
	}
	cancel()
	if errors.Is(err, errUnsupported) {
		_, why, _ := strings.Cut(err.Error(), errUnsupported.Error()+": ")
		fmt.Println(why)
		os.Exit(77)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}

// Run does one capability with names that begin with prefix.
func Run(ctx context.Context, c Client, capability, prefix string) error {
	s := &scenario{client: c, topic: prefix + capability}
	if codec, ok := strings.CutPrefix(capability, "produce-"); ok {
		return s.produce(ctx, Producing{Codec: codec}, 300)
	}
	switch capability {
	case "consume":
		return s.consume(ctx)
	case "group":
		return s.group(ctx)
	case "admin":
		return c.Admin(ctx, s.topic)
	case "seek-time":
		return s.seekTime(ctx)
	case "headers":
		return s.headers(ctx)
	case "nulls":
		return s.nulls(ctx)
	case "big":
		return s.big(ctx)
	case "idempotent":
		return s.produce(ctx, Producing{Codec: "none", Idempotent: true}, 1000)
	case "broker-kill":
		return s.brokerKill(ctx)
	}
	for _, own := range owned(c) {
		if own.Name == capability {
			return own.Do(ctx, s.topic)
		}
	}
	return fmt.Errorf("no capability %q", capability)
}

func owned(c Client) []Own {
	if o, ok := c.(Owner); ok {
		return o.Own()
	}
	return nil
}
