package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

func newCluster(a *app) *cobra.Command {
	cluster := &cobra.Command{Use: "cluster", Short: "Show and administer the cluster"}
	cluster.AddCommand(newClusterStatus(a), newClusterBrokers(a), newClusterHealth(a), newClusterPartitions(a), newClusterReassign(a),
		newClusterElect(a), newClusterUnregister(a), newClusterBackup(a), newClusterRecover(a))
	return cluster
}

func newClusterStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the cluster, its controller and its brokers",
		Args:  cobra.NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			cluster, err := c.DescribeCluster(ctx, &moldauv1.DescribeClusterRequest{})
			if err != nil {
				return fmt.Errorf("describe the cluster: %w", err)
			}
			health, err := c.ClusterHealth(ctx, &moldauv1.ClusterHealthRequest{})
			if err != nil {
				return fmt.Errorf("ask for the cluster's health: %w", err)
			}
			return a.show(viewStatus(cluster, health))
		}),
	}
}

func newClusterBrokers(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "brokers",
		Short: "List brokers",
		Args:  cobra.NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			cluster, err := c.DescribeCluster(ctx, &moldauv1.DescribeClusterRequest{})
			if err != nil {
				return fmt.Errorf("describe the cluster: %w", err)
			}
			return a.show(viewBrokers(cluster))
		}),
	}
}

// How often health is asked for: by somebody who waits for it, and by somebody who watches.
const (
	healthPoll  = 100 * time.Millisecond
	healthWatch = time.Second
	healthTry   = time.Second // one question, with its retries; the broker asks the others
)

func newClusterHealth(a *app) *cobra.Command {
	var watch, wait bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Say whether the cluster is healthy; exit 10 if it is not",
		Long: `Say whether every broker is in service and every partition has a leader and all its replicas in sync.

Exit codes: 0 healthy, 10 not. With --exit-when-healthy it waits, even while no broker answers yet, until --timeout is over: then 4. With --watch it
prints whenever something changes, until it is interrupted.`,
		Example: "  moldau cluster health\n  moldau cluster health --watch\n  moldau cluster health --exit-when-healthy --timeout 1m",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case wait:
				return a.awaitHealth(cmd.Context(), watch)
			case watch:
				return a.watchHealth(cmd.Context())
			}
			return a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
				health, err := c.ClusterHealth(ctx, &moldauv1.ClusterHealthRequest{})
				if err != nil {
					return fmt.Errorf("ask for the cluster's health: %w", err)
				}
				if err := a.show(viewHealth(health)); err != nil || health.GetHealthy() {
					return err
				}
				return &coded{code: exitUnhealthy, err: errors.New("the cluster is not healthy"), mute: true}
			})(cmd, nil)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "go on, and print what changes")
	cmd.Flags().BoolVar(&wait, "exit-when-healthy", false, "wait until the cluster is healthy, at most --timeout")
	return cmd
}

// awaitHealth asks until the cluster is healthy.
func (a *app) awaitHealth(ctx context.Context, talk bool) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	c, err := a.newClient()
	if err != nil {
		return err
	}
	defer c.Close()
	last := "no broker has answered"
	for {
		health, err := askHealth(ctx, c)
		switch {
		case err == nil && health.GetHealthy():
			return a.show(viewHealth(health))
		case err == nil || !errors.Is(err, context.DeadlineExceeded):
			last = talkHealth(a, talk, last, health, err)
		}
		select {
		case <-time.After(healthPoll):
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return ctx.Err()
			}
			return &coded{code: exitTimeout, err: fmt.Errorf("the cluster did not become healthy within %v: %s", a.timeout, last)}
		}
	}
}

// talkHealth tells what has changed, and returns what it was.
func talkHealth(a *app, talk bool, last string, health *moldauv1.ClusterHealthResponse, err error) string {
	now := ""
	switch {
	case err != nil:
		now = reason(err)
	case len(health.GetReasons()) > 0:
		now = health.GetReasons()[0]
	default:
		now = "no reason given"
	}
	if talk && now != last {
		a.say("waiting: %s", now)
	}
	return now
}

func askHealth(ctx context.Context, c *client.Client) (*moldauv1.ClusterHealthResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTry)
	defer cancel()
	return c.ClusterHealth(ctx, &moldauv1.ClusterHealthRequest{})
}

// watchHealth prints health whenever it changes, until ctx ends.
func (a *app) watchHealth(ctx context.Context) error {
	c, err := a.newClient()
	if err != nil {
		return err
	}
	defer c.Close()
	if a.output == formatJSON {
		a.output = formatJSONL // a stream of documents, one a line
	}
	last := ""
	for {
		health, err := askHealth(ctx, c)
		now := fmt.Sprint(health, err)
		switch {
		case ctx.Err() != nil:
			return nil
		case now == last:
		case err != nil:
			a.say("%s", reason(err))
		default:
			if err := a.show(viewHealth(health)); err != nil {
				return err
			}
		}
		last = now
		select {
		case <-time.After(healthWatch):
		case <-ctx.Done():
			return nil
		}
	}
}

func newClusterPartitions(a *app) *cobra.Command {
	var topics []string
	var unhealthy, leaderless bool
	cmd := &cobra.Command{
		Use:     "partitions",
		Short:   "List partitions with leader, replicas and offsets",
		Example: "  moldau cluster partitions --unhealthy\n  moldau cluster partitions --topic orders -o wide",
		Args:    cobra.NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			described, err := describeTopics(ctx, c, topics)
			if err != nil {
				return err
			}
			shapes := []partitionShape{}
			for _, t := range described {
				for _, p := range describeTopic(t).Partitions {
					bad := p.Leader < 0 || len(p.ISR) < len(p.Replicas) || p.Offline != ""
					if (leaderless && p.Leader >= 0) || (unhealthy && !bad) {
						continue
					}
					shapes = append(shapes, p)
				}
			}
			return a.show(viewPartitions(shapes))
		}),
	}
	cmd.Flags().StringSliceVar(&topics, "topic", nil, "only these topics")
	cmd.Flags().BoolVar(&unhealthy, "unhealthy", false, "only those without leader, with replicas out of sync, or offline")
	cmd.Flags().BoolVar(&leaderless, "leaderless", false, "only those without leader")
	return cmd
}
