package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

func newTopic(a *app) *cobra.Command {
	topic := &cobra.Command{Use: "topic", Short: "Create, list, describe, change and delete topics", Aliases: []string{"topics"}}
	topic.AddCommand(newTopicCreate(a), newTopicList(a), newTopicDescribe(a), newTopicDelete(a), newTopicAlter(a), newTopicGrow(a), newTopicTrim(a))
	return topic
}

// withClient runs f with a client of the cluster.
func (a *app) withClient(f func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		c, gone := a.connect()
		if gone != nil {
			// The command line may be wrong as well, which is worth more to know: the command looks at it before it asks anybody.
			var err error
			if c, err = a.newClient(); err != nil {
				return err
			}
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			cancel()
		}
		defer c.Close()
		err := f(ctx, c, args)
		if gone != nil && exitCode(err) != exitUsage {
			return gone
		}
		return err
	}
}

// say talks to the person at the screen.
func (a *app) say(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }

func newTopicCreate(a *app) *cobra.Command {
	var req moldauv1.CreateTopicRequest
	var configs, assignment []string
	var unlessExists bool
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create a topic",
		Example: "  moldau topic create orders\n  moldau topic create orders -p 12 -r 3 -c retention.ms=86400000 -c compression.type=zstd\n  moldau topic create orders --assignment 0,1,2 --assignment 1,2,0",
		Args:    cobra.ExactArgs(1),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			req.Topic = args[0]
			if req.GetPartitions() < 0 || req.GetReplicationFactor() < 0 {
				return usage("-p %d -r %d: numbers from 1, or 0 for the cluster's default", req.GetPartitions(), req.GetReplicationFactor())
			}
			var err error
			if req.Configs, err = parseConfigs(configs); err != nil {
				return err
			}
			if req.Assignment, err = parseAssignment(assignment); err != nil {
				return err
			}
			resp, err := c.CreateTopic(ctx, &req)
			if unlessExists && client.CodeOf(err) == moldauv1.ErrorCode_ERROR_CODE_TOPIC_EXISTS {
				a.say("topic %s is there already; it is left as it is", req.GetTopic())
				return nil
			}
			if err != nil {
				return fmt.Errorf("create topic %s: %w", req.GetTopic(), err)
			}
			for _, note := range resp.GetNotes() {
				a.say("note: %s", note)
			}
			if req.GetValidateOnly() {
				a.say("the topic could be created; nothing was done")
			}
			return a.show(viewCreated(resp))
		}),
	}
	cmd.Flags().Int32VarP(&req.Partitions, "partitions", "p", 0, "number of partitions; 0: the cluster's default")
	cmd.Flags().Int32VarP(&req.ReplicationFactor, "replication-factor", "r", 0, "replicas of each partition; 0: the cluster's default")
	cmd.Flags().StringArrayVarP(&configs, "config", "c", nil, "topic config key=value; repeatable")
	cmd.Flags().StringArrayVar(&assignment, "assignment", nil, "brokers of one partition, preferred leader first, such as 0,1,2; once for each partition")
	cmd.Flags().BoolVar(&req.ValidateOnly, "dry-run", false, "only check")
	cmd.Flags().BoolVar(&unlessExists, "if-not-exists", false, "succeed when the topic is there already")
	return cmd
}

func newTopicList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List topics",
		Args:  cobra.NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			resp, err := c.ListTopics(ctx, &moldauv1.ListTopicsRequest{})
			if err != nil {
				return fmt.Errorf("list topics: %w", err)
			}
			return a.show(viewTopics(resp.GetTopics()))
		}),
	}
}

func newTopicDescribe(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "describe NAME...",
		Short:   "Show partitions, leaders, in-sync replicas and offsets of topics",
		Long:    "Show topics in full. With one name the JSON is an object, with several a list.",
		Example: "  moldau topic describe orders\n  moldau topic describe orders -o json | jq '.partitions[] | {partition, leader, high_watermark}'",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			topics, err := describeTopics(ctx, c, args)
			if err != nil {
				return err
			}
			if len(topics) == 1 {
				return a.show(viewTopic(topics[0]))
			}
			return a.show(viewSeveralTopics(topics))
		}),
	}
}

// describeTopics asks for topics by name, with what the leaders say; no names means all.
func describeTopics(ctx context.Context, c *client.Client, names []string) ([]*moldauv1.TopicDescription, error) {
	req := &moldauv1.DescribeTopicsRequest{WithStatus: true}
	for _, name := range names {
		req.Topics = append(req.Topics, &moldauv1.TopicRef{Topic: name})
	}
	resp, err := c.DescribeTopics(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", err)
	}
	for _, t := range resp.GetTopics() {
		if err := client.FromWire(t.GetError()); err != nil {
			return nil, fmt.Errorf("describe topic %s: %w", t.GetTopic(), err)
		}
	}
	return resp.GetTopics(), nil
}

func newTopicDelete(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete topics, their records and the offsets committed for them",
		Args:  cobra.MinimumNArgs(1),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			for _, name := range args {
				if _, err := c.DeleteTopic(ctx, &moldauv1.DeleteTopicRequest{Topic: name}); err != nil {
					return fmt.Errorf("delete topic %s: %w", name, err)
				}
				a.say("deleted topic %s", name)
			}
			return nil
		}),
	}
}

