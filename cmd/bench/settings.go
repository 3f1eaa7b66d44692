package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/record"
)

// parts says what a run does.
type parts struct{ produce, consume bool }

// settings are everything that shapes a run. They are printed with its figures.
type settings struct {
	Servers         []string      `json:"servers"`
	Protocol        string        `json:"protocol"`
	Topic           string        `json:"topic"`
	API             string        `json:"api"`
	Connections     int           `json:"connections"`
	Warmup          time.Duration `json:"-"`
	Duration        time.Duration `json:"-"`
	WarmupSeconds   float64       `json:"warmup_seconds"`
	DurationSeconds float64       `json:"duration_seconds"`
	Count           int64         `json:"count"`
	Tail            bool          `json:"tail"`
	Decode          bool          `json:"decode"`
	Cold            bool          `json:"cold"`
	BrokerPIDs      []int         `json:"broker_pids"`
	BrokerData      []string      `json:"-"`
	Output          string        `json:"-"`
	*ProduceSettings
}

// ProduceSettings are those that shape what is produced. A run that only reads knows none of them and prints none. (Exported, so that JSON can fill it in.)
type ProduceSettings struct {
	Partitions        int32         `json:"partitions"`
	ReplicationFactor int32         `json:"replication_factor"`
	TopicConfigs      []string      `json:"topic_configs"`
	Acks              string        `json:"acks"`
	Batch             int           `json:"batch_records"`
	Size              int           `json:"record_bytes"`
	KeySize           int           `json:"key_bytes"`
	Compression       string        `json:"compression"`
	InFlight          int           `json:"in_flight"`
	Prebuilt          bool          `json:"prebuilt"`
	Linger            time.Duration `json:"-"`
	LingerMs          float64       `json:"linger_ms"`
	Rate              int64         `json:"rate_records_per_second"` // 0: as fast as it goes
	Seed              uint64        `json:"seed"`
}

// printed are the settings that a run of p has used.
func (s *settings) printed(p parts) *settings {
	used := *s
	if !p.produce {
		used.ProduceSettings = nil
	}
	return &used
}

// Protocols, and what is sent and read through them.
const (
	protocolGRPC  = "grpc"
	protocolKafka = "kafka"
	apiBatch      = "batch"
	apiRecords    = "records"
)

// clientID is how the load is called in the brokers' logs and metrics.
const clientID = "moldau-bench"

// Bounds of a run.
const (
	maxConnections = 256
	maxBatch       = 1_000_000
	maxRecordBytes = 32 << 20
	maxBuffered    = 512 << 20 // bytes that a client holds
)

func defaultSettings() *settings {
	return &settings{
		Protocol: protocolGRPC, Topic: "bench", API: apiBatch, Connections: 1, Warmup: 2 * time.Second, Duration: 10 * time.Second, Output: "table",
		ProduceSettings: &ProduceSettings{Partitions: 6, Acks: "isr", Batch: 500, Size: 100, Compression: "none", InFlight: 5, Seed: 1},
	}
}

// defaultServers are where a protocol's port is, if nothing is said.
func defaultServers(protocol string) []string {
	if protocol == protocolKafka {
		return []string{"localhost:9092"}
	}
	if env := os.Getenv("MOLDAU_SERVER"); env != "" {
		return strings.Split(env, ",")
	}
	return []string{"localhost:9094"}
}

