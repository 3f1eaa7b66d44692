package client

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// silent is a coordinator of one member and one partition, whose answer to the first commit never comes.
type silent struct {
	moldauv1.UnimplementedAdminServiceServer
	moldauv1.UnimplementedGroupServiceServer
	commits chan *moldauv1.CommitOffsetsRequest
	seen    atomic.Int32
}

func (s *silent) DescribeCluster(context.Context, *moldauv1.DescribeClusterRequest) (*moldauv1.DescribeClusterResponse, error) {
	return &moldauv1.DescribeClusterResponse{}, nil
}

func (s *silent) Join(stream grpc.BidiStreamingServer[moldauv1.JoinRequest, moldauv1.JoinResponse]) error {
	for {
		switch _, err := stream.Recv(); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		err := stream.Send(&moldauv1.JoinResponse{MemberEpoch: 1, Version: 1, HeartbeatIntervalMs: 1000,
			Assignment: &moldauv1.Assignment{Assigned: []*moldauv1.TopicPartition{{Topic: "t"}, {Topic: "t", Partition: 1}}}})
		if err != nil {
			return err
		}
	}
}

func (s *silent) FetchOffsets(context.Context, *moldauv1.FetchOffsetsRequest) (*moldauv1.FetchOffsetsResponse, error) {
	return &moldauv1.FetchOffsetsResponse{Offsets: []*moldauv1.CommittedOffset{{Topic: "t", CommittedOffset: 5}, {Topic: "t", Partition: 1, CommittedOffset: 5}}}, nil
}

func (s *silent) CommitOffsets(ctx context.Context, req *moldauv1.CommitOffsetsRequest) (*moldauv1.CommitOffsetsResponse, error) {
	s.commits <- req
	if s.seen.Add(1) == 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	resp := &moldauv1.CommitOffsetsResponse{}
	for _, o := range req.GetOffsets() {
		resp.Results = append(resp.Results, &moldauv1.PartitionResult{Topic: o.GetTopic(), Partition: o.GetPartition()})
	}
	return resp, nil
}

// TestCase89_ACommitOfUnknownOutcomeIsMadeAgainUnderAHigherNumber: it may be carried out late, or never, so what was in it is not taken for stored, moved or not, and
// the coordinator can tell the two apart.
func TestCase89_ACommitOfUnknownOutcomeIsMadeAgainUnderAHigherNumber(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &silent{commits: make(chan *moldauv1.CommitOffsetsRequest, 8)}
	server := grpc.NewServer()
	moldauv1.RegisterAdminServiceServer(server, s)
	moldauv1.RegisterGroupServiceServer(server, s)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	c, err := New(WithSeeds(l.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	assigned := make(chan []TopicPartition, 1)
	k, err := c.NewConsumer(WithGroup("g"), WithTopics("t"), WithAutoCommit(0), WithOnAssigned(func(_ context.Context, tps []TopicPartition) { assigned <- tps }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		server.Stop()
		<-ended
	})
	<-assigned

	commit := func(ctx context.Context, to int64) error {
		return k.CommitOffsets(ctx, map[TopicPartition]int64{{"t", 0}: to, {"t", 1}: 5})
	}
	ctx, giveUp := context.WithCancel(context.Background())
	first := make(chan *moldauv1.CommitOffsetsRequest, 1)
	go func() {
		first <- <-s.commits
		giveUp()
	}()
	for commit(ctx, 7) != nil && ctx.Err() == nil { // refused with ErrNotAssigned until the partitions are there
		continue
	}
	lost := <-first
	if len(lost.GetOffsets()) != 1 || lost.GetSequence() <= 0 {
		t.Fatalf("the first commit has to name what moved, under a number: %v", lost)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := commit(ctx, 5); err != nil { // where it was before: nothing has moved
		t.Fatal(err)
	}
	if len(s.commits) != 1 {
		t.Fatalf("%d commits were made after the lost one, want 1", len(s.commits))
	}
	again := <-s.commits
	if len(again.GetOffsets()) != 1 || again.GetOffsets()[0].GetCommittedOffset() != 5 || again.GetSequence() <= lost.GetSequence() {
		t.Errorf("after %v, of unknown outcome: %v", lost, again)
	}
	if err := commit(ctx, 5); err != nil || len(s.commits) != 0 {
		t.Errorf("%v; what is stored for certain is sent again, %d times", err, len(s.commits))
	}
}
