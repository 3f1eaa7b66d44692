package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/cluster"
)

// DescribeConfigs (32), versions 0 to 4: effective values with their source. Any broker answers for any resource.
//
// v1 sources, synonyms (KIP-226); v3 types, documentation (KIP-569); v4 flexible.
func (c *conn) describeConfigs(ctx context.Context, req *kmsg.DescribeConfigsRequest, s *slot) (*kmsg.DescribeConfigsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	asked := distinct(req.Resources, func(r *kmsg.DescribeConfigsRequestResource) resource { return resource{r.ResourceType, r.ResourceName} })
	for i := range asked {
		in := &asked[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		out.Configs = []kmsg.DescribeConfigsResponseResourceConfig{}
		res, err := configResource(in.ResourceType, in.ResourceName)
		var entries []cluster.EffectiveConfig
		if err == nil {
			entries, err = c.s.broker.DescribeConfigs(ctx, res)
		}
		out.ErrorCode, out.ErrorMessage = s.refuse(configured(err))
		defaults := c.s.broker.Image().Configs(cluster.ConfigResource{Kind: cluster.ConfigClusterDefault})
		for _, e := range entries {
			switch {
			case len(in.ConfigNames) > 0 && !slices.Contains(in.ConfigNames, e.Key.Name):
			case res.Kind == cluster.ConfigClusterDefault && e.Source != cluster.SourceClusterDefault: // of the default of all brokers, only what is set
			default:
				out.Configs = append(out.Configs, describedConfig(&e, defaults, req))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

// describedConfig describes one value. Its synonyms are where it would come from if it were not set here, nearest first.
func describedConfig(e *cluster.EffectiveConfig, defaults cluster.Configs, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	o := kmsg.NewDescribeConfigsResponseResourceConfig()
	o.Name, o.Value = e.Key.Name, kmsg.StringPtr(e.Value)
	o.IsDefault = e.Source == cluster.SourceDefault
	o.Source, o.ConfigType = kmsg.ConfigSource(e.Source), kmsg.ConfigType(e.Key.Type)
	o.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{}
	if req.IncludeDocumentation {
		o.Documentation = kmsg.StringPtr(e.Key.Doc)
	}
	if !req.IncludeSynonyms {
		return o
	}
	name := e.Key.Name
	if e.Source != cluster.SourceTopic && e.Key.Synonym != "" {
		name = e.Key.Synonym
	}
	own := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
	own.Name, own.Value, own.Source = name, kmsg.StringPtr(e.Value), o.Source
	o.ConfigSynonyms = append(o.ConfigSynonyms, own)
	if e.Source != cluster.SourceDefault {
		fallback := own
		if e.Key.Synonym != "" {
			fallback.Name = e.Key.Synonym
		}
		if value, ok := defaults.Get(fallback.Name); ok && e.Source != cluster.SourceClusterDefault {
			fallback.Value, fallback.Source = kmsg.StringPtr(value), kmsg.ConfigSource(cluster.SourceClusterDefault)
			o.ConfigSynonyms = append(o.ConfigSynonyms, fallback)
		}
		fallback.Value, fallback.Source = kmsg.StringPtr(e.Key.Default), kmsg.ConfigSource(cluster.SourceDefault)
		o.ConfigSynonyms = append(o.ConfigSynonyms, fallback)
	}
	return o
}

// configResource finds what Kafka's resource is here. A broker without a name is the default of all brokers.
func configResource(kind kmsg.ConfigResourceType, name string) (cluster.ConfigResource, error) {
	switch {
	case kind == kmsg.ConfigResourceTypeTopic:
		if err := cluster.ParseTopicName(name); err != nil {
			return cluster.ConfigResource{}, err
		}
		return cluster.ConfigResource{Kind: cluster.ConfigTopic, Name: name}, nil
	case kind == kmsg.ConfigResourceTypeBroker && name == "":
		return cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}, nil
	case kind == kmsg.ConfigResourceTypeBroker:
		return cluster.ConfigResource{Kind: cluster.ConfigBroker, Name: name}, nil
	}
	return cluster.ConfigResource{}, cluster.Refuse(cluster.CodeInvalidRequest, "only topics and brokers have configurations here")
}
