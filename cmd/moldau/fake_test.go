package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// fakeBroker answers what a test tells it to, and remembers the requests. What is not set is Unimplemented.
type fakeBroker struct {
	moldauv1.UnimplementedAdminServiceServer
	moldauv1.UnimplementedGroupServiceServer
	moldauv1.UnimplementedLogServiceServer

	topics   []*moldauv1.TopicDescription
	health   *moldauv1.ClusterHealthResponse
	cluster  *moldauv1.DescribeClusterResponse
	groups   []*moldauv1.GroupDescription
	configs  []*moldauv1.ConfigValue
	offsets  func(*moldauv1.OffsetQuery) *moldauv1.ListedOffset
	refuse   error              // of every change
	answer   moldauv1.ErrorCode // to every batch
	requests []any
}

// refusal is a gRPC status as a broker makes it.
func refusal(code codes.Code, reason, message string) error {
	st, err := status.New(code, message).WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "moldau"})
	if err != nil {
		panic(err)
	}
	return st.Err()
}

func (f *fakeBroker) start(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	moldauv1.RegisterAdminServiceServer(s, f)
	moldauv1.RegisterGroupServiceServer(s, f)
	moldauv1.RegisterLogServiceServer(s, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // ends with Stop
	}()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}

func (f *fakeBroker) did(req any) error {
	f.requests = append(f.requests, req)
	return f.refuse
}

func (f *fakeBroker) CreateTopic(_ context.Context, req *moldauv1.CreateTopicRequest) (*moldauv1.CreateTopicResponse, error) {
	return &moldauv1.CreateTopicResponse{
		Topic: req.GetTopic(), TopicId: "AAAAAAAAAAAAAAAAAAAAAQ", Partitions: 6, ReplicationFactor: 3, Notes: []string{"cleanup.policy=compact is stored and not enforced"},
	}, f.did(req)
}

func (f *fakeBroker) DeleteTopic(_ context.Context, req *moldauv1.DeleteTopicRequest) (*moldauv1.DeleteTopicResponse, error) {
	return &moldauv1.DeleteTopicResponse{}, f.did(req)
}

func (f *fakeBroker) ListTopics(context.Context, *moldauv1.ListTopicsRequest) (*moldauv1.ListTopicsResponse, error) {
	resp := &moldauv1.ListTopicsResponse{}
	for _, t := range f.topics {
		resp.Topics = append(resp.Topics, &moldauv1.TopicListing{
			Topic: t.GetTopic(), TopicId: t.GetTopicId(), Partitions: int32(len(t.GetPartitions())), ReplicationFactor: t.GetReplicationFactor(), CreatedMs: t.GetCreatedMs(),
		})
	}
	return resp, nil
}

func (f *fakeBroker) DescribeTopics(_ context.Context, req *moldauv1.DescribeTopicsRequest) (*moldauv1.DescribeTopicsResponse, error) {
	resp := &moldauv1.DescribeTopicsResponse{Brokers: f.cluster.GetBrokers()}
	if len(req.GetTopics()) == 0 {
		resp.Topics = f.topics
	}
	for _, ref := range req.GetTopics() {
		found := &moldauv1.TopicDescription{Topic: ref.GetTopic(), Error: &moldauv1.Error{Code: moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC, Message: "topic " + ref.GetTopic() + " does not exist"}}
		for _, t := range f.topics {
			if t.GetTopic() == ref.GetTopic() {
				found = t
			}
		}
		resp.Topics = append(resp.Topics, found)
	}
	return resp, nil
}

func (f *fakeBroker) AddPartitions(_ context.Context, req *moldauv1.AddPartitionsRequest) (*moldauv1.AddPartitionsResponse, error) {
	return &moldauv1.AddPartitionsResponse{}, f.did(req)
}

func (f *fakeBroker) DescribeConfigs(context.Context, *moldauv1.DescribeConfigsRequest) (*moldauv1.DescribeConfigsResponse, error) {
	return &moldauv1.DescribeConfigsResponse{Configs: f.configs}, nil
}

func (f *fakeBroker) AlterConfigs(_ context.Context, req *moldauv1.AlterConfigsRequest) (*moldauv1.AlterConfigsResponse, error) {
	return &moldauv1.AlterConfigsResponse{}, f.did(req)
}

func (f *fakeBroker) DeleteRecords(_ context.Context, req *moldauv1.DeleteRecordsRequest) (*moldauv1.DeleteRecordsResponse, error) {
	return &moldauv1.DeleteRecordsResponse{LogStartOffset: req.GetBeforeOffset()}, f.did(req)
}

func (f *fakeBroker) ListReassignments(context.Context, *moldauv1.ListReassignmentsRequest) (*moldauv1.ListReassignmentsResponse, error) {
	return &moldauv1.ListReassignmentsResponse{}, nil
}

