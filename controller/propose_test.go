package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

func TestCase152_AnswerOfTheControllerIsReadableEverywhere(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	startAll(brokers)
	formed(t, brokers...)
	for i := range 30 {
		a, b := brokers[i%3], brokers[(i+1)%3]
		want := fmt.Sprint(i)
		result := a.setConfig("retention.ms", want)
		if got := a.config("retention.ms"); got != want {
			t.Fatalf("broker %d answered %s and reads %q", a.cfg.Broker, want, got)
		}
		if err := b.c.WaitApplied(withPatience(t), result.Index); err != nil {
			t.Fatal(err)
		}
		if got := b.config("retention.ms"); got != want {
			t.Fatalf("broker %d waited for %d and reads %q", b.cfg.Broker, result.Index, got)
		}
	}
}

func TestProposerTakesControlFirst(t *testing.T) {
	t.Parallel()
	p := &proposer{
		control: make(chan *proposal, controlQueue), rest: make(chan *proposal, groupQueue),
		groupSlots: make(chan struct{}, groupOutstanding), stop: make(chan struct{}),
	}
	for range groupQueue {
		p.rest <- &proposal{group: true}
	}
	for range 3 {
		p.control <- &proposal{}
	}
	for i := range 3 {
		if p.next().group {
			t.Fatalf("proposal %d is a group batch", i)
		}
	}
	for i := range groupOutstanding {
		if !p.next().group {
			t.Fatalf("proposal %d is no group batch", i)
		}
	}
	p.control <- &proposal{} // every slot is taken: only this one can go
	if p.next().group {
		t.Error("more group batches are outstanding than allowed")
	}
	for len(p.rest) < groupQueue {
		p.rest <- &proposal{group: true}
	}
	var refusal *cluster.Error
	if out := p.submit(context.Background(), nil, true); !errors.As(out.err, &refusal) || refusal.Code != cluster.CodeOverloaded || out.done {
		t.Errorf("a full queue answers %+v", out)
	}
}

func TestProposalWithoutAControllerIsNotDone(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	startAll(brokers)
	formed(t, brokers...)
	leader := leaderOf(t, brokers...)
	rest := others(brokers, leader)
	leader.stop()
	rest[0].stop()
	alone := rest[1]
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := alone.c.Propose(ctx, cluster.AlterConfigs{})
	var refusal *cluster.Error
	if !errors.As(err, &refusal) || (refusal.Code != cluster.CodeNoController && refusal.Code != cluster.CodeTimedOut) {
		t.Errorf("got %v", err)
	}
}

func TestProposalsDuringFailoverAreAppliedAtMostOnce(t *testing.T) {
	t.Parallel()
	_, brokers := testCluster(t, 3)
	startAll(brokers)
	formed(t, brokers...)
	leader := leaderOf(t, brokers...)
	proposer := others(brokers, leader)[0]
	seen := make(chan int, 1)
	ctx, cancel := context.WithCancel(withPatience(t))
	var acknowledged []uint64
	var working sync.WaitGroup
	working.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			result, err := proposer.c.Propose(ctx, cluster.AlterConfigs{
				Resource: cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}, Ops: []cluster.ConfigOp{{Key: "retention.ms", Value: fmt.Sprint(n)}},
			})
			if err == nil && result.Code == cluster.CodeNone {
				acknowledged = append(acknowledged, result.Index)
			}
			select {
			case seen <- n:
			default:
			}
		}
	})
	<-seen
	leader.stop()
	next := leaderOf(t, others(brokers, leader)...)
	next.setConfig("segment.ms", "1")
	cancel()
	working.Wait()
	for i := 1; i < len(acknowledged); i++ {
		if acknowledged[i] <= acknowledged[i-1] {
			t.Fatalf("index %d acknowledged after %d", acknowledged[i], acknowledged[i-1])
		}
	}
	if len(acknowledged) == 0 {
		t.Error("nothing was acknowledged")
	}
}
