package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/budget"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// answersBroker is a broker with 20 batches of half a megabyte in partition 0 of topic t, and room for answers of so many bytes.
func answersBroker(t *testing.T, room int) (*Server, string) {
	t.Helper()
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	door := c.brokers[0].door
	door.answers = budget.New(room)
	log := moldauv1.NewLogServiceClient(dial(t, c.endpoints()[0]))
	for range 20 {
		req := &moldauv1.ProduceRecordsRequest{Topic: "t", Records: []*moldauv1.Record{{Value: make([]byte, 512<<10)}}}
		if _, err := log.ProduceRecords(within(t), req); err != nil {
			t.Fatal(err)
		}
	}
	return door, c.endpoints()[0]
}

// unreadCall makes a call of the log service and does not read what it answers.
func unreadCall(t *testing.T, cc *grpc.ClientConn, method string, req any) {
	t.Helper()
	s, err := cc.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true}, "/moldau.v1.LogService/"+method)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.SendMsg(req), s.CloseSend()); err != nil {
		t.Fatal(err)
	}
}

// eventually asks until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx := within(t)
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatal(what)
		case <-time.After(time.Millisecond):
		}
	}
}

var (
	wholeTopic   = &moldauv1.FetchRequest{MaxBytes: 100 << 20, Partitions: []*moldauv1.FetchPartition{{Topic: "t"}}}
	plainRecords = &moldauv1.FetchRecordsRequest{Topic: "t", MaxRecords: 1000}
)

// What a client does not take is counted, by streams and by single calls, and no more is read from the log than there is room for; others wait. All of it comes back
// when its connection ends, also what gRPC does not tell of.
func TestCase108_UnreadAnswersAreCountedAndComeBack(t *testing.T) {
	for method, req := range map[string]any{"Fetch": wholeTopic, "FetchRecords": plainRecords} {
		t.Run(method, func(t *testing.T) {
			const room = 10 << 20
			door, addr := answersBroker(t, room)
			greedy := dial(t, addr, grpc.WithInitialWindowSize(1<<16), grpc.WithInitialConnWindowSize(1<<16))
			for range 30 {
				unreadCall(t, greedy, method, req)
			}
			most := int64(0)
			eventually(t, "the room is not used", func() bool {
				most = max(most, door.answers.Held())
				return door.answers.Held() > room-(8<<20)
			})
			other, err := moldauv1.NewLogServiceClient(dial(t, addr)).Fetch(within(t), wholeTopic)
			if err != nil {
				t.Fatal(err)
			}
			greedy.Close()
			for next := int64(0); next < 20; {
				resp, err := other.Recv()
				if err != nil {
					t.Fatal(err)
				}
				if n := len(resp.GetBatches()); n > maxFetchBytes {
					t.Errorf("a message of %d bytes", n)
				}
				if end, _, err := endOf(resp.GetBatches()); err == nil && len(resp.GetBatches()) > 0 {
					next = int64(end)
				}
				most = max(most, door.answers.Held())
			}
			if most > room {
				t.Errorf("%d bytes were held, with room for %d", most, room)
			}
			eventually(t, fmt.Sprintf("%d bytes are still held", door.answers.Held()), func() bool { return door.answers.Held() == 0 })
		})
	}
}

// Answers that are built before their size is known wait among a bounded number, and the next is refused; small ones pass.
func TestCase108_BuiltAnswersWaitOrAreRefused(t *testing.T) {
	door, addr := answersBroker(t, 1<<20)
	log := moldauv1.NewLogServiceClient(dial(t, addr))
	ask := func(ctx context.Context, queries int) error {
		req := &moldauv1.ListOffsetsRequest{}
		for range queries {
			req.Queries = append(req.Queries, &moldauv1.OffsetQuery{Topic: "t"})
		}
		_, err := log.ListOffsets(ctx, req)
		return err
	}
	door.answers.Force(1 << 20)
	if err := ask(within(t), 100); err != nil {
		t.Errorf("a small answer: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- ask(within(t), maxQueries) }()
	eventually(t, "it does not wait for room", func() bool { return door.built.Held() > 0 })
	filled := builtAnswers - int(door.built.Held())
	door.built.Force(filled)
	err := ask(within(t), maxQueries)
	if got := status.Convert(err); outcomeLabel(err) != errorLabel(cluster.CodeOverloaded.String()) {
		t.Errorf("with too many that wait: %v", got)
	}
	door.built.Give(filled)
	door.answers.Give(1 << 20)
	if err := <-done; err != nil {
		t.Error(err)
	}
	eventually(t, "something is still held", func() bool { return door.answers.Held() == 0 && door.built.Held() == 0 })
}

// Who takes its answers slowly is not closed when others find no room, and who takes nothing is; however many answers of a connection wait, and whatever was before.
func TestCase108_WhoTakesAnswersSlowlyComesToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{answers: budget.New(4 << 20)}
		connect := func() (*unread, *bool) {
			closed := new(bool)
			u := &unread{s: s, holds: map[*hold]struct{}{}}
			u.close = func() { *closed = true; go u.end() }
			return u, closed
		}
		answer := func(u *unread) *hold {
			h, err := u.take(t.Context(), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			h.handOver()
			return h
		}
		slow, slowClosed := connect()
		silent, silentClosed := connect()
		other, _ := connect()
		answer(silent).give() // it was quick once
		answer(silent)
		answer(silent)
		waits := []*hold{answer(slow), answer(slow)}
		start := time.Now()
		room := make(chan time.Duration, 1)
		go func() {
			defer answer(other).give()
			room <- time.Since(start)
		}()
		for range 2 { // 100 KiB a second
			for range 10 {
				time.Sleep(time.Second)
				slow.wrote(1 << 20 / 10)
			}
			waits[0].give()
			waits = waits[1:]
		}
		if *slowClosed || !*silentClosed {
			t.Errorf("closed: the slow one %v, the silent one %v", *slowClosed, *silentClosed)
		}
		if took := <-room; took > 10*time.Second {
			t.Errorf("room after %v", took)
		}
		synctest.Wait()
		if held := s.answers.Held(); held != 0 || slow.bytes != 0 {
			t.Errorf("%d bytes are still held", held)
		}
	})
}
