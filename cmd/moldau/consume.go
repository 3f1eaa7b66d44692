package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

const (
	// commitEvery is how often a group member commits what it has written.
	commitEvery = time.Second
	// consumePoll bounds one wait for records, so that the end and interruptions are seen.
	consumePoll = 100 * time.Millisecond
)

// consumeFlags are the flags of `moldau consume`.
type consumeFlags struct {
	group, from, format string
	count               int64
	partitions          []int32
	exitAtEnd           bool
}

func newConsume(a *app) *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read records and print one value a line",
		Long: `Print the records of a topic until interrupted, until -n records, or with --exit-at-end until what was there at the start.

With -g it is a member of a group: the group spreads partitions over its members and keeps their positions. Committed is what was written to standard
output, every second and at the end. --from then says where to begin where nothing is committed: start (default) or end.

-f FORMAT has %t topic, %p partition, %o offset, %k key, %s value, %K %S their lengths, %T timestamp in ms, %h headers, %e leader epoch, and \n \t \xHH.`,
		Example: `  moldau consume greetings --from start -n 1
  moldau consume orders -g billing -f '%p %o %k %s\n'
  moldau consume orders --from @-1h --exit-at-end -o json | jq .value`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.consume(cmd.Context(), args[0], f) },
	}
	cmd.Flags().StringVarP(&f.group, "group", "g", "", "consumer group to join")
	cmd.Flags().StringVar(&f.from, "from", "start", "start, end, +n or -n records from them, @TIMESTAMP (ms, RFC 3339, @-1h) or OFFSET")
	cmd.Flags().Int64VarP(&f.count, "count", "n", 0, "how many records; 0: no limit")
	cmd.Flags().StringVarP(&f.format, "format", "f", "", "how to print a record")
	cmd.Flags().Int32SliceVarP(&f.partitions, "partition", "p", nil, "partitions; default: all")
	cmd.Flags().BoolVar(&f.exitAtEnd, "exit-at-end", false, "end when everything is read that was there at the start")
	exclusive(cmd, "group", "partition")
	return cmd
}

// options translates flags into options of the consumer.
func (f *consumeFlags) options(topic string, now time.Time) ([]client.ConsumerOption, error) {
	from, err := parsePosition(f.from, now)
	if err != nil {
		return nil, usage("--from %w", err)
	}
	if f.count < 0 {
		return nil, usage("-n %d is below 0", f.count)
	}
	if err := checkPartitions(f.partitions); err != nil {
		return nil, err
	}
	if f.group != "" {
		reset := client.ResetEarliest
		switch from.kind {
		case atStart:
		case atEnd:
			reset = client.ResetLatest
		default:
			return nil, usage("--from %s: a group begins where it has committed, else at start or end; `moldau group reset` moves it", f.from)
		}
		return []client.ConsumerOption{
			client.WithGroup(f.group), client.WithTopics(topic), client.WithOffsetReset(reset), client.WithAutoCommit(commitEvery),
		}, nil
	}
	var opts []client.ConsumerOption
	if from.kind == atOffset {
		opts = append(opts, client.WithOffsetReset(client.ResetNone)) // an offset that is not there is a mistake, not a wish
	}
	if len(f.partitions) == 0 {
		return append(opts, client.WithTopics(topic), client.WithStart(from.start())), nil
	}
	starts := map[client.TopicPartition]client.Start{}
	for _, p := range f.partitions {
		starts[client.TopicPartition{Topic: topic, Partition: p}] = from.start()
	}
	return append(opts, client.WithPartitions(starts)), nil
}

func (a *app) consume(ctx context.Context, topic string, f consumeFlags) error {
	opts, err := f.options(topic, time.Now())
	if err != nil {
		return err
	}
	print, err := recordPrinter(a.output, f.format)
	if err != nil {
		return err
	}
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	for _, p := range append([]int32{-1}, f.partitions...) {
		if err := ensureTopic(ctx, c, topic, p); err != nil {
			return fmt.Errorf("consume %s: %w", topic, err)
		}
	}
	r := newReader(a, topic, f, print)
	if f.exitAtEnd {
		if r.ends, err = findEnds(ctx, c, topic, f.partitions); err != nil {
			return fmt.Errorf("consume %s: %w", topic, err)
		}
	}
	consumer, err := c.NewConsumer(opts...)
	if err != nil {
		return usage("%w", err)
	}
	if a.flags.Changed("timeout") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.timeout)
		defer cancel()
	}
	err = r.run(ctx, c, consumer)
	if closeErr := consumer.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("leave the group: %w", closeErr))
	}
	r.farewell()
	if err != nil && !errors.As(err, new(*coded)) {
		err = fmt.Errorf("consume %s: %w", topic, err)
	}
	return err
}

// endOf is what one partition held at the start.
type endOf struct{ start, end int64 }

// findEnds asks where the partitions end now.
func findEnds(ctx context.Context, c *client.Client, topic string, only []int32) (map[client.TopicPartition]endOf, error) {
	topics, err := describeTopics(ctx, c, []string{topic})
	if err != nil {
		return nil, err
	}
	wanted := map[int32]bool{}
	for _, p := range only {
		wanted[p] = true
	}
	req := &moldauv1.ListOffsetsRequest{}
	for _, p := range topics[0].GetPartitions() {
		if len(only) > 0 && !wanted[p.GetPartition()] {
			continue
		}
		for _, spec := range []moldauv1.OffsetSpec{moldauv1.OffsetSpec_OFFSET_SPEC_EARLIEST, moldauv1.OffsetSpec_OFFSET_SPEC_LATEST} {
			req.Queries = append(req.Queries, &moldauv1.OffsetQuery{Topic: topic, Partition: p.GetPartition(), Spec: spec})
		}
	}
	answers, err := listOffsets(ctx, c, req)
	if err != nil {
		return nil, err
	}
	ends := map[client.TopicPartition]endOf{}
	for i := 0; i+1 < len(answers); i += 2 {
		tp := client.TopicPartition{Topic: topic, Partition: answers[i].GetPartition()}
		ends[tp] = endOf{answers[i].GetOffset(), answers[i+1].GetOffset()}
	}
	return ends, nil
}

// offsetRetry is the pause between two questions while a partition has no leader that answers.
const offsetRetry = 100 * time.Millisecond

// listOffsets asks again while a partition is refused for a reason that passes, as during an election, until ctx or the request timeout ends.
func listOffsets(ctx context.Context, c *client.Client, req *moldauv1.ListOffsetsRequest) ([]*moldauv1.ListedOffset, error) {
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	for {
		resp, err := c.ListOffsets(ctx, req)
		if err != nil {
			return nil, err
		}
		var refused *client.Error
		for _, o := range resp.GetOffsets() {
			if errors.As(client.FromWire(o.GetError()), &refused) {
				break
			}
		}
		if refused == nil {
			return resp.GetOffsets(), nil
		}
		if !refused.Retriable {
			return nil, refused
		}
		select {
		case <-time.After(offsetRetry):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (last answer: %s)", ctx.Err(), strings.TrimSpace(refused.Error()))
		}
	}
}
