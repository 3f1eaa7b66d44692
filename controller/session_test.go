package controller

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// member is a test broker with a running session.
type member struct {
	*testBroker
	session *Session
	cancel  context.CancelFunc
	ended   sync.WaitGroup
	contact chan time.Duration // latest lease, capacity 1
	again   chan cluster.BrokerEpoch
}

// register registers a started broker and keeps its session.
func (b *testBroker) register() *member {
	b.t.Helper()
	m := &member{testBroker: b, contact: make(chan time.Duration, 1), again: make(chan cluster.BrokerEpoch, 16)}
	registration := b.registration()
	m.session = b.c.NewSession(SessionEvents{
		Contact: func(until time.Duration) {
			select {
			case <-m.contact:
			default:
			}
			m.contact <- until
		},
		Registration: func(previous cluster.BrokerEpoch) cluster.RegisterBroker {
			again := registration
			again.PreviousEpoch = previous
			return again
		},
		Registered: func(epoch cluster.BrokerEpoch) { m.again <- epoch },
	})
	epoch, err := m.session.Register(withPatience(b.t), registration)
	if err != nil {
		b.t.Fatalf("broker %d: %v", b.cfg.Broker, err)
	}
	if got, ok := b.c.Image().Broker(b.cfg.Broker); !ok || got.Epoch != epoch {
		b.t.Fatalf("broker %d: its own image has not the registration %d that was answered", b.cfg.Broker, epoch)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.ended.Go(func() { m.session.Run(ctx) })
	b.t.Cleanup(m.leave)
	return m
}

// leave ends the session without a word.
func (m *member) leave() {
	m.cancel()
	m.ended.Wait()
}

// kill ends session and broker.
func (m *member) kill() {
	m.leave()
	m.stop()
}

// startMembers starts n brokers with sessions and waits until all may work.
func startMembers(t *testing.T, n int) (*testNet, []*member) {
	t.Helper()
	network, brokers := testCluster(t, n)
	startAll(brokers)
	formed(t, brokers...)
	members := make([]*member, n)
	var registering sync.WaitGroup
	for i, b := range brokers {
		registering.Go(func() { members[i] = b.register() })
	}
	registering.Wait()
	for _, m := range members {
		if m == nil {
			t.FailNow()
		}
		m.until("every broker unfenced", func(image *cluster.Image) bool { return working(image) == n })
	}
	return network, members
}

func working(image *cluster.Image) int {
	n := 0
	for b := range image.Brokers() {
		if b.Eligible() {
			n++
		}
	}
	return n
}

func plain(members []*member) []*testBroker {
	var out []*testBroker
	for _, m := range members {
		out = append(out, m.testBroker)
	}
	return out
}

func leadingMember(t *testing.T, members ...*member) *member {
	t.Helper()
	leader := leaderOf(t, plain(members)...)
	for _, m := range members {
		if m.testBroker == leader {
			return m
		}
	}
	return nil
}

func withoutMember(members []*member, but *member) []*member {
	var out []*member
	for _, m := range members {
		if m != but {
			out = append(out, m)
		}
	}
	return out
}

// A broker that hears the controller and not what it decides must not believe in its leaderships for longer than one that hears nothing.
func TestALeaseWaitsForWhatWasDecidedBefore(t *testing.T) {
	t.Parallel()
	_, members := startMembers(t, 1)
	m := members[0]
	m.leave()
	var handled atomic.Uint64
	leases := make(chan time.Duration, 1)
	session := m.c.NewSession(SessionEvents{Handled: handled.Load, Contact: func(until time.Duration) { leases <- until }})
	session.epoch.Store(m.session.epoch.Load())
	if !session.beat(withPatience(t)) {
		t.Fatal("the heartbeat is not answered")
	}
	select {
	case until := <-leases:
		t.Fatalf("a lease until %s for a broker that acts on nothing", until)
	default:
	}
	session.Acted()
	if len(leases) > 0 {
		t.Fatal("a lease though nothing has changed")
	}
	handled.Store(m.c.Applied())
	session.Acted()
	if len(leases) != 1 {
		t.Fatal("no lease when the broker has got so far")
	}
	if until := <-leases; until <= 0 || until > m.c.ports.Now()+m.cfg.ContactLease {
		t.Errorf("a lease until %s", until)
	}
}

func TestSessionsUnfenceAndLeaseContact(t *testing.T) {
	t.Parallel()
	_, members := startMembers(t, 3)
	for _, m := range members {
		select {
		case until := <-m.contact:
			if left := until - m.c.ports.Now(); left <= 0 || left > m.cfg.ContactLease {
				t.Errorf("broker %d: a lease of %v", m.cfg.Broker, left)
			}
		case <-withPatience(t).Done():
			t.Fatalf("broker %d never got a lease", m.cfg.Broker)
		}
	}
}

func TestSilentBrokerIsFencedAndComesBack(t *testing.T) {
	t.Parallel()
	_, members := startMembers(t, 3)
	leader := leadingMember(t, members...)
	silent := withoutMember(members, leader)[0]
	silent.leave()
	start := time.Now()
	leader.until("the silent broker fenced", func(image *cluster.Image) bool {
		b, _ := image.Broker(silent.cfg.Broker)
		return b.Fenced
	})
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("fenced after %v", took)
	}
	back := silent.register()
	leader.until("the broker back", func(image *cluster.Image) bool { return working(image) == 3 })
	if back.session.Epoch() <= silent.session.Epoch() {
		t.Errorf("epoch %d after %d", back.session.Epoch(), silent.session.Epoch())
	}
}

