package kafka

import (
	"context"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// UpdateFeatures (57), versions 0 to 2: finalizes the level of a feature (KIP-584). v1 says how: upgrade, safe or unsafe downgrade, and can only validate
// (KIP-778); v2 has one result for all.
//
// There is one feature, the level of the metadata that brokers write for each other. Kafka's metadata.version means something else, and is not shown: a
// tool would print a release of Kafka for it. The level only rises.
const (
	featureMetadata = "moldau.metadata.version"

	upgradeOnly int8 = 1
)

func (c *conn) updateFeatures(ctx context.Context, req *kmsg.UpdateFeaturesRequest, s *slot) (*kmsg.UpdateFeaturesResponse, error) {
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	refuse := func(code int16, text string) (*kmsg.UpdateFeaturesResponse, error) {
		resp.ErrorCode, resp.ErrorMessage = s.note(code), &text
		return resp, nil
	}
	if len(req.FeatureUpdates) == 0 {
		return resp, nil
	}
	for i := range req.FeatureUpdates { // all are checked before one is applied
		if text := c.refuseFeature(req, &req.FeatureUpdates[i]); text != "" {
			return refuse(errInvalidUpdateVersion, text)
		}
	}
	if len(req.FeatureUpdates) > 1 {
		return refuse(errInvalidRequest, "a feature is named twice")
	}
	u := &req.FeatureUpdates[0]
	if level := int32(u.MaxVersionLevel); !req.ValidateOnly && level != c.s.broker.Image().FeatureLevel() {
		if err := c.s.broker.SetFeatureLevel(ctx, level); err != nil {
			resp.ErrorCode, resp.ErrorMessage = s.refuse(err)
			return resp, nil
		}
	}
	if req.Version < 2 {
		r := kmsg.NewUpdateFeaturesResponseResult()
		r.Feature = u.Feature
		resp.Results = append(resp.Results, r)
	}
	return resp, nil
}

// refuseFeature says why a feature cannot have that level; empty when it can.
func (c *conn) refuseFeature(req *kmsg.UpdateFeaturesRequest, u *kmsg.UpdateFeaturesRequestFeatureUpdate) string {
	if u.Feature != featureMetadata {
		return fmt.Sprintf("there is no feature %s; there is %s", u.Feature, featureMetadata)
	}
	img := c.s.broker.Image()
	level, now := int32(u.MaxVersionLevel), img.FeatureLevel()
	switch {
	case level < 1:
		return fmt.Sprintf("%s is at level %d and cannot be taken out of use", u.Feature, now)
	case level < now:
		return fmt.Sprintf("%s is at level %d and never falls", u.Feature, now)
	case level > now && req.Version >= 1 && u.UpgradeType != upgradeOnly:
		return fmt.Sprintf("%s is at level %d; going to %d is an upgrade, not a downgrade", u.Feature, now, level)
	}
	for b := range img.Brokers() {
		if level < b.MinLevel || level > b.MaxLevel {
			return fmt.Sprintf("broker %d supports levels %d to %d of %s, not %d", b.ID, b.MinLevel, b.MaxLevel, u.Feature, level)
		}
	}
	return ""
}

// features are what ApiVersions tells of features: what this broker supports and what the cluster has finalized.
func (c *conn) features(resp *kmsg.ApiVersionsResponse) {
	img := c.s.broker.Image()
	resp.FinalizedFeaturesEpoch = int64(min(img.Index(), math.MaxInt64))
	if b, ok := img.Broker(c.s.broker.ID()); ok && b.MaxLevel > 0 {
		resp.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{{Name: featureMetadata, MinVersion: int16(b.MinLevel), MaxVersion: int16(b.MaxLevel)}}
	}
	if level := int16(img.FeatureLevel()); level > 0 {
		resp.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{{Name: featureMetadata, MinVersionLevel: level, MaxVersionLevel: level}}
	}
}
