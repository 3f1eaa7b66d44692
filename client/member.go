package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// member keeps a Consumer in its group: one Join stream to the coordinator, heartbeats on it, and the hand-over of partitions.
type member struct {
	k       *Consumer
	id      string
	leaving chan struct{} // closed by leave
	left    chan struct{} // closed when run has ended

	// What follows belongs to run.
	epoch    int32
	seen     uint64 // version of the last response acted upon
	interval time.Duration
	heard    time.Time
	endpoint string // of the coordinator; empty: ask any broker
}

// defaultHeartbeat is used until the coordinator says how often it wants to hear from the member.
const defaultHeartbeat = 3 * time.Second

// defaultSession is how long a member without WithSessionTimeout waits for the coordinator before it counts its partitions as lost.
const defaultSession = 45 * time.Second

func newMember(k *Consumer) *member {
	return &member{k: k, id: rand.Text(), leaving: make(chan struct{}), left: make(chan struct{}), interval: defaultHeartbeat, heard: time.Now()}
}

// identity returns the member's id and epoch as commits need them.
func (m *member) identity() (string, int32) {
	m.k.mu.Lock()
	defer m.k.mu.Unlock()
	return m.id, m.epoch
}

func (m *member) setEpoch(epoch int32) {
	m.k.mu.Lock()
	defer m.k.mu.Unlock()
	m.epoch = epoch
	close(m.k.epochChanged)
	m.k.epochChanged = make(chan struct{})
}

// leave tells the group good-bye and waits, at most a dial timeout.
func (m *member) leave() {
	close(m.leaving)
	select {
	case <-m.left:
	case <-time.After(m.k.c.cfg.dialTimeout):
	}
}

// run joins, and joins again after every broken stream, until leave.
func (m *member) run() {
	defer close(m.left)
	failures := 0
	for m.k.ctx.Err() == nil {
		joined, err := m.session()
		if err == nil {
			return // left
		}
		if joined {
			failures = 0
		}
		if !m.recover(err) {
			return
		}
		failures++
		select {
		case <-time.After(m.k.c.producer.backoff(failures)):
		case <-m.leaving:
			return
		case <-m.k.ctx.Done():
			return
		}
	}
}

// recover decides what a broken membership means; false ends the consumer.
func (m *member) recover(err error) bool {
	k := m.k
	if k.ctx.Err() != nil {
		return false
	}
	k.c.cfg.log.Info("client: group stream ended", "group", k.cfg.group, "broker", m.endpoint, "error", err)
	m.endpoint = ""
	session := k.cfg.sessionTimeout
	if session == 0 {
		session = defaultSession
	}
	var e *Error
	switch {
	case !errors.As(err, &e):
		if time.Since(m.heard) > session {
			m.lose()
		}
	case e.Code == moldauv1.ErrorCode_ERROR_CODE_NOT_COORDINATOR:
		m.endpoint = e.Endpoint
	case e.Code == moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_MEMBER, e.Code == moldauv1.ErrorCode_ERROR_CODE_FENCED_MEMBER_EPOCH:
		m.lose()
	case !e.Retriable:
		m.lose()
		k.fail(fmt.Errorf("client: group %s: %w", k.cfg.group, err))
		return false
	case time.Since(m.heard) > session:
		m.lose()
	}
	return true
}

// lose drops every partition: the group has given this member up.
func (m *member) lose() {
	m.setEpoch(0)
	m.seen = 0
	lost := m.k.dropAll()
	if len(lost) == 0 {
		return
	}
	switch {
	case m.k.cfg.onLost != nil:
		m.k.cfg.onLost(m.k.ctx, lost)
	case m.k.cfg.onRevoked != nil:
		m.k.cfg.onRevoked(m.k.ctx, lost)
	}
}

