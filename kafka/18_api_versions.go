package kafka

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions (18), versions 0 to 4: what the door speaks. It is the first request of nearly every client.
//
// v1 throttle time; v2 the throttle comes after the answer (KIP-219); v3 client software (KIP-511), features (KIP-584); v4 features from level 0 (KIP-1022).
//
// A version above ours is answered in version 0 with UNSUPPORTED_VERSION and our range, so that the client can try again (KIP-511).
const keyApiVersions int16 = 18

// softwareName is what a client may call its software and version. The values reach the log.
func softwareName() *regexp.Regexp {
	return regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)
}

func (c *conn) apiVersions(_ context.Context, req *kmsg.ApiVersionsRequest, s *slot) (*kmsg.ApiVersionsResponse, error) {
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if req.Version >= 3 {
		valid := c.s.software
		if !valid.MatchString(req.ClientSoftwareName) || !valid.MatchString(req.ClientSoftwareVersion) || len(req.ClientSoftwareName)+len(req.ClientSoftwareVersion) > maxSoftwareName {
			resp.ErrorCode = errInvalidRequest
			s.outcome = errorLabel(errInvalidRequest)
			return resp, nil
		}
		c.client = req.ClientSoftwareName + "/" + req.ClientSoftwareVersion
	}
	resp.ApiKeys = c.s.offered()
	c.features(resp)
	return resp, nil
}

// maxSoftwareName bounds the client's name and version together, in bytes.
const maxSoftwareName = 256

func (c *conn) unsupportedApiVersions() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = errUnsupportedVersion
	a := c.s.apis[keyApiVersions]
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: keyApiVersions, MinVersion: a.min, MaxVersion: a.max}}
	return resp
}
