package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/config"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

const (
	// maxRecordBytes lets a record be as large as the default max.message.bytes allows.
	maxRecordBytes = "1MiB"
	// farewell bounds the wait for acknowledgements after an interruption.
	farewell = 10 * time.Second
	// anyPartition leaves the partition to the key.
	anyPartition = -1
)

// produceFlags are the flags of `moldau produce`.
type produceFlags struct {
	key, delimiter, acks, codec string
	maxRecord                   string // with a unit or without
	partition                   int32
	headers                     []string
	verbose                     bool

	limit int // maxRecord in bytes, once options has read it
}

func newProduce(a *app) *cobra.Command {
	var f produceFlags
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Write the lines of standard input as records",
		Long: `Write each line of standard input as a record, and say at the end how many were acknowledged. Sent again after a lost connection or a change of
leader, a record is still in the log once. Exit 1 if any record was not acknowledged: it has failed, and is not in the log, or its outcome is unknown.
It is tried for as long as --timeout says. A line that is too long is one failed record; those after it are written.`,
		Example: `  echo hello | moldau produce greetings
  seq 1 1000000 | moldau produce numbers -z zstd
  printf 'alice:1\nbob:2\n' | moldau produce scores --key-delimiter : -H source=shell -v`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.produce(cmd.Context(), args[0], f) },
	}
	cmd.Flags().StringVarP(&f.key, "key", "k", "", "key of every record")
	cmd.Flags().StringVar(&f.delimiter, "key-delimiter", "", "what parts key and value in a line; a line without it has no key")
	cmd.Flags().StringVar(&f.acks, "acks", "isr", "isr: every in-sync replica has it on disk; leader: the leader has; none")
	cmd.Flags().StringVarP(&f.codec, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	cmd.Flags().Int32VarP(&f.partition, "partition", "p", anyPartition, "partition; -1: by the key, or spread")
	cmd.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "header name=value of every record; repeatable")
	cmd.Flags().StringVar(&f.maxRecord, "max-record-bytes", maxRecordBytes, "largest record, and largest batch before compression; the topic's max.message.bytes must allow it too")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "print partition and offset of every record")
	exclusive(cmd, "key", "key-delimiter")
	return cmd
}

// options translates flags into options of the client, and the part that all records share.
func (f *produceFlags) options(a *app) ([]client.Option, client.Record, error) {
	acks, ok := map[string]client.Acks{"isr": client.AcksISR, "all": client.AcksISR, "leader": client.AcksLeader, "none": client.AcksNone}[f.acks]
	if !ok {
		return nil, client.Record{}, usage("--acks %q is not one of isr, leader, none", f.acks)
	}
	codec, err := record.ParseCodec(f.codec)
	if err != nil {
		return nil, client.Record{}, usage("-z %q is not one of none, gzip, snappy, lz4, zstd", f.codec)
	}
	limit, err := config.ParseBytes(f.maxRecord)
	if err != nil || limit < 1<<10 || limit > client.MaxBatchBytes {
		return nil, client.Record{}, usage("--max-record-bytes %q is not a size from 1KiB to %dMiB", f.maxRecord, client.MaxBatchBytes>>20)
	}
	f.limit = int(limit)
	if f.partition < anyPartition {
		return nil, client.Record{}, usage("-p %d: partitions are numbered from 0; %d, the default, leaves it to the key", f.partition, anyPartition)
	}
	opts := []client.Option{client.WithAcks(acks), client.WithCompression(codec), client.WithBatchMaxBytes(f.limit)}
	if acks == client.AcksNone {
		opts = append(opts, client.WithoutIdempotence())
	}
	opts = append(opts, client.WithDeliveryTimeout(a.timeout), client.WithProduceTimeout(a.timeout))
	template := client.Record{Partition: f.partition}
	if f.partition >= 0 {
		opts = append(opts, client.WithPartitioner(client.ManualPartitioner()))
	}
	for _, pair := range f.headers {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, client.Record{}, usage("header %q is not name=value", pair)
		}
		template.Headers = append(template.Headers, client.Header{Key: name, Value: []byte(value)})
	}
	return opts, template, nil
}

func (a *app) produce(ctx context.Context, topic string, f produceFlags) error {
	opts, template, err := f.options(a)
	if err != nil {
		return err
	}
	c, err := a.connect(opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := ensureTopic(ctx, c, topic, f.partition); err != nil {
		return fmt.Errorf("produce to %s: %w", topic, err)
	}
	template.Topic = topic
	s := newSender(a, c, template, f)
	began := time.Now()
	done := a.progress(s.progress)
	readErr := s.sendLines(ctx)
	flushCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	// An interruption ends the reading; what was read is still waited for, but not for long.
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(farewell, cancel) })
	defer stop()
	_ = c.Flush(flushCtx) // what is left then has its outcome when the client is closed
	took := time.Since(began)
	_ = c.Close() // every record has its outcome by now
	done()
	return errors.Join(readErr, s.report(took))
}

// ensureTopic fails if the topic is not there, and lets a broker that creates topics when they are first used do so.
func ensureTopic(ctx context.Context, c *client.Client, topic string, partition int32) error {
	describe := func() (*moldauv1.TopicDescription, error) {
		resp, err := c.DescribeTopics(ctx, &moldauv1.DescribeTopicsRequest{Topics: []*moldauv1.TopicRef{{Topic: topic}}})
		if err != nil {
			return nil, err
		}
		if len(resp.GetTopics()) == 0 {
			return nil, fmt.Errorf("the broker left the topic out of its answer")
		}
		return resp.GetTopics()[0], client.FromWire(resp.GetTopics()[0].GetError())
	}
	t, err := describe()
	if client.CodeOf(err) == moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC {
		query := &moldauv1.OffsetQuery{Topic: topic, Spec: moldauv1.OffsetSpec_OFFSET_SPEC_EARLIEST}
		// What this call answers does not matter: it is the first use of the topic.
		_, _ = c.ListOffsets(ctx, &moldauv1.ListOffsetsRequest{Queries: []*moldauv1.OffsetQuery{query}})
		t, err = describe()
	}
	if err != nil {
		return err
	}
	if int(partition) >= len(t.GetPartitions()) {
		return notFound("there is no partition %d, the topic has %d, numbered from 0", partition, len(t.GetPartitions()))
	}
	return nil
}
