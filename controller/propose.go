package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// Bounds of proposals.
const (
	controlQueue     = 1024             // control commands waiting for Raft; beyond it they are refused as overloaded
	groupQueue       = 256              // group batches waiting for Raft; beyond it they are refused as overloaded
	outstandingMax   = 1024             // proposals given to Raft and not yet applied
	groupOutstanding = 4                // group batches among them, so that a control command never has many in front of it
	enqueueTimeout   = 5 * time.Second  // waiting for Raft to accept an entry
	proposeTimeout   = 15 * time.Second // a proposal whose context has no deadline
	proposeAttempts  = 200              // tries to find a leader that takes a proposal
	proposePause     = 50 * time.Millisecond
)

// outcome is what became of one try of a proposal.
type outcome struct {
	result cluster.Result
	err    error
	// done says that the command may have been, or may still be, applied. A try that is certainly not done can be repeated.
	done bool
}

// kind is the outcome's label.
func (o outcome) kind() string {
	switch {
	case o.err == nil && o.result.Code == cluster.CodeNone:
		return "applied"
	case o.err == nil:
		return "refused"
	case o.done:
		return "unknown"
	}
	return "not_done"
}

// proposal is one encoded command on its way through the local Raft node.
type proposal struct {
	entry  []byte
	group  bool
	answer chan outcome // capacity 1
	future raft.ApplyFuture
}

// proposer puts commands into the local Raft node: control commands before group batches, whatever has waited longer.
type proposer struct {
	raft          *raft.Raft
	control, rest chan *proposal
	outstanding   chan *proposal // given to Raft, in its order
	groupSlots    chan struct{}
	stop          chan struct{}
	once          sync.Once // of halt
	running       sync.WaitGroup
}

func newProposer(node *raft.Raft) *proposer {
	p := &proposer{
		raft:        node,
		control:     make(chan *proposal, controlQueue),
		rest:        make(chan *proposal, groupQueue),
		outstanding: make(chan *proposal, outstandingMax),
		groupSlots:  make(chan struct{}, groupOutstanding),
		stop:        make(chan struct{}),
	}
	p.running.Go(p.feed)
	p.running.Go(p.complete)
	return p
}

// submit queues a command and waits for its outcome or for ctx.
func (p *proposer) submit(ctx context.Context, entry []byte, group bool) outcome {
	pr, ok := p.enqueue(entry, group)
	if !ok {
		return outcome{err: cluster.Refuse(cluster.CodeOverloaded, "the controller has too many proposals waiting; try again")}
	}
	return p.wait(ctx, pr)
}

// enqueue queues a command; false means that its queue is full.
func (p *proposer) enqueue(entry []byte, group bool) (*proposal, bool) {
	q := p.control
	if group {
		q = p.rest
	}
	pr := &proposal{entry: entry, group: group, answer: make(chan outcome, 1)}
	select {
	case q <- pr:
		return pr, true
	default:
		return nil, false
	}
}

// wait waits for the outcome of a queued command or for ctx.
func (p *proposer) wait(ctx context.Context, pr *proposal) outcome {
	select {
	case out := <-pr.answer:
		return out
	case <-ctx.Done():
		return outcome{err: unknownOutcome(ctx.Err()), done: true}
	case <-p.stop:
		return outcome{err: unknownOutcome(ErrClosed), done: true}
	}
}

// feed gives queued commands to Raft.
func (p *proposer) feed() {
	defer close(p.outstanding)
	for {
		pr := p.next()
		if pr == nil {
			return
		}
		pr.future = p.raft.Apply(pr.entry, enqueueTimeout)
		p.outstanding <- pr // complete always drains it
	}
}

// next takes a control command if there is one, else a group batch if one may go; nil at the end.
func (p *proposer) next() *proposal {
	select {
	case <-p.stop:
		return nil
	case pr := <-p.control:
		return pr
	default:
	}
	select {
	case <-p.stop:
		return nil
	case pr := <-p.control:
		return pr
	case p.groupSlots <- struct{}{}: // a slot is free: now either kind may come first
	}
	select {
	case <-p.stop:
		return nil
	case pr := <-p.control:
		<-p.groupSlots
		return pr
	default:
	}
	select {
	case <-p.stop:
		return nil
	case pr := <-p.control:
		<-p.groupSlots
		return pr
	case pr := <-p.rest:
		return pr
	}
}

// complete answers proposals in the order in which Raft applies them.
func (p *proposer) complete() {
	for pr := range p.outstanding {
		err := p.await(pr.future)
		if pr.group {
			<-p.groupSlots
		}
		pr.answer <- settle(pr.future, err)
	}
}

// await waits for a future of Raft's, which Raft may leave without an answer when it stops.
func (p *proposer) await(future raft.ApplyFuture) error {
	done := make(chan error, 1)
	go func() { done <- future.Error() }()
	select {
	case err := <-done:
		return err
	case <-p.stop:
		return ErrClosed
	}
}

// settle tells apart what Raft certainly did not take from what it may have replicated.
func settle(future raft.ApplyFuture, err error) outcome {
	switch {
	case err == nil:
		result, ok := future.Response().(cluster.Result)
		if !ok {
			return outcome{err: unknownOutcome(fmt.Errorf("%v", future.Response())), done: true}
		}
		return outcome{result: result, done: true}
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return outcome{err: cluster.Refuse(cluster.CodeNotController, "this broker is not the controller")}
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return outcome{err: cluster.Refuse(cluster.CodeOverloaded, "the controller did not take the proposal in time; try again")}
	}
	return outcome{err: unknownOutcome(err), done: true}
}

