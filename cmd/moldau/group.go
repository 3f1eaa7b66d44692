package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

func newGroup(a *app) *cobra.Command {
	group := &cobra.Command{Use: "group", Short: "List, describe, explain, reset and delete consumer groups", Aliases: []string{"groups"}}
	group.AddCommand(newGroupList(a), newGroupDescribe(a), newGroupReset(a), newGroupDelete(a), newGroupWhy(a))
	return group
}

func newGroupList(a *app) *cobra.Command {
	var req moldauv1.ListGroupsRequest
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List consumer groups",
		Args:  cobra.NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			resp, err := c.ListGroups(ctx, &req)
			if err != nil {
				return fmt.Errorf("list groups: %w", err)
			}
			if err := a.show(viewGroups(resp.GetGroups())); err != nil {
				return err
			}
			for _, e := range resp.GetErrors() {
				a.say("broker %d did not answer, its groups may be missing: %s", e.GetBroker(), e.GetError().GetMessage())
			}
			if len(resp.GetErrors()) > 0 {
				return &coded{code: exitFailure, err: fmt.Errorf("the list is not complete"), mute: true}
			}
			return nil
		}),
	}
	cmd.Flags().StringSliceVar(&req.States, "state", nil, "only groups in these states, such as stable,empty")
	return cmd
}

// describeGroups asks for groups and fails on the first that cannot be described.
func describeGroups(ctx context.Context, c *client.Client, names []string) ([]*moldauv1.GroupDescription, error) {
	resp, err := c.DescribeGroups(ctx, &moldauv1.DescribeGroupsRequest{Groups: names})
	if err != nil {
		return nil, fmt.Errorf("describe groups: %w", err)
	}
	for _, g := range resp.GetGroups() {
		if err := client.FromWire(g.GetError()); err != nil {
			return nil, fmt.Errorf("describe group %s: %w", g.GetGroup(), err)
		}
	}
	return resp.GetGroups(), nil
}

func newGroupDescribe(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "describe GROUP...",
		Short:   "Show members, assignments, committed offsets and lag",
		Long:    "Show groups in full. With one name the JSON is an object, with several a list. Lag is absent where nothing is committed.",
		Example: "  moldau group describe billing\n  moldau group describe billing -o json | jq .lag",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			groups, err := describeGroups(ctx, c, args)
			if err != nil {
				return err
			}
			if len(groups) == 1 {
				return a.show(viewGroup(groups[0]))
			}
			return a.show(viewSeveralGroups(groups))
		}),
	}
}

func newGroupDelete(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "delete GROUP...",
		Short: "Delete groups without members, with their offsets",
		Args:  cobra.MinimumNArgs(1),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			for _, name := range args {
				if _, err := c.DeleteGroup(ctx, &moldauv1.DeleteGroupRequest{Group: name}); err != nil {
					return fmt.Errorf("delete group %s: %w", name, err)
				}
				a.say("deleted group %s", name)
			}
			return nil
		}),
	}
}

// resetShape is one partition of `moldau group reset`.
type resetShape struct {
	Topic           string `json:"topic"`
	TopicID         string `json:"topic_id"`
	Partition       int32  `json:"partition"`
	PreviousOffset  *int64 `json:"previous_offset"`
	CommittedOffset *int64 `json:"committed_offset"`
	Executed        bool   `json:"executed"`
	Error           string `json:"error"`
}

