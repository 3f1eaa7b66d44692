package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// Acks says when a produced record counts as delivered.
type Acks int32

// The acknowledgement levels.
const (
	AcksISR    = Acks(moldauv1.Acks_ACKS_ISR)    // every in-sync replica has it on disk (the default)
	AcksLeader = Acks(moldauv1.Acks_ACKS_LEADER) // the leader has it, on disk under flush.policy=always
	AcksNone   = Acks(moldauv1.Acks_ACKS_NONE)   // the broker has accepted the bytes; the offset is unknown
)

// Bounds of what options may set.
const (
	MaxInFlightLimit  = 64       // batches in flight per partition; with idempotence 5, the broker's window
	MaxBatchBytes     = 64 << 20 // bytes of one batch
	idempotenceWindow = 5
)

// config is what the options set.
type config struct {
	seeds             []string
	clientID          string
	tls               *tls.Config
	dialOptions       []grpc.DialOption
	dialTimeout       time.Duration
	requestTimeout    time.Duration
	metadataMaxAge    time.Duration
	retryBackoff      time.Duration
	retryBackoffMax   time.Duration
	log               *slog.Logger
	acks              Acks
	compression       record.Codec
	linger            time.Duration
	batchBytes        int
	batchRecords      int
	maxBuffered       int64
	partitioner       Partitioner
	idempotent        bool
	maxInFlight       int
	deliveryTimeout   time.Duration
	produceTimeout    time.Duration
	createMissing     bool
	maxReceiveMessage int
}

func defaultConfig() config {
	return config{
		seeds:             []string{"localhost:9094"},
		clientID:          "moldau-go",
		dialTimeout:       5 * time.Second,
		requestTimeout:    30 * time.Second,
		metadataMaxAge:    time.Minute,
		retryBackoff:      50 * time.Millisecond,
		retryBackoffMax:   time.Second,
		log:               slog.New(slog.DiscardHandler),
		acks:              AcksISR,
		compression:       record.CodecNone,
		linger:            5 * time.Millisecond,
		batchBytes:        512 << 10,
		batchRecords:      10000,
		maxBuffered:       64 << 20,
		partitioner:       KeyPartitioner(),
		idempotent:        true,
		maxInFlight:       idempotenceWindow,
		deliveryTimeout:   2 * time.Minute,
		produceTimeout:    30 * time.Second,
		maxReceiveMessage: MaxBatchBytes + 1<<20,
	}
}

func (c *config) validate() error {
	switch {
	case len(c.seeds) == 0:
		return errors.New("client: no seeds")
	case c.batchBytes < 1<<10 || c.batchBytes > MaxBatchBytes:
		return fmt.Errorf("client: batch of %d bytes is not within 1 KiB and %d", c.batchBytes, MaxBatchBytes)
	case c.batchRecords < 1:
		return fmt.Errorf("client: batch of %d records", c.batchRecords)
	case c.maxInFlight < 1 || c.maxInFlight > MaxInFlightLimit:
		return fmt.Errorf("client: %d batches in flight are not within 1 and %d", c.maxInFlight, MaxInFlightLimit)
	case c.idempotent && c.maxInFlight > idempotenceWindow:
		return fmt.Errorf("client: an idempotent producer has at most %d batches in flight, not %d", idempotenceWindow, c.maxInFlight)
	case c.idempotent && c.acks == AcksNone:
		return errors.New("client: an idempotent producer needs acks: use WithoutIdempotence with AcksNone")
	case c.maxBuffered < int64(c.batchBytes):
		return fmt.Errorf("client: %d buffered bytes do not hold one batch of %d", c.maxBuffered, c.batchBytes)
	case c.deliveryTimeout <= 0 || c.produceTimeout <= 0 || c.dialTimeout <= 0 || c.requestTimeout <= 0:
		return errors.New("client: a timeout is not above 0")
	case !c.compression.Known():
		return fmt.Errorf("client: unknown compression codec %d", c.compression)
	}
	return nil
}

