package grpcapi

import (
	"crypto/tls"
	"time"

	"github.com/moldau-log/moldau/internal/conns"
	"github.com/moldau-log/moldau/record"
)

// Config bounds the door. A zero field takes its default.
type Config struct {
	// TLS encrypts the port; nil serves plaintext.
	TLS *tls.Config
	// MaxMessageBytes is the largest message, and so the largest batch. Default 100 MiB. Topics bound batches by max.message.bytes.
	MaxMessageBytes int
	// MaxInFlightBytes bounds the bytes of unanswered batches over all streams, and, on its own, those of answers that their clients have not taken. Default 256 MiB.
	MaxInFlightBytes int
	// WindowBytes bounds the bytes of unanswered batches of one Produce stream; clients are told. Default 16 MiB.
	WindowBytes int
	// MaxDecompressedBytes bounds one batch when it is decompressed for checking. Default 256 MiB.
	MaxDecompressedBytes int
	// Memory counts what decompressions hold, of this door and of others that have the same. Default one of MaxInFlightBytes.
	Memory *record.Memory
	// MaxConnections and MaxConnectionsPerAddress bound open connections; more are closed at once. Defaults 10,000 and 4,000.
	MaxConnections, MaxConnectionsPerAddress int
	// Descriptors is how many the process may have open; at most a quarter of them are for connections here, and half of those for one address. Default no bound.
	Descriptors int
	// MaxStreams bounds the calls of one connection. Default 1,000.
	MaxStreams int
	// HandshakeTimeout bounds the time from accepting a connection to its first settings. Default 10 s.
	HandshakeTimeout time.Duration
	// IdleTimeout closes a connection that has no call. Default 10 min.
	IdleTimeout time.Duration
	// Reflection lets tools such as grpcurl ask for the services. Default off.
	Reflection bool
	// Now is the wall clock. Default time.Now.
	Now func() time.Time
}

// DefaultConfig is the configuration of a door that was told nothing.
func DefaultConfig() Config {
	return Config{
		MaxMessageBytes:          100 << 20,
		MaxInFlightBytes:         256 << 20,
		WindowBytes:              16 << 20,
		MaxDecompressedBytes:     256 << 20,
		MaxConnections:           10_000,
		MaxConnectionsPerAddress: 4_000,
		MaxStreams:               1000,
		HandshakeTimeout:         10 * time.Second,
		IdleTimeout:              10 * time.Minute,
		Now:                      time.Now,
	}
}

// withDefaults fills the zero fields.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	for _, f := range []struct{ value, fallback *int }{
		{&c.MaxMessageBytes, &d.MaxMessageBytes},
		{&c.MaxInFlightBytes, &d.MaxInFlightBytes},
		{&c.WindowBytes, &d.WindowBytes},
		{&c.MaxDecompressedBytes, &d.MaxDecompressedBytes},
		{&c.MaxConnections, &d.MaxConnections},
		{&c.MaxConnectionsPerAddress, &d.MaxConnectionsPerAddress},
		{&c.MaxStreams, &d.MaxStreams},
	} {
		if *f.value <= 0 {
			*f.value = *f.fallback
		}
	}
	if c.Descriptors > 0 {
		l := conns.Limits{Whole: c.MaxConnections, Each: c.MaxConnectionsPerAddress}.Within(c.Descriptors, conns.ClientShare)
		c.MaxConnections, c.MaxConnectionsPerAddress = l.Whole, l.Each
	}
	if c.IdleTimeout <= 0 {
		c.IdleTimeout = d.IdleTimeout
	}
	if c.HandshakeTimeout <= 0 {
		c.HandshakeTimeout = d.HandshakeTimeout
	}
	if c.Memory == nil {
		c.Memory = record.NewMemory(c.MaxInFlightBytes)
	}
	if c.Now == nil {
		c.Now = d.Now
	}
	return c
}

// Bounds of single requests.
const (
	maxFetchPartitions = 10000
	maxQueries         = 10000
	maxPlainRecords    = 10000
	maxGroupsPerCall   = 1000
	maxPartitionsNamed = 100000
)

// maxUnreadResults bounds the results of one Produce stream that wait to be sent, so that a client that never reads holds about 2 MiB, not the heap.
const maxUnreadResults = 16384

// Times of single requests.
const (
	defaultProduceTimeout = 30 * time.Second
	defaultFetchWait      = 5 * time.Second
	maxFetchWait          = 30 * time.Second
)

// Sizes of fetches in bytes.
const (
	defaultFetchBytes = 1 << 20
	maxFetchBytes     = 1 << 20 // of one message of a Fetch stream, whatever the client asks for; one batch always fits
	headerSize        = 64      // what a header takes in memory beside its bytes
	maxPlainBytes     = 3 << 20 // of decompressed records in one answer; gRPC clients take 4 MiB unless they are told to take more
	fetchRoundFactor  = 4       // partitions that are read in one round, at full size, before the first of them gets its turn again
)