func TestKilledControllerIsReplacedAndFenced(t *testing.T) {
	t.Parallel()
	_, members := startMembers(t, 3)
	leader := leadingMember(t, members...)
	rest := withoutMember(members, leader)
	leader.kill()
	start := time.Now()
	for _, m := range rest {
		m.until("the dead controller fenced", func(image *cluster.Image) bool {
			b, _ := image.Broker(leader.cfg.Broker)
			return b.Fenced
		})
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("fenced after %v", took)
	}
	if n := working(rest[0].c.Image()); n != 2 {
		t.Errorf("%d brokers work, want the two that live", n)
	}
}

func TestDrainEndsAndLeadershipIsHandedOver(t *testing.T) {
	t.Parallel()
	_, members := startMembers(t, 3)
	leader := leadingMember(t, members...)
	rest := withoutMember(members, leader)
	if err := leader.session.Drain(withPatience(t)); err != nil {
		t.Fatal(err)
	}
	if b, _ := leader.c.Image().Broker(leader.cfg.Broker); !b.Draining {
		t.Error("it may shut down but does not drain")
	}
	start := time.Now()
	if err := leader.c.TransferLeadership(withPatience(t)); err != nil {
		t.Fatal(err)
	}
	next := leaderOf(t, plain(rest)...)
	next.setConfig("retention.ms", "1")
	if took := time.Since(start); took > time.Second {
		t.Errorf("the hand-over took %v", took)
	}
}

func TestCase43_SecondBrokerOfOneIDIsRefused(t *testing.T) {
	t.Parallel()
	network, members := startMembers(t, 3)
	live := members[1]
	twin := newTestBroker(t, network, live.cfg.Broker)
	twin.cfg.Address = "twin:9093"
	twin.cfg.Seeds, twin.cfg.BootstrapExpect = live.cfg.Seeds, 3
	twin.start()
	var refusal *RefusedError
	if err := twin.failure(); !errors.As(err, &refusal) {
		t.Fatalf("the twin: %v", err)
	}
	// A registration that comes to the controller all the same is refused there.
	leader := leadingMember(t, members...)
	registration := twin.registration()
	result, err := leader.c.Propose(withPatience(t), registration)
	if err != nil || result.Code != cluster.CodeDuplicateBroker {
		t.Errorf("%+v, %v", result, err)
	}
	if b, _ := leader.c.Image().Broker(live.cfg.Broker); b.Directory != live.cfg.Directory || b.Fenced {
		t.Errorf("the live broker became %+v", b)
	}
}

func TestCase40_WipedBrokerJoinsAsANewServer(t *testing.T) {
	t.Parallel()
	_, members := startMembers(t, 3)
	leader := leadingMember(t, members...)
	wiped := withoutMember(members, leader)[0]
	old := wiped.c.server
	wiped.kill()
	wiped.wipe()
	wiped.start()
	formed(t, wiped.testBroker)
	back := wiped.register()
	leader.until("the wiped broker unfenced with its new directory", func(image *cluster.Image) bool {
		b, ok := image.Broker(back.cfg.Broker)
		return ok && b.Directory == back.cfg.Directory && !b.Fenced
	})
	if s := leader.c.Stats(); s.VotersWanted != 3 {
		t.Errorf("a cluster of three wants %d voters", s.VotersWanted)
	}
	waitVoters(t, leader.testBroker, 3) // it is promoted again once it is stable
	configuration, err := leader.c.node.Load().configuration()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range configuration.Servers {
		if s.ID == old {
			t.Errorf("the old server %s is still there", old)
		}
	}
}

// waitVoters watches Raft's configuration until it has n voters.
func waitVoters(t *testing.T, leader *testBroker, n int) {
	t.Helper()
	ctx := withPatience(t)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		configuration, err := leader.c.node.Load().configuration()
		if err == nil && voters(configuration) == n {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never %d voters: %+v (%v)", n, configuration, err)
		}
	}
}

func TestVotersFollowTheNumberOfBrokers(t *testing.T) {
	t.Parallel()
	network, members := startMembers(t, 1)
	first := members[0]
	for id := cluster.BrokerID(1); id < 3; id++ {
		b := newTestBroker(t, network, id)
		b.cfg.Seeds, b.cfg.BootstrapExpect = []string{first.cfg.Address}, 1
		b.start()
		formed(t, b)
		members = append(members, b.register())
		if id == 1 {
			configuration, err := first.c.node.Load().configuration()
			if err != nil || voters(configuration) != 1 {
				t.Errorf("%+v, %v: two brokers have one voter", configuration, err)
			}
		}
	}
	for _, m := range members {
		waitVoters(t, m.testBroker, 3) // before that, the first one and the second are needed
	}
	first.kill() // the other two go on
	members[1].setConfig("retention.ms", "1")
}

