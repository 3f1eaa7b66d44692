package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/config"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// resource is something that has configs.
type resource struct {
	kind moldauv1.ConfigKind
	name string
}

func (r resource) String() string {
	switch r.kind {
	case moldauv1.ConfigKind_CONFIG_KIND_TOPIC:
		return "topic " + r.name
	case moldauv1.ConfigKind_CONFIG_KIND_BROKER:
		return "broker " + r.name
	}
	return "cluster"
}

// parseResource reads "topic NAME", "broker ID" or "cluster" from the front of args and returns the rest.
func parseResource(args []string) (resource, []string, error) {
	if len(args) == 0 {
		return resource{}, nil, usage("say whose configs: topic NAME, broker ID, or cluster")
	}
	kinds := map[string]moldauv1.ConfigKind{"topic": moldauv1.ConfigKind_CONFIG_KIND_TOPIC, "broker": moldauv1.ConfigKind_CONFIG_KIND_BROKER}
	kind, named := kinds[args[0]]
	switch {
	case args[0] == "cluster":
		return resource{kind: moldauv1.ConfigKind_CONFIG_KIND_CLUSTER_DEFAULT}, args[1:], nil
	case !named:
		return resource{}, nil, usage("%q is not one of topic, broker, cluster", args[0])
	case len(args) < 2:
		return resource{}, nil, usage("the name of the %s is missing", args[0])
	}
	return resource{kind: kind, name: args[1]}, args[2:], nil
}

func newConfig(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Read and change configs of topics, brokers and the cluster's defaults",
		Long:  "Configs live in the replicated metadata and change while brokers run. What a broker is started with is another thing: see `moldau docs config`.",
	}
	cmd.AddCommand(newConfigGet(a), newConfigSet(a), newConfigUnset(a))
	return cmd
}

func newConfigGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "get topic NAME|broker ID|cluster [KEY...]",
		Short:   "Show configs, their effective values and where these come from",
		Example: "  moldau config get topic orders\n  moldau config get topic orders retention.ms\n  moldau config get cluster -o wide",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			res, keys, err := parseResource(args)
			if err != nil {
				return err
			}
			resp, err := c.DescribeConfigs(ctx, &moldauv1.DescribeConfigsRequest{Kind: res.kind, Name: res.name})
			if err != nil {
				return fmt.Errorf("read configs of %s: %w", res, err)
			}
			picked, err := pickConfigs(resp.GetConfigs(), keys)
			if err != nil {
				return err
			}
			return a.show(viewConfigs(picked))
		}),
	}
}

// pickConfigs keeps the wanted keys; none wanted means all.
func pickConfigs(all []*moldauv1.ConfigValue, keys []string) ([]*moldauv1.ConfigValue, error) {
	if len(keys) == 0 {
		return all, nil
	}
	byKey := map[string]*moldauv1.ConfigValue{}
	var known []string
	for _, c := range all {
		byKey[c.GetKey()] = c
		known = append(known, c.GetKey())
	}
	var picked []*moldauv1.ConfigValue
	for _, key := range keys {
		if byKey[key] == nil {
			if near := config.Nearest(key, known); near != "" {
				return nil, notFound("there is no config %s, did you mean %s?", key, near)
			}
			return nil, notFound("there is no config %s", key)
		}
		picked = append(picked, byKey[key])
	}
	return picked, nil
}

func newConfigSet(a *app) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:     "set topic NAME|broker ID|cluster KEY=VALUE...",
		Short:   "Set configs, all or none",
		Example: "  moldau config set topic orders retention.ms=3600000\n  moldau config set cluster min.insync.replicas=2",
		Args:    cobra.MinimumNArgs(2),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			res, pairs, err := parseResource(args)
			if err != nil {
				return err
			}
			if len(pairs) == 0 {
				return usage("nothing to set: give KEY=VALUE")
			}
			return a.alter(ctx, c, res, pairs, nil, dryRun)
		}),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only check")
	return cmd
}

func newConfigUnset(a *app) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:     "unset topic NAME|broker ID|cluster KEY...",
		Short:   "Return configs to their defaults",
		Example: "  moldau config unset topic orders retention.ms",
		Args:    cobra.MinimumNArgs(2),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			res, keys, err := parseResource(args)
			if err != nil {
				return err
			}
			if len(keys) == 0 {
				return usage("nothing to unset: give KEY")
			}
			return a.alter(ctx, c, res, nil, keys, dryRun)
		}),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only check")
	return cmd
}

// alter changes configs, all or none.
func (a *app) alter(ctx context.Context, c *client.Client, res resource, sets, unsets []string, dryRun bool) error {
	entries, err := parseConfigs(sets)
	if err != nil {
		return err
	}
	req := &moldauv1.AlterConfigsRequest{Kind: res.kind, Name: res.name, ValidateOnly: dryRun}
	var done []string
	for _, e := range entries {
		req.Ops = append(req.Ops, &moldauv1.ConfigOp{Key: e.GetKey(), Value: &e.Value})
		done = append(done, e.GetKey()+"="+e.GetValue())
	}
	for _, key := range unsets {
		req.Ops = append(req.Ops, &moldauv1.ConfigOp{Key: key})
		done = append(done, key+" unset")
	}
	resp, err := c.AlterConfigs(ctx, req)
	if err != nil {
		err = fmt.Errorf("change configs of %s: %w", res, err)
		if client.CodeOf(err) == moldauv1.ErrorCode_ERROR_CODE_INVALID_CONFIG {
			return hinted(err, "`moldau config get %s -o wide` lists the keys and what they mean.", res)
		}
		return err
	}
	for _, note := range resp.GetNotes() {
		a.say("note: %s", note)
	}
	word := "changed"
	if dryRun {
		word = "could be changed (nothing was done)"
	}
	a.say("%s %s: %s", res, word, strings.Join(done, ", "))
	return nil
}

// configShape is one config of `moldau config get`.
type configShape struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Source   string `json:"source"`
	Default  string `json:"default"`
	Type     string `json:"type"`
	Enforced bool   `json:"enforced"`
	Doc      string `json:"doc"`
}

func viewConfigs(configs []*moldauv1.ConfigValue) view {
	shapes := []configShape{}
	t := table{columns: []column{col("KEY"), col("VALUE"), col("SOURCE"), wide("DEFAULT"), wide("TYPE"), wide("ENFORCED"), wide("MEANING")}}
	v := view{}
	for _, c := range configs {
		shapes = append(shapes, configShape{c.GetKey(), c.GetValue(), c.GetSource(), c.GetDefaultValue(), c.GetType(), c.GetEnforced(), c.GetDoc()})
		enforced := "yes"
		if !c.GetEnforced() {
			enforced = "no"
		}
		t.rows = append(t.rows, []string{c.GetKey(), c.GetValue(), c.GetSource(), c.GetDefaultValue(), c.GetType(), enforced, c.GetDoc()})
		v.names = append(v.names, c.GetKey())
	}
	v.tables, v.value = []table{t}, shapes
	return v
}
