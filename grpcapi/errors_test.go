package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/moldau-log/moldau/cluster"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

func TestErrors_TableIsComplete(t *testing.T) {
	s := newFakeCluster(t, 1).brokers[0].door
	seen := map[moldauv1.ErrorCode]cluster.Code{}
	for _, c := range cluster.Codes() {
		d, ok := dispositions[c]
		if !ok {
			t.Errorf("%s has no row", c)
			continue
		}
		if (c == cluster.CodeNone) != (d.status == codes.OK) {
			t.Errorf("%s is %s", c, d.status)
		}
		wire := wireCode(c)
		if other, twice := seen[wire]; twice {
			t.Errorf("%s and %s are both %s", c, other, wire)
		}
		seen[wire] = c
		if c == cluster.CodeNone {
			continue
		}
		if wire.String() != "ERROR_CODE_"+c.String() {
			t.Errorf("%s is %s", c, wire)
		}
		st := status.Convert(s.status(context.Background(), fmt.Errorf("wrapped: %w", cluster.Refuse(c, "why"))))
		info, retry := details(st)
		if st.Code() != d.status || st.Message() != "why" || info.GetReason() != c.String() || info.GetDomain() != "moldau" || (retry != nil) != d.retriable {
			t.Errorf("%s: %v with %v", c, st, st.Details())
		}
		if codeNamed(c.String()) != c || codeNamed(trimCode(wire)) != c || asPart(st.Err()).Code != c {
			t.Errorf("%s does not come back by its name", c)
		}
	}
	if len(seen) != len(moldauv1.ErrorCode_name) {
		t.Errorf("the API has %d codes, the cluster %d", len(moldauv1.ErrorCode_name), len(seen))
	}
}

func details(st *status.Status) (info *errdetails.ErrorInfo, retry *errdetails.RetryInfo) {
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	return info, retry
}

func TestErrors_RedirectsNameTheBroker(t *testing.T) {
	c := newFakeCluster(t, 2)
	s := c.brokers[0].door
	e := &cluster.Error{Code: cluster.CodeNotLeader, Message: "ask 1", Leader: 1, LeaderEpoch: 5}
	info, retry := details(status.Convert(s.status(context.Background(), e)))
	if info.GetMetadata()["leader"] != "1" || info.GetMetadata()["leader_epoch"] != "5" || info.GetMetadata()["endpoint"] != c.endpoints()[1] {
		t.Errorf("metadata %v", info.GetMetadata())
	}
	if retry.GetRetryDelay().AsDuration() != 0 {
		t.Errorf("a redirect waits %v", retry.GetRetryDelay())
	}
	part := s.refusal(context.Background(), e)
	if part.GetLeader() != 1 || part.GetLeaderEpoch() != 5 || part.GetEndpoint() != c.endpoints()[1] || !part.GetRetriable() {
		t.Errorf("part %v", part)
	}
	unknown := &cluster.Error{Code: cluster.CodeNotLeader, Leader: cluster.NoBroker, LeaderEpoch: -1}
	if part := s.refusal(context.Background(), unknown); part.Leader != nil || part.Endpoint != "" {
		t.Errorf("without leader: %v", part)
	}
}

func TestErrors_OfOtherKinds(t *testing.T) {
	s := newFakeCluster(t, 1).brokers[0].door
	for _, test := range []struct {
		err  error
		want codes.Code
	}{
		{errors.New("odd"), codes.Internal},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{status.Error(codes.NotFound, "of another broker"), codes.NotFound},
		{nil, codes.OK},
	} {
		if got := status.Code(s.status(context.Background(), test.err)); got != test.want {
			t.Errorf("%v is %s, want %s", test.err, got, test.want)
		}
	}
}