func newTopicAlter(a *app) *cobra.Command {
	var sets, unsets []string
	var dryRun bool
	cmd := &cobra.Command{
		Use:     "alter NAME",
		Short:   "Change configs of a topic",
		Example: "  moldau topic alter orders -c retention.ms=3600000 --unset compression.type",
		Args:    cobra.ExactArgs(1),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if len(sets)+len(unsets) == 0 {
				return usage("nothing to change: give -c key=value or --unset key")
			}
			return a.alter(ctx, c, resource{kind: moldauv1.ConfigKind_CONFIG_KIND_TOPIC, name: args[0]}, sets, unsets, dryRun)
		}),
	}
	cmd.Flags().StringArrayVarP(&sets, "config", "c", nil, "key=value to set; repeatable")
	cmd.Flags().StringArrayVar(&unsets, "unset", nil, "key to return to its default; repeatable")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only check")
	return cmd
}

func newTopicGrow(a *app) *cobra.Command {
	var total int32
	var assignment []string
	cmd := &cobra.Command{
		Use:     "add-partitions NAME -p TOTAL",
		Short:   "Grow a topic; keys map to other partitions afterwards",
		Example: "  moldau topic add-partitions orders -p 24",
		Args:    cobra.ExactArgs(1),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if total <= 0 {
				return usage("-p TOTAL is missing: the number of partitions that the topic shall have")
			}
			brokers, err := parseAssignment(assignment)
			if err != nil {
				return err
			}
			if _, err := c.AddPartitions(ctx, &moldauv1.AddPartitionsRequest{Topic: args[0], Partitions: total, Assignment: brokers}); err != nil {
				return fmt.Errorf("add partitions to %s: %w", args[0], err)
			}
			a.say("topic %s has %d partitions", args[0], total)
			return nil
		}),
	}
	cmd.Flags().Int32VarP(&total, "partitions", "p", 0, "new total number of partitions")
	cmd.Flags().StringArrayVar(&assignment, "assignment", nil, "brokers of one new partition, preferred leader first; once for each new partition")
	return cmd
}

// trimShape is one partition of `moldau topic trim`.
type trimShape struct {
	Topic          string `json:"topic"`
	Partition      int32  `json:"partition"`
	LogStartOffset int64  `json:"log_start_offset"`
}

func newTopicTrim(a *app) *cobra.Command {
	var before int64
	var partitions []int32
	cmd := &cobra.Command{
		Use:     "trim NAME",
		Short:   "Delete the oldest records of a topic",
		Long:    "Delete records below an offset, or all below the high watermark. The partitions are trimmed one after another.",
		Example: "  moldau topic trim orders -p 0 --before 1000\n  moldau topic trim orders",
		Args:    cobra.ExactArgs(1),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if before < -1 {
				return usage("--before %d: an offset from 0, or -1 for the high watermark", before)
			}
			if err := checkPartitions(partitions); err != nil {
				return err
			}
			topics, err := describeTopics(ctx, c, args)
			if err != nil {
				return err
			}
			if len(partitions) == 0 {
				for _, p := range topics[0].GetPartitions() {
					partitions = append(partitions, p.GetPartition())
				}
			}
			t := table{columns: []column{col("TOPIC"), col("PARTITION"), col("LOG-START")}}
			shapes := []trimShape{}
			for _, p := range partitions {
				resp, err := c.DeleteRecords(ctx, &moldauv1.DeleteRecordsRequest{Topic: args[0], Partition: p, BeforeOffset: before})
				if err != nil {
					return fmt.Errorf("trim partition %d of %s: %w", p, args[0], err)
				}
				shapes = append(shapes, trimShape{args[0], p, resp.GetLogStartOffset()})
				t.rows = append(t.rows, []string{args[0], number(p), number(resp.GetLogStartOffset())})
			}
			return a.show(view{tables: []table{t}, value: shapes, names: args})
		}),
	}
	cmd.Flags().Int64Var(&before, "before", -1, "first offset to keep; -1: the high watermark")
	cmd.Flags().Int32SliceVarP(&partitions, "partition", "p", nil, "partitions; default: all")
	return cmd
}

// parseConfigs reads key=value pairs.
func parseConfigs(pairs []string) ([]*moldauv1.ConfigEntry, error) {
	var out []*moldauv1.ConfigEntry
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usage("config %q is not key=value", pair)
		}
		out = append(out, &moldauv1.ConfigEntry{Key: key, Value: value})
	}
	return out, nil
}

func parseAssignment(partitions []string) ([]*moldauv1.Replicas, error) {
	var out []*moldauv1.Replicas
	for _, text := range partitions {
		brokers, err := parseBrokers(text)
		if err != nil {
			return nil, err
		}
		out = append(out, &moldauv1.Replicas{Replicas: brokers})
	}
	return out, nil
}

// parseBrokers reads broker ids with commas.
func parseBrokers(text string) ([]int32, error) {
	var out []int32
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 32)
		if err != nil || n < 0 {
			return nil, usage("%q is not a list of broker ids such as 0,1,2", text)
		}
		out = append(out, int32(n))
	}
	return out, nil
}

// checkPartitions refuses numbers that no partition can have.
func checkPartitions(partitions []int32) error {
	for _, p := range partitions {
		if p < 0 {
			return usage("-p %d: partitions are numbered from 0", p)
		}
	}
	return nil
}

// parsePartition reads TOPIC:PARTITION.
func parsePartition(text string) (string, int32, error) {
	topic, word, ok := cutLast(text, ":")
	n, err := strconv.ParseInt(word, 10, 32)
	if !ok || topic == "" || err != nil || n < 0 {
		return "", 0, usage("%q is not TOPIC:PARTITION, such as orders:0", text)
	}
	return topic, int32(n), nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