func TestUnknownRegistrationIsMadeAgain(t *testing.T) {
	t.Parallel()
	_, members := startMembers(t, 3)
	m := members[2]
	before := m.session.Epoch()
	result := m.propose(m.registration()) // as a second process of this broker would
	select {
	case epoch := <-m.again:
		if epoch <= result.BrokerEpoch || result.BrokerEpoch <= before {
			t.Errorf("epochs %d, %d, %d do not rise", before, result.BrokerEpoch, epoch)
		}
	case <-withPatience(t).Done():
		t.Fatal("it never registered again")
	}
}

func TestUnregisteredBrokerLeavesRaft(t *testing.T) {
	t.Parallel()
	network, members := startMembers(t, 3)
	leader := leadingMember(t, members...)
	extra := newTestBroker(t, network, 9)
	extra.cfg.Seeds, extra.cfg.BootstrapExpect = leader.cfg.Seeds, 3
	extra.start()
	formed(t, extra)
	gone := extra.register()
	leader.until("the fourth broker at work", func(image *cluster.Image) bool { return working(image) == 4 })
	_, err := leader.c.Propose(withPatience(t), cluster.UnregisterBroker{Broker: 9})
	var refusal *cluster.Error
	if !errors.As(err, &refusal) || refusal.Code != cluster.CodeInvalidRequest {
		t.Errorf("a running broker was removed: %v", err)
	}
	id := gone.c.server
	gone.kill()
	leader.until("the broker fenced", func(image *cluster.Image) bool { b, _ := image.Broker(9); return b.Fenced })
	leader.propose(cluster.UnregisterBroker{Broker: 9})
	configuration, err := leader.c.node.Load().configuration()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range configuration.Servers {
		if s.ID == id {
			t.Errorf("server %s is still there", raft.ServerID(id))
		}
	}
}

func TestCase50_IsolatedControllerStepsDown(t *testing.T) {
	t.Parallel()
	network, members := startMembers(t, 3)
	old := leadingMember(t, members...)
	rest := withoutMember(members, old)
	network.isolate(old.cfg.Address)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := old.c.Propose(ctx, cluster.AlterConfigs{
		Resource: cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}, Ops: []cluster.ConfigOp{{Key: "retention.ms", Value: "lost"}},
	})
	var refusal *cluster.Error
	if !errors.As(err, &refusal) {
		t.Errorf("the isolated controller answered %v", err)
	}
	if response, err := old.c.Serve(withPatience(t), HeartbeatRequest{Broker: rest[0].cfg.Broker, Epoch: rest[0].session.Epoch()}); err == nil {
		if _, ok := response.(HeartbeatResponse); ok {
			t.Error("the isolated controller answers heartbeats")
		}
	}
	leadingMember(t, rest...).setConfig("segment.ms", "kept")
	network.heal(old.cfg.Address)
	old.until("what the others decided", func(image *cluster.Image) bool { return old.config("segment.ms") == "kept" && working(image) == 3 })
	for _, m := range members { // what it had not got committed is nowhere
		if got := m.config("retention.ms"); got != "" {
			t.Errorf("broker %d has retention.ms %q", m.cfg.Broker, got)
		}
	}
}

func TestCase130_BrokersFindEachOtherAfterAllHaveMoved(t *testing.T) {
	t.Parallel()
	_, members := startMembers(t, 3)
	id := members[0].c.Image().ClusterID()
	members[0].setConfig("retention.ms", "kept")
	var moved []string
	for _, m := range members {
		m.kill()
		moved = append(moved, "moved-"+m.cfg.Address)
	}
	for i, m := range members {
		m.cfg.Address, m.cfg.Seeds, m.cfg.Cluster = moved[i], moved, id
		m.start()
	}
	formed(t, plain(members)...)
	for _, m := range members {
		back := m.register()
		back.until("everybody at the new address", func(image *cluster.Image) bool {
			b, ok := image.Broker(back.cfg.Broker)
			return ok && b.PeerAddress == back.cfg.Address && !b.Fenced
		})
		back.until("the change made before", func(*cluster.Image) bool { return back.config("retention.ms") == "kept" })
	}
	members[2].setConfig("segment.ms", "new")
}

// Brokers of an older version stop at a field that they do not know.
func TestCase125_NothingAboveTheLevelIsRegistered(t *testing.T) {
	c := cluster.RegisterBroker{PreviousEpoch: 3, LogsTold: true, Logs: []cluster.ReplicaLog{{Log: cluster.LogPosition{LogEnd: 5}}}}
	if got := atLevel(cluster.LevelLogs, c); !got.LogsTold || len(got.Logs) != 1 {
		t.Errorf("at its level: %+v", got)
	}
	if got := atLevel(cluster.LevelFirst, c); got.LogsTold || got.Logs != nil || got.PreviousEpoch != 3 {
		t.Errorf("below it: %+v", got)
	}
}