func (f *fakeBroker) Reassign(_ context.Context, req *moldauv1.ReassignRequest) (*moldauv1.ReassignResponse, error) {
	return &moldauv1.ReassignResponse{}, f.did(req)
}

func (f *fakeBroker) ElectLeaders(_ context.Context, req *moldauv1.ElectLeadersRequest) (*moldauv1.ElectLeadersResponse, error) {
	resp := &moldauv1.ElectLeadersResponse{}
	for _, tp := range req.GetPartitions() {
		resp.Results = append(resp.Results, &moldauv1.PartitionResult{Topic: tp.GetTopic(), Partition: tp.GetPartition()})
	}
	return resp, f.did(req)
}

func (f *fakeBroker) DescribeCluster(context.Context, *moldauv1.DescribeClusterRequest) (*moldauv1.DescribeClusterResponse, error) {
	return f.cluster, nil
}

func (f *fakeBroker) ClusterHealth(context.Context, *moldauv1.ClusterHealthRequest) (*moldauv1.ClusterHealthResponse, error) {
	if f.health == nil {
		return nil, refusal(codes.Unavailable, "NO_CONTROLLER", "no controller is known right now")
	}
	return f.health, nil
}

func (f *fakeBroker) UnregisterBroker(_ context.Context, req *moldauv1.UnregisterBrokerRequest) (*moldauv1.UnregisterBrokerResponse, error) {
	return &moldauv1.UnregisterBrokerResponse{}, f.did(req)
}

func (f *fakeBroker) Backup(_ *moldauv1.BackupRequest, out grpc.ServerStreamingServer[moldauv1.BackupResponse]) error {
	for _, chunk := range []string{"one ", "two"} {
		if err := out.Send(&moldauv1.BackupResponse{Chunk: []byte(chunk)}); err != nil {
			return err
		}
	}
	return f.refuse
}

func (f *fakeBroker) ListOffsets(_ context.Context, req *moldauv1.ListOffsetsRequest) (*moldauv1.ListOffsetsResponse, error) {
	resp := &moldauv1.ListOffsetsResponse{}
	for _, q := range req.GetQueries() {
		resp.Offsets = append(resp.Offsets, f.offsets(q))
	}
	return resp, nil
}

func (f *fakeBroker) ListGroups(context.Context, *moldauv1.ListGroupsRequest) (*moldauv1.ListGroupsResponse, error) {
	resp := &moldauv1.ListGroupsResponse{}
	for _, g := range f.groups {
		resp.Groups = append(resp.Groups, &moldauv1.GroupListing{Group: g.GetGroup(), Type: g.GetType(), State: g.GetState(), Members: int32(len(g.GetMembers())), Coordinator: g.GetCoordinator()})
	}
	return resp, nil
}

func (f *fakeBroker) DescribeGroups(_ context.Context, req *moldauv1.DescribeGroupsRequest) (*moldauv1.DescribeGroupsResponse, error) {
	resp := &moldauv1.DescribeGroupsResponse{}
	for _, name := range req.GetGroups() {
		found := &moldauv1.GroupDescription{Group: name, Error: &moldauv1.Error{Code: moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_GROUP, Message: "group " + name + " does not exist"}}
		for _, g := range f.groups {
			if g.GetGroup() == name {
				found = g
			}
		}
		resp.Groups = append(resp.Groups, found)
	}
	return resp, nil
}

func (f *fakeBroker) DeleteGroup(_ context.Context, req *moldauv1.DeleteGroupRequest) (*moldauv1.DeleteGroupResponse, error) {
	return &moldauv1.DeleteGroupResponse{}, f.did(req)
}

func (f *fakeBroker) ResetOffsets(_ context.Context, req *moldauv1.ResetOffsetsRequest) (*moldauv1.ResetOffsetsResponse, error) {
	return &moldauv1.ResetOffsetsResponse{Resets: []*moldauv1.OffsetReset{{Topic: "orders", Partition: 2, PreviousOffset: -1, CommittedOffset: 17}}}, f.did(req)
}

// result is what a command line printed and its exit code.
type result struct {
	out, err string
	code     int
}

// cli runs a command line against a broker.
func cli(t *testing.T, address, stdin string, args ...string) result {
	t.Helper()
	return cliWith(t, nil, address, stdin, args...)
}

// cliWith is cli with more environment variables.
func cliWith(t *testing.T, env []string, address, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(stdin), out: &out, err: &errs, environ: append([]string{"MOLDAU_SERVER=" + address}, env...)}
	code := run(t.Context(), args, a)
	return result{out.String(), errs.String(), code}
}
