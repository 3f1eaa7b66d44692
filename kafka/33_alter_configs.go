package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/cluster"
)

// AlterConfigs (33), versions 0 to 2: replaces all that is set on a resource. Old tools use it; newer ones use IncrementalAlterConfigs. v2 is flexible.
func (c *conn) alterConfigs(ctx context.Context, req *kmsg.AlterConfigsRequest, s *slot) (*kmsg.AlterConfigsResponse, error) {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	for i := range req.Resources {
		in := &req.Resources[i]
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		res, err := configResource(in.ResourceType, in.ResourceName)
		for _, e := range in.Configs {
			if e.Value == nil && err == nil {
				err = cluster.Refuse(cluster.CodeInvalidRequest, "null is no value for "+e.Name)
			}
		}
		if err == nil {
			_, err = c.s.broker.AlterConfigs(ctx, res, c.replaceConfigs(res, in.Configs), req.ValidateOnly)
		}
		out.ErrorCode, out.ErrorMessage = s.refuse(configured(err))
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

// replaceConfigs sets what is named and removes what else is set.
func (c *conn) replaceConfigs(res cluster.ConfigResource, wanted []kmsg.AlterConfigsRequestResourceConfig) []cluster.ConfigOp {
	var ops []cluster.ConfigOp
	named := make(map[string]bool, len(wanted))
	for _, e := range wanted {
		named[e.Name] = true
		ops = append(ops, cluster.ConfigOp{Key: e.Name, Value: *e.Value})
	}
	for _, e := range c.setConfigs(res) {
		if !named[e.Key] {
			ops = append(ops, cluster.ConfigOp{Key: e.Key, Delete: true})
		}
	}
	return ops
}

// setConfigs is what is set on the resource itself.
func (c *conn) setConfigs(res cluster.ConfigResource) cluster.Configs {
	img := c.s.broker.Image()
	if res.Kind != cluster.ConfigTopic {
		return img.Configs(res)
	}
	if t, ok := img.TopicByName(res.Name); ok {
		return t.Configs
	}
	return nil
}
