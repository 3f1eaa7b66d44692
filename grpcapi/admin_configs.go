package grpcapi

import (
	"context"
	"strings"

	"github.com/moldau-log/moldau/cluster"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// resource reads what a config request is about.
func resource(kind moldauv1.ConfigKind, name string) (cluster.ConfigResource, error) {
	switch kind {
	case moldauv1.ConfigKind_CONFIG_KIND_TOPIC:
		return cluster.ConfigResource{Kind: cluster.ConfigTopic, Name: name}, nil
	case moldauv1.ConfigKind_CONFIG_KIND_BROKER:
		return cluster.ConfigResource{Kind: cluster.ConfigBroker, Name: name}, nil
	case moldauv1.ConfigKind_CONFIG_KIND_CLUSTER_DEFAULT:
		return cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}, nil
	}
	return cluster.ConfigResource{}, cluster.Refuse(cluster.CodeInvalidRequest, "kind has to be topic, broker or cluster default")
}

// sourceNames are the sources of config values as the API names them.
var sourceNames = map[cluster.ConfigSource]string{
	cluster.SourceTopic: "topic", cluster.SourceBroker: "broker", cluster.SourceClusterDefault: "cluster", cluster.SourceStatic: "static", cluster.SourceDefault: "default",
}

// DescribeConfigs tells effective values.
func (a *adminService) DescribeConfigs(ctx context.Context, req *moldauv1.DescribeConfigsRequest) (*moldauv1.DescribeConfigsResponse, error) {
	res, err := resource(req.GetKind(), req.GetName())
	if err != nil {
		return nil, err
	}
	values, err := a.broker.DescribeConfigs(ctx, res)
	if err != nil {
		return nil, err
	}
	resp := &moldauv1.DescribeConfigsResponse{}
	for _, v := range values {
		resp.Configs = append(resp.Configs, &moldauv1.ConfigValue{
			Key: v.Key.Name, Value: v.Value, Source: sourceNames[v.Source], DefaultValue: v.Key.Default, Doc: v.Key.Doc,
			Type: strings.ToLower(v.Key.Type.String()), Enforced: v.Key.Enforced,
		})
	}
	return resp, nil
}

// AlterConfigs changes values.
func (a *adminService) AlterConfigs(ctx context.Context, req *moldauv1.AlterConfigsRequest) (*moldauv1.AlterConfigsResponse, error) {
	res, err := resource(req.GetKind(), req.GetName())
	if err != nil {
		return nil, err
	}
	ops := make([]cluster.ConfigOp, len(req.GetOps()))
	for i, op := range req.GetOps() {
		ops[i] = cluster.ConfigOp{Key: op.GetKey(), Value: op.GetValue(), Delete: op.Value == nil}
	}
	notes, err := a.broker.AlterConfigs(ctx, res, ops, req.GetValidateOnly())
	if err != nil {
		return nil, err
	}
	return &moldauv1.AlterConfigsResponse{Notes: notes}, nil
}