func (s *settings) addFlags(f *pflag.FlagSet, p parts) {
	f.StringSliceVar(&s.Servers, "server", s.Servers, "brokers, host:port of the protocol's port; for grpc also env MOLDAU_SERVER (default localhost:9094, with kafka localhost:9092)")
	f.StringVar(&s.Protocol, "protocol", s.Protocol, "grpc, or kafka, for any broker that speaks it")
	f.StringVar(&s.Topic, "topic", s.Topic, "topic; created when it is not there")
	f.StringVar(&s.API, "api", s.API, "batch: whole record batches; records: record by record, as programs do (kafka: by franz-go)")
	f.IntVar(&s.Connections, "connections", s.Connections, "clients, each with its own connections; partitions are spread over them")
	f.DurationVar(&s.Warmup, "warmup", s.Warmup, "time before measuring starts; not with --count or a backlog")
	f.DurationVar(&s.Duration, "duration", s.Duration, "time to measure")
	f.Int64Var(&s.Count, "count", 0, "records instead of a time; 0: use --duration")
	f.IntSliceVar(&s.BrokerPIDs, "broker-pids", nil, "processes whose CPU time and memory are read from /proc")
	f.StringVarP(&s.Output, "output", "o", s.Output, "table or json")
	if p.produce {
		f.Int32Var(&s.Partitions, "partitions", s.Partitions, "partitions of a topic that is created")
		f.Int32Var(&s.ReplicationFactor, "replication-factor", 0, "replicas of a topic that is created; 0: the cluster's default")
		f.StringArrayVarP(&s.TopicConfigs, "config", "c", nil, "config key=value of a topic that is created, such as flush.policy=os; repeatable")
		f.StringVar(&s.Acks, "acks", s.Acks, "isr, leader or none")
		f.IntVar(&s.Batch, "batch", s.Batch, "records of a batch")
		f.IntVar(&s.Size, "size", s.Size, "bytes of a value")
		f.IntVar(&s.KeySize, "key-size", 0, "bytes of a key; 0: no key")
		f.StringVarP(&s.Compression, "compression", "z", s.Compression, "none, gzip, snappy, lz4 or zstd")
		f.IntVar(&s.InFlight, "in-flight", s.InFlight, "batches of one partition that wait for acknowledgement; idempotent up to 5 with --api records")
		f.Int64Var(&s.Rate, "rate", 0, "records per second over all; 0: as fast as it goes")
		f.DurationVar(&s.Linger, "linger", 0, "how long franz-go waits for a fuller batch")
		f.Uint64Var(&s.Seed, "seed", s.Seed, "of the payload")
	}
	if p.consume {
		f.BoolVar(&s.Decode, "decode", false, "also decode every record; batches are checked against their checksum in any case")
	}
	if p.produce && !p.consume {
		f.BoolVar(&s.Prebuilt, "prebuilt", false, "build as many batches as may be in flight and send them again and again, so that building costs the client nothing; --api batch")
	}
	if p.consume && !p.produce {
		f.BoolVar(&s.Cold, "cold", false, "before reading, take the segments under --broker-data out of the page cache; Linux")
		f.StringSliceVar(&s.BrokerData, "broker-data", nil, "data directories of the brokers, on this machine; for --cold")
		f.BoolVar(&s.Tail, "tail", false, "follow the end for --duration instead of reading the backlog")
	}
}

func (s *settings) validate() error {
	s.WarmupSeconds, s.DurationSeconds, s.LingerMs = s.Warmup.Seconds(), s.Duration.Seconds(), float64(s.Linger)/float64(time.Millisecond)
	if len(s.Servers) == 0 {
		s.Servers = defaultServers(s.Protocol)
	}
	switch {
	case s.Protocol != protocolGRPC && s.Protocol != protocolKafka:
		return fmt.Errorf("--protocol %q is not grpc or kafka", s.Protocol)
	case s.Prebuilt && s.API != apiBatch:
		return fmt.Errorf("--prebuilt is for --api batch")
	case s.Cold != (len(s.BrokerData) > 0):
		return fmt.Errorf("--cold and --broker-data belong together")
	case s.API != apiBatch && s.API != apiRecords:
		return fmt.Errorf("--api %q is not batch or records", s.API)
	case s.Output != "table" && s.Output != "json":
		return fmt.Errorf("-o %q is not table or json", s.Output)
	case s.Batch < 1 || s.Batch > maxBatch:
		return fmt.Errorf("--batch %d is not within 1 and %d", s.Batch, maxBatch)
	case s.Size < 0 || s.Size > maxRecordBytes || s.KeySize < 0 || s.KeySize > maxRecordBytes:
		return fmt.Errorf("--size %d or --key-size %d is not within 0 and %d", s.Size, s.KeySize, maxRecordBytes)
	case s.Connections < 1 || s.Connections > maxConnections:
		return fmt.Errorf("--connections %d is not within 1 and %d", s.Connections, maxConnections)
	case s.InFlight < 1 || s.InFlight > client.MaxInFlightLimit:
		return fmt.Errorf("--in-flight %d is not within 1 and %d", s.InFlight, client.MaxInFlightLimit)
	case s.Rate < 0 || s.Count < 0 || s.Duration <= 0 || s.Warmup < 0 || s.Linger < 0:
		return fmt.Errorf("--rate, --count, --warmup and --linger are at least 0, --duration is above 0")
	}
	if _, err := s.acks(); err != nil {
		return err
	}
	_, err := record.ParseCodec(s.Compression)
	return err
}

func (s *settings) acks() (client.Acks, error) {
	switch s.Acks {
	case "isr":
		return client.AcksISR, nil
	case "leader":
		return client.AcksLeader, nil
	case "none":
		return client.AcksNone, nil
	}
	return 0, fmt.Errorf("--acks %q is not isr, leader or none", s.Acks)
}

// warmup is the time before measuring: none when something is counted.
func (s *settings) warmup() time.Duration {
	if s.Count > 0 {
		return 0
	}
	return s.Warmup
}

func splitConfig(pair string) (key, value string, err error) {
	key, value, ok := strings.Cut(pair, "=")
	if !ok {
		return "", "", fmt.Errorf("config %q is not key=value", pair)
	}
	return key, value, nil
}
