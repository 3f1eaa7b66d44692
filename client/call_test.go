package client

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// dying is a broker that is killed while it works on a change, and one that counts queries.
type dying struct {
	moldauv1.UnimplementedAdminServiceServer
	moldauv1.UnimplementedLogServiceServer
	server *grpc.Server
	most   int
}

func (d *dying) CreateTopic(ctx context.Context, _ *moldauv1.CreateTopicRequest) (*moldauv1.CreateTopicResponse, error) {
	go d.server.Stop()
	<-ctx.Done()
	return nil, ctx.Err()
}

func (d *dying) ListOffsets(_ context.Context, req *moldauv1.ListOffsetsRequest) (*moldauv1.ListOffsetsResponse, error) {
	d.most = max(d.most, len(req.GetQueries()))
	resp := &moldauv1.ListOffsetsResponse{}
	for _, q := range req.GetQueries() {
		resp.Offsets = append(resp.Offsets, &moldauv1.ListedOffset{Partition: q.GetPartition(), Offset: int64(q.GetPartition())})
	}
	return resp, nil
}

// served is a client of one dying broker.
func served(t *testing.T) (*Client, *dying) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dying{server: grpc.NewServer()}
	moldauv1.RegisterAdminServiceServer(d.server, d)
	moldauv1.RegisterLogServiceServer(d.server, d)
	ended := make(chan error, 1)
	go func() { ended <- d.server.Serve(l) }()
	c, err := New(WithSeeds(l.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		d.server.Stop()
		<-ended
	})
	return c, d
}

// TestInvoke_LostConnectionLeavesAChangeInDoubt: it may have been done, so it is neither repeated nor called unreachable.
func TestInvoke_LostConnectionLeavesAChangeInDoubt(t *testing.T) {
	c, _ := served(t)
	if _, err := c.CreateTopic(context.Background(), &moldauv1.CreateTopicRequest{Topic: "t"}); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("error %v", err)
	}
}

// TestListOffsets_ManyQueries: a topic may have 10,000 partitions, and who reads all of it asks for two ends of each.
func TestListOffsets_ManyQueries(t *testing.T) {
	c, d := served(t)
	req := &moldauv1.ListOffsetsRequest{}
	for i := range int32(20_000) {
		req.Queries = append(req.Queries, &moldauv1.OffsetQuery{Topic: "t", Partition: i})
	}
	resp, err := c.ListOffsets(context.Background(), req)
	if err != nil || len(resp.GetOffsets()) != len(req.GetQueries()) || d.most > 10_000 {
		t.Fatalf("%d answers, at most %d queries in one call: %v", len(resp.GetOffsets()), d.most, err)
	}
	for i, o := range resp.GetOffsets() {
		if o.GetOffset() != int64(i) {
			t.Fatalf("answer %d is of partition %d", i, o.GetOffset())
		}
	}
}
