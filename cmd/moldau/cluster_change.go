package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

func newClusterReassign(a *app) *cobra.Command {
	var replicas string
	var stop bool
	cmd := &cobra.Command{
		Use:   "reassign [TOPIC:PARTITION...]",
		Short: "Move partitions to other brokers, or list the moves in progress",
		Long:  "Start, replace or cancel the move of partitions. Without arguments it lists the moves in progress.",
		Example: "  moldau cluster reassign orders:0 --replicas 3,1,2\n  moldau cluster reassign\n" +
			"  moldau cluster reassign orders:0 --cancel",
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if len(args) == 0 {
				if replicas != "" || stop {
					return usage("say which partition: TOPIC:PARTITION")
				}
				return a.listReassignments(ctx, c)
			}
			if (replicas == "") == !stop {
				return usage("give either --replicas or --cancel")
			}
			var wanted []int32
			var err error
			if !stop {
				if wanted, err = parseBrokers(replicas); err != nil {
					return err
				}
			}
			return a.reassign(ctx, c, args, wanted)
		}),
	}
	cmd.Flags().StringVar(&replicas, "replicas", "", "brokers that shall hold the partition, preferred leader first, such as 0,1,2")
	cmd.Flags().BoolVar(&stop, "cancel", false, "cancel the move in progress")
	return cmd
}

func (a *app) listReassignments(ctx context.Context, c *client.Client) error {
	resp, err := c.ListReassignments(ctx, &moldauv1.ListReassignmentsRequest{})
	if err != nil {
		return fmt.Errorf("list reassignments: %w", err)
	}
	return a.show(viewReassignments(resp.GetReassignments()))
}

func (a *app) reassign(ctx context.Context, c *client.Client, partitions []string, replicas []int32) error {
	for _, word := range partitions {
		topic, partition, err := parsePartition(word)
		if err != nil {
			return err
		}
		if _, err := c.Reassign(ctx, &moldauv1.ReassignRequest{Topic: topic, Partition: partition, Replicas: replicas}); err != nil {
			return fmt.Errorf("reassign %s: %w", word, err)
		}
		if len(replicas) == 0 {
			a.say("the move of %s is cancelled", word)
			continue
		}
		a.say("%s moves to %s; `moldau cluster reassign` shows the progress", word, ids(replicas))
	}
	return nil
}

func newClusterElect(a *app) *cobra.Command {
	var unclean bool
	cmd := &cobra.Command{
		Use:   "elect [TOPIC|TOPIC:PARTITION...]",
		Short: "Give leaderships back to the preferred replicas",
		Long: `Elect the preferred replica, the first of the assignment, where it is in sync and does not lead. Without arguments for all partitions.

--unclean elects a replica that may lack acknowledged records, for partitions that have no leader and no complete replica: THIS CAN LOSE RECORDS.
It needs the partitions to be named.`,
		Example: "  moldau cluster elect\n  moldau cluster elect orders:3 --unclean",
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if unclean && len(args) == 0 {
				return usage("--unclean can lose records: name the partitions")
			}
			wanted, err := a.expandPartitions(ctx, c, args)
			if err != nil {
				return err
			}
			resp, err := c.ElectLeaders(ctx, &moldauv1.ElectLeadersRequest{Partitions: wanted, Unclean: unclean})
			if err != nil {
				return fmt.Errorf("elect leaders: %w", err)
			}
			return a.showElections(resp.GetResults())
		}),
	}
	cmd.Flags().BoolVar(&unclean, "unclean", false, "elect a replica that may lack acknowledged records")
	return cmd
}

// expandPartitions turns topics into their partitions.
func (a *app) expandPartitions(ctx context.Context, c *client.Client, words []string) ([]*moldauv1.TopicPartition, error) {
	tps, err := parseTopics(words)
	if err != nil {
		return nil, err
	}
	var out []*moldauv1.TopicPartition
	for _, tp := range tps {
		if tp.GetPartition() >= 0 {
			out = append(out, tp)
			continue
		}
		topics, err := describeTopics(ctx, c, []string{tp.GetTopic()})
		if err != nil {
			return nil, err
		}
		for _, p := range topics[0].GetPartitions() {
			out = append(out, &moldauv1.TopicPartition{Topic: tp.GetTopic(), Partition: p.GetPartition()})
		}
	}
	return out, nil
}

func (a *app) showElections(results []*moldauv1.PartitionResult) error {
	shapes := []electionShape{}
	t := table{columns: []column{col("TOPIC"), col("PARTITION"), col("RESULT")}}
	var v view
	var refused []*moldauv1.Error
	for _, r := range results {
		s := electionShape{r.GetTopic(), r.GetTopicId(), r.GetPartition(), r.GetError().GetMessage()}
		result := "elected"
		switch {
		case r.GetError().GetCode() == moldauv1.ErrorCode_ERROR_CODE_ELECTION_NOT_NEEDED:
			result = "leads already"
		case r.GetError() != nil:
			result = s.Error
			refused = append(refused, r.GetError())
		}
		shapes = append(shapes, s)
		t.rows = append(t.rows, []string{s.Topic, number(s.Partition), result})
		v.names = append(v.names, fmt.Sprintf("%s:%d", s.Topic, s.Partition))
	}
	v.tables, v.value = []table{t}, shapes
	if err := a.show(v); err != nil {
		return err
	}
	if len(refused) > 0 {
		return partly(refused, "%d of %d partitions got no leader", len(refused), len(results))
	}
	return nil
}

func newClusterUnregister(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "unregister BROKER",
		Short: "Remove a broker that holds no replica for good",
		Args:  cobra.ExactArgs(1),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil || id < 0 {
				return usage("%q is not a broker id, a whole number from 0", args[0])
			}
			if _, err := c.UnregisterBroker(ctx, &moldauv1.UnregisterBrokerRequest{Broker: int32(id)}); err != nil {
				return fmt.Errorf("unregister broker %d: %w", id, err)
			}
			a.say("broker %d is removed", id)
			return nil
		}),
	}
}

// backupShape is `moldau cluster backup`.
type backupShape struct {
	File      string `json:"file"`
	SizeBytes int64  `json:"size_bytes"`
}

func newClusterBackup(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Save the cluster's metadata: topics, assignments, configs, groups and offsets",
		Long: `Save what the controller knows. Records are not part of it. The file is written under another name first and appears whole or not at all.
"moldau cluster recover --backup FILE" reads it.`,
		Args: cobra.ExactArgs(1),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) (err error) {
			f, err := os.CreateTemp(filepath.Dir(args[0]), ".moldau-backup-*")
			if err != nil {
				return fmt.Errorf("write the backup: %w", err)
			}
			defer os.Remove(f.Name()) // nothing is there any more once it is renamed
			err = c.Backup(ctx, f)
			if err == nil {
				err = f.Sync()
			}
			info, statErr := f.Stat()
			if err = errors.Join(err, statErr, f.Close()); err != nil {
				return fmt.Errorf("back up the metadata: %w", err)
			}
			if err := os.Rename(f.Name(), args[0]); err != nil {
				return fmt.Errorf("write the backup: %w", err)
			}
			s := backupShape{args[0], info.Size()}
			return a.show(view{fields: []field{{"file", s.File}, {"size", bytesText(s.SizeBytes)}}, names: []string{s.File}, value: s})
		}),
	}
}
