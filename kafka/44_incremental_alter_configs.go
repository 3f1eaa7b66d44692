package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/cluster"
)

// IncrementalAlterConfigs (44), versions 0 and 1: sets, removes, and for lists appends and subtracts (KIP-339). v1 is flexible.
func (c *conn) incrementalAlterConfigs(ctx context.Context, req *kmsg.IncrementalAlterConfigsRequest, s *slot) (*kmsg.IncrementalAlterConfigsResponse, error) {
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	named := tally(req.Resources, func(r *kmsg.IncrementalAlterConfigsRequestResource) resource {
		return resource{r.ResourceType, r.ResourceName}
	})
	for i := range req.Resources {
		in := &req.Resources[i]
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		res, err := configResource(in.ResourceType, in.ResourceName)
		if named[resource{in.ResourceType, in.ResourceName}] > 1 {
			err = namedTwice("the resource")
		}
		var ops []cluster.ConfigOp
		if err == nil {
			ops, err = c.configOps(ctx, res, in.Configs)
		}
		if err == nil {
			_, err = c.s.broker.AlterConfigs(ctx, res, ops, req.ValidateOnly)
		}
		out.ErrorCode, out.ErrorMessage = s.refuse(configured(err))
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

func (c *conn) configOps(ctx context.Context, res cluster.ConfigResource, in []kmsg.IncrementalAlterConfigsRequestResourceConfig) ([]cluster.ConfigOp, error) {
	ops := make([]cluster.ConfigOp, 0, len(in))
	named := tally(in, func(e *kmsg.IncrementalAlterConfigsRequestResourceConfig) string { return e.Name })
	for _, e := range in {
		switch {
		case named[e.Name] > 1:
			return nil, namedTwice(e.Name)
		case e.Value == nil && e.Op != kmsg.IncrementalAlterConfigOpDelete:
			return nil, cluster.Refuse(cluster.CodeInvalidRequest, "null is no value for "+e.Name)
		}
		value := text(e.Value)
		switch e.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			ops = append(ops, cluster.ConfigOp{Key: e.Name, Value: value})
		case kmsg.IncrementalAlterConfigOpDelete:
			if knownConfig(res, e.Name) { // what does not exist is not set: tools clean up after releases that had it
				ops = append(ops, cluster.ConfigOp{Key: e.Name, Delete: true})
			}
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			list, err := c.listOf(ctx, res, e.Name)
			if err != nil {
				return nil, err
			}
			for _, item := range items(value) {
				list = slices.DeleteFunc(list, func(have string) bool { return have == item })
				if e.Op == kmsg.IncrementalAlterConfigOpAppend {
					list = append(list, item)
				}
			}
			ops = append(ops, cluster.ConfigOp{Key: e.Name, Value: strings.Join(list, ",")})
		default:
			return nil, cluster.Refuse(cluster.CodeInvalidRequest, fmt.Sprintf("operation %d on %s is unknown", e.Op, e.Name))
		}
	}
	return ops, nil
}

// listOf is the effective value of a key that is a list.
func (c *conn) listOf(ctx context.Context, res cluster.ConfigResource, key string) ([]string, error) {
	entries, err := c.s.broker.DescribeConfigs(ctx, res)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Key.Name == key && e.Key.Type == cluster.ConfigList {
			return items(e.Value), nil
		}
	}
	return nil, cluster.Refuse(cluster.CodeInvalidConfig, fmt.Sprintf("%s is not a list; set it instead", key))
}

func items(list string) []string {
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

func knownConfig(res cluster.ConfigResource, name string) bool {
	find := cluster.BrokerKey
	if res.Kind == cluster.ConfigTopic {
		find = cluster.TopicKey
	}
	_, ok := find(name)
	return ok
}