// session is one life of the stream. It returns nil after leaving.
func (m *member) session() (joined bool, err error) {
	ctx, cancel := context.WithCancel(m.k.ctx)
	m.seen = 0 // the first answer is always acted on: what the last stream brought may have been cut short
	stream, err := m.open(ctx)
	if err != nil {
		cancel()
		return false, err
	}
	got := make(chan *moldauv1.JoinResponse)
	ended := make(chan error, 1)
	m.k.wg.Go(func() { ended <- receiveJoins(ctx, stream, got) })
	applied := make(chan struct{}, 1)
	busy := false
	var next *moldauv1.JoinResponse // to be applied after the present one
	defer func() {
		cancel()
		if busy {
			<-applied
		}
	}()
	if err := stream.Send(m.full()); err != nil {
		return false, <-ended
	}
	beat := time.NewTimer(m.interval)
	defer beat.Stop()
	for {
		select {
		case resp := <-got:
			joined = true
			m.take(resp)
			// What was acted on already comes again with every list of owned partitions.
			if resp.GetAssignment() != nil && resp.GetVersion() != m.seen {
				next = resp
			}
		case <-applied:
			busy = false
			if err := stream.Send(m.beat(true)); err != nil {
				return joined, <-ended
			}
		case <-beat.C:
			if err := stream.Send(m.beat(false)); err != nil {
				return joined, <-ended
			}
			beat.Reset(m.interval)
		case err := <-ended:
			return joined, err
		case <-m.leaving:
			bye := m.beat(true)
			bye.Leave = true
			if stream.Send(bye) == nil && stream.CloseSend() == nil {
				waitFor(ended, got, m.k.c.cfg.dialTimeout/2)
			}
			return joined, nil
		}
		if next != nil && !busy {
			busy = true
			resp := next
			next = nil
			m.seen = resp.GetVersion()
			m.k.wg.Go(func() {
				m.k.reassign(ctx, resp.GetAssignment())
				applied <- struct{}{}
			})
		}
	}
}

// waitFor waits for the end of a stream whose responses matter no more, at most d.
func waitFor(ended <-chan error, got <-chan *moldauv1.JoinResponse, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-got:
		case <-ended:
			return
		case <-timer.C:
			return
		}
	}
}

// receiveJoins hands responses over until the stream ends.
func receiveJoins(ctx context.Context, stream grpc.BidiStreamingClient[moldauv1.JoinRequest, moldauv1.JoinResponse], got chan<- *moldauv1.JoinResponse) error {
	for {
		resp, err := stream.Recv()
		if err != nil {
			return fromStatus(err)
		}
		select {
		case got <- resp:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open connects to the coordinator, or to any broker, which will name it.
func (m *member) open(ctx context.Context) (grpc.BidiStreamingClient[moldauv1.JoinRequest, moldauv1.JoinResponse], error) {
	c := m.k.c
	if m.endpoint == "" {
		endpoint, err := c.anyEndpoint(ctx)
		if err != nil {
			return nil, err
		}
		m.endpoint = endpoint
	}
	cc, err := c.conns.get(m.endpoint)
	if err != nil {
		return nil, err
	}
	if err := c.conns.await(ctx, cc); err != nil {
		return nil, err
	}
	stream, err := moldauv1.NewGroupServiceClient(cc).Join(ctx)
	return stream, fromStatus(err)
}

// take notes what a response says of the member.
func (m *member) take(resp *moldauv1.JoinResponse) {
	m.heard = time.Now()
	if ms := resp.GetHeartbeatIntervalMs(); ms > 0 {
		m.interval = time.Duration(ms) * time.Millisecond
	}
	m.setEpoch(resp.GetMemberEpoch())
	m.k.mu.Lock()
	defer m.k.mu.Unlock()
	if id := resp.GetMemberId(); id != "" {
		m.id = id
	}
}

// full is the first message of a stream.
func (m *member) full() *moldauv1.JoinRequest {
	cfg := &m.k.cfg
	req := m.beat(true)
	req.Group, req.MemberId, req.InstanceId = cfg.group, m.id, cfg.instanceID
	req.ClientId, req.Rack, req.Topics, req.Assignor = m.k.c.cfg.clientID, cfg.rack, cfg.topics, cfg.assignor
	req.SessionTimeoutMs = int32(cfg.sessionTimeout.Milliseconds())
	req.RebalanceTimeoutMs = int32(cfg.rebalanceTimeout.Milliseconds())
	return req
}

// beat is a heartbeat, with what is owned if that may have changed.
func (m *member) beat(owned bool) *moldauv1.JoinRequest { //nolint:revive // two kinds of one message
	_, epoch := m.identity()
	req := &moldauv1.JoinRequest{MemberEpoch: epoch, Seen: m.seen}
	if owned {
		req.Owned = &moldauv1.OwnedPartitions{Partitions: m.k.owned()}
	}
	return req
}