// Option changes the defaults of New.
type Option func(*config)

// WithSeeds names brokers to ask first, host:port of the gRPC port. Default: localhost:9094.
func WithSeeds(seeds ...string) Option { return func(c *config) { c.seeds = seeds } }

// WithClientID sets a name that people see in group descriptions and logs. Default: moldau-go.
func WithClientID(id string) Option { return func(c *config) { c.clientID = id } }

// WithTLS encrypts connections. Default: plaintext.
func WithTLS(t *tls.Config) Option { return func(c *config) { c.tls = t } }

// WithDialOptions adds gRPC options to every connection, such as credentials or interceptors.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(c *config) { c.dialOptions = append(c.dialOptions, opts...) }
}

// WithDialTimeout bounds one attempt to connect. Default: 5 s.
func WithDialTimeout(d time.Duration) Option { return func(c *config) { c.dialTimeout = d } }

// WithRequestTimeout bounds a unary call, all tries together, when its context has no earlier deadline. Default: 30 s.
func WithRequestTimeout(d time.Duration) Option { return func(c *config) { c.requestTimeout = d } }

// WithMetadataMaxAge sets how often topics in use are looked up again. Default: 1 minute.
func WithMetadataMaxAge(d time.Duration) Option { return func(c *config) { c.metadataMaxAge = d } }

// WithLogger receives what happens behind the scenes: reconnects, redirects, resets. Default: nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithAcks sets when a record counts as delivered. Default: AcksISR.
func WithAcks(a Acks) Option { return func(c *config) { c.acks = a } }

// WithCompression compresses batches. Default: record.CodecNone.
func WithCompression(codec record.Codec) Option { return func(c *config) { c.compression = codec } }

// WithLinger lets a batch wait for more records before it is sent. 0 sends at once. ProduceSync and Flush do not wait. Default: 5 ms.
func WithLinger(d time.Duration) Option { return func(c *config) { c.linger = d } }

// WithBatchMaxBytes bounds a batch before compression. Default: 512 KiB. The topic's max.message.bytes bounds it after compression.
func WithBatchMaxBytes(n int) Option { return func(c *config) { c.batchBytes = n } }

// WithBatchMaxRecords bounds the records of a batch. Default: 10,000.
func WithBatchMaxRecords(n int) Option { return func(c *config) { c.batchRecords = n } }

// WithMaxBuffered bounds the bytes of records that wait for their acknowledgement; Produce blocks at the bound. Default: 64 MiB.
func WithMaxBuffered(bytes int64) Option { return func(c *config) { c.maxBuffered = bytes } }

// WithPartitioner chooses partitions. Default: KeyPartitioner.
func WithPartitioner(p Partitioner) Option { return func(c *config) { c.partitioner = p } }

// WithoutIdempotence sends batches without producer id: a retry may store a batch twice. Default: idempotent.
func WithoutIdempotence() Option { return func(c *config) { c.idempotent = false } }

// WithMaxInFlight bounds the batches of one partition that wait for acknowledgement; above 1 without idempotence, retries may reorder.
// Default and, with idempotence, maximum: 5.
func WithMaxInFlight(n int) Option { return func(c *config) { c.maxInFlight = n } }

// WithDeliveryTimeout bounds the time from Produce to the promise. Default: 2 minutes.
func WithDeliveryTimeout(d time.Duration) Option { return func(c *config) { c.deliveryTimeout = d } }

// WithProduceTimeout bounds how long a broker waits for replicas, per try. Default: 30 s.
func WithProduceTimeout(d time.Duration) Option { return func(c *config) { c.produceTimeout = d } }

// WithCreateMissingTopics creates a topic that is produced to and does not exist, with the cluster's defaults. Default: off.
func WithCreateMissingTopics() Option { return func(c *config) { c.createMissing = true } }