// unknownOutcome says that a command may or may not have been done.
func unknownOutcome(err error) *cluster.Error {
	return cluster.Refuse(cluster.CodeTimedOut, fmt.Sprintf("the outcome of the change is unknown (%v): look before trying again", err))
}

// halt lets go of everybody who waits. What was given to Raft, or not, has an unknown outcome.
func (p *proposer) halt() { p.once.Do(func() { close(p.stop) }) }

// close is halt, and waits for the goroutines.
func (p *proposer) close() {
	p.halt()
	p.running.Wait()
}

// Propose has a command applied to the metadata, through the controller wherever it is, and returns once this broker has applied it too, so that what it
// answers next is not older. A refusal by the metadata is a Result whose Code says so. An error is a *cluster.Error: CodeTimedOut when the outcome is
// unknown, else the command was certainly not done (CodeNoController, CodeOverloaded, CodeShuttingDown, CodeInvalidRequest). Without a deadline in ctx it takes
// at most 15 s.
func (c *Controller) Propose(ctx context.Context, cmd cluster.Command) (cluster.Result, error) {
	result, err := c.propose(ctx, cmd)
	if err != nil {
		return result, err
	}
	if err := c.board.wait(ctx, result.Index); err != nil {
		return result, unknownOutcome(fmt.Errorf("done, but not yet seen by this broker: %w", err))
	}
	return result, nil
}

// ProposeGroups is Propose for the batches of coordinator shards. Every other command overtakes it, and it does not wait for this broker to apply it: the result
// says all that a coordinator needs, and a follower learns of a commit some milliseconds later (WaitApplied).
func (c *Controller) ProposeGroups(ctx context.Context, cmd cluster.GroupAppend) (cluster.Result, error) {
	return c.propose(ctx, cmd)
}

// propose has a command applied at the leader.
func (c *Controller) propose(ctx context.Context, cmd cluster.Command) (cluster.Result, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, proposeTimeout)
		defer cancel()
	}
	encoded, err := encodeCommand(cmd)
	if err != nil {
		return cluster.Result{}, cluster.Refuse(cluster.CodeInvalidRequest, err.Error())
	}
	out := c.proposeAnywhere(ctx, cmd, encoded)
	c.proposals.With(out.kind()).Inc()
	if out.err != nil {
		return cluster.Result{}, out.err
	}
	return out.result, nil
}

// proposeAnywhere tries the controller of the moment until the command may have been done.
func (c *Controller) proposeAnywhere(ctx context.Context, cmd cluster.Command, encoded []byte) outcome {
	last := outcome{err: cluster.Refuse(cluster.CodeNoController, "no controller is known; try again")}
	for range proposeAttempts {
		changed := c.leaderChanged()
		out, tried := c.proposeOnce(ctx, cmd, encoded)
		if tried {
			last = out
			if out.done || !retriable(out.err) {
				return out
			}
		}
		if !c.pause(ctx, changed, proposePause) {
			break
		}
	}
	return last
}

// retriable says that another try may meet a controller that takes the command.
func retriable(err error) bool {
	var refusal *cluster.Error
	if !errors.As(err, &refusal) {
		return false
	}
	return refusal.Code == cluster.CodeNotController || refusal.Code == cluster.CodeNoController
}

// proposeOnce tries the present leader; tried is false when none is known.
func (c *Controller) proposeOnce(ctx context.Context, cmd cluster.Command, encoded []byte) (outcome, bool) {
	if c.IsLeader() {
		return c.proposeHere(ctx, cmd, encoded), true
	}
	to, ok := c.leaderEndpoint()
	if !ok {
		return outcome{}, false
	}
	response, err := c.ports.Calls.Call(ctx, to, ProposeRequest{Command: encoded})
	switch r := response.(type) {
	case nil:
	case ProposeResponse:
		if r.Result.Code == cluster.CodeTimedOut && r.Result.Index == 0 {
			return outcome{err: cluster.Refuse(r.Result.Code, r.Result.Message), done: true}, true
		}
		if r.Result.Index == 0 && r.Result.Code != cluster.CodeNone { // refused before it was an entry
			return outcome{err: cluster.Refuse(r.Result.Code, r.Result.Message)}, true
		}
		return outcome{result: r.Result, done: true}, true
	case Redirect:
		c.hint(r)
		return outcome{err: cluster.Refuse(cluster.CodeNoController, "no controller is known; try again")}, true
	default:
		return outcome{err: unknownOutcome(fmt.Errorf("unexpected answer %T", r)), done: true}, true
	}
	if notSent(err) {
		return outcome{err: cluster.Refuse(cluster.CodeNoController, "the controller cannot be reached; try again")}, true
	}
	return outcome{err: unknownOutcome(err), done: true}, true
}

// notSent says that a call certainly did not reach a controller that would act on it.
func notSent(err error) bool {
	var refusal *cluster.Error
	return errors.Is(err, ErrNotSent) || errors.Is(err, syscall.ECONNREFUSED) ||
		errors.As(err, &refusal) && refusal.Code == cluster.CodeWrongCluster // it does not know its cluster yet
}

// pause waits for a change of leader or for d; it is false when ctx or the Controller ended.
func (c *Controller) pause(ctx context.Context, changed <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
		return ctx.Err() == nil
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	return false
}