func newGroupReset(a *app) *cobra.Command {
	var to string
	var topics []string
	var execute bool
	cmd := &cobra.Command{
		Use:   "reset GROUP --to POSITION",
		Short: "Move the committed offsets of a group without members",
		Long: `Move committed offsets. Without --execute it only shows what it would do.

POSITION is start, end, an OFFSET, @TIMESTAMP (milliseconds, RFC 3339, or @-1h for an hour ago), or +n or -n relative to what is committed.
--topic limits it to TOPIC or TOPIC:PARTITION; a topic that the group has not read yet must be named.`,
		Example: "  moldau group reset billing --to start --topic orders\n  moldau group reset billing --to @2026-01-31T12:00:00Z --execute\n  moldau group reset billing --to -100 --topic orders:3 --execute",
		Args:    cobra.ExactArgs(1),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			req := &moldauv1.ResetOffsetsRequest{Group: args[0], ValidateOnly: !execute}
			if err := resetTo(req, to, time.Now()); err != nil {
				return err
			}
			var err error
			if req.Partitions, err = parseTopics(topics); err != nil {
				return err
			}
			resp, err := c.ResetOffsets(ctx, req)
			if err != nil {
				return fmt.Errorf("reset group %s: %w", args[0], err)
			}
			if len(resp.GetResets()) == 0 {
				return nothingToReset(ctx, c, args[0])
			}
			v, refused := viewResets(resp.GetResets(), execute)
			if err := a.show(v); err != nil {
				return err
			}
			if len(refused) > 0 {
				return partly(refused, "%d of %d partitions could not be reset", len(refused), len(resp.GetResets()))
			}
			if !execute {
				a.say("nothing was changed; --execute does it")
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&to, "to", "", "start, end, OFFSET, @TIMESTAMP, +n or -n")
	cmd.Flags().StringSliceVar(&topics, "topic", nil, "TOPIC or TOPIC:PARTITION; default: all that have a committed offset")
	cmd.Flags().BoolVar(&execute, "execute", false, "do it")
	return cmd
}

// nothingToReset says why a reset had no partition: the group does not exist, or has not committed anything.
func nothingToReset(ctx context.Context, c *client.Client, group string) error {
	if _, err := describeGroups(ctx, c, []string{group}); err != nil {
		return fmt.Errorf("reset group %s: %w", group, err)
	}
	return hinted(notFound("group %s has committed no offset", group), "--topic names what shall be set.")
}

// resetTo fills in where the offsets shall go.
func resetTo(req *moldauv1.ResetOffsetsRequest, text string, now time.Time) error {
	if text == "" {
		return usage("--to is missing: start, end, OFFSET, @TIMESTAMP, +n or -n")
	}
	p, err := parsePosition(text, now)
	if err != nil {
		return usage("--to %w", err)
	}
	switch p.kind {
	case atStart:
		req.To = &moldauv1.ResetOffsetsRequest_Earliest{Earliest: true}
	case atEnd:
		req.To = &moldauv1.ResetOffsetsRequest_Latest{Latest: true}
	case atOffset:
		req.To = &moldauv1.ResetOffsetsRequest_Offset{Offset: p.n}
	case atTime:
		req.To = &moldauv1.ResetOffsetsRequest_TimestampMs{TimestampMs: p.n}
	case afterStart:
		req.To = &moldauv1.ResetOffsetsRequest_Shift{Shift: p.n}
	case beforeEnd:
		req.To = &moldauv1.ResetOffsetsRequest_Shift{Shift: -p.n}
	}
	return nil
}

// parseTopics reads TOPIC and TOPIC:PARTITION.
func parseTopics(words []string) ([]*moldauv1.TopicPartition, error) {
	var out []*moldauv1.TopicPartition
	for _, word := range words {
		tp := &moldauv1.TopicPartition{Topic: word, Partition: -1}
		if _, _, ok := cutLast(word, ":"); ok {
			var err error
			if tp.Topic, tp.Partition, err = parsePartition(word); err != nil {
				return nil, err
			}
		}
		out = append(out, tp)
	}
	return out, nil
}

func viewResets(resets []*moldauv1.OffsetReset, executed bool) (v view, refused []*moldauv1.Error) {
	shapes := []resetShape{}
	t := table{columns: []column{col("TOPIC"), col("PARTITION"), col("PREVIOUS"), col("COMMITTED"), col("ERROR")}}
	for _, r := range resets {
		s := resetShape{
			Topic: r.GetTopic(), TopicID: r.GetTopicId(), Partition: r.GetPartition(), PreviousOffset: known(r.GetPreviousOffset()),
			CommittedOffset: known(r.GetCommittedOffset()), Executed: executed && r.GetError() == nil, Error: r.GetError().GetMessage(),
		}
		if r.GetError() != nil {
			refused = append(refused, r.GetError())
		}
		shapes = append(shapes, s)
		t.rows = append(t.rows, []string{s.Topic, number(s.Partition), maybe(s.PreviousOffset), maybe(s.CommittedOffset), s.Error})
		v.names = append(v.names, fmt.Sprintf("%s:%d", s.Topic, s.Partition))
	}
	v.tables, v.value = []table{t}, shapes
	return v, refused
}
