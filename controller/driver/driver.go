package driver

import (
	"math"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// Config holds the driver's times and bounds.
type Config struct {
	// Session is how long a broker may be silent. It must be longer than the lease that brokers take from an answered heartbeat.
	Session time.Duration
	// MissedBeat is how long a broker must be silent before a refusing peer port counts as its death.
	MissedBeat time.Duration
	// RefusalGap is how far apart two refused connections must be to count.
	RefusalGap time.Duration
	// RetryDelay is how long a refused or failed proposal waits before it is made again.
	RetryDelay time.Duration
	// AwaitReturn is how long a partition whose complete replicas that are alive have all restarted waits for the others: one of them may have records that those here
	// have lost with their disks. After that the longest log here leads.
	AwaitReturn time.Duration
	// Settle is how long no broker must have come or gone before leaders and shards are balanced; BalanceEvery is the time between two rounds.
	Settle, BalanceEvery time.Duration
	// Gather is how long no broker must have come or gone before a shard gets its first coordinator. The brokers of a new cluster register one after the
	// other; the first would coordinate everything, and hand most of it over once Settle has passed.
	Gather time.Duration
	// LeaderMoves and ShardMoves bound one round; Batch bounds the partitions of one command.
	LeaderMoves, ShardMoves, Batch int
}

// DefaultConfig is for brokers that send a heartbeat every 250 ms and take a lease of 1 s.
func DefaultConfig() Config {
	return Config{
		Session:      1500 * time.Millisecond,
		MissedBeat:   375 * time.Millisecond,
		RefusalGap:   100 * time.Millisecond,
		RetryDelay:   250 * time.Millisecond,
		AwaitReturn:  10 * time.Second,
		Settle:       5 * time.Second,
		BalanceEvery: 2 * time.Second,
		Gather:       250 * time.Millisecond,
		LeaderMoves:  100,
		ShardMoves:   16,
		Batch:        1000,
	}
}

// NoDeadline says that no Tick is needed.
const NoDeadline time.Duration = math.MaxInt64

// Input is one of the inputs of this file.
type Input interface{ input() }

// BecameLeader begins the leadership, with everything before it applied.
type BecameLeader struct{ Image *cluster.Image }

// LostLeadership ends it. Proposals that are outstanding are forgotten.
type LostLeadership struct{}

// ImageChanged brings the newest metadata. Images in between may be left out.
type ImageChanged struct{ Image *cluster.Image }

// Heartbeat is a sign of life of a broker.
type Heartbeat struct {
	Broker  cluster.BrokerID
	Epoch   cluster.BrokerEpoch
	Applied uint64 // index that the broker has applied
	// WantDrain asks for an orderly shutdown.
	WantDrain bool
	// Offline lists partitions whose local log failed since the last answered heartbeat.
	Offline []cluster.TopicPartition
	// Online lists partitions whose local replica was begun anew since it was reported offline, and works, or is gone. None is in Offline.
	Online []cluster.TopicPartition
	// Refusing lists brokers whose peer port refused the sender's connections twice, at least RefusalGap apart.
	Refusing []cluster.BrokerID
}

// PeerRefused says that a broker's peer port refused a connection of the controller itself.
type PeerRefused struct{ Broker cluster.BrokerID }

// ProposalDone ends a proposal. Failed means that it is not known to be applied; then Result says nothing.
type ProposalDone struct {
	ID     uint64
	Result cluster.Result
	Failed bool
}

// Tick says that time has passed. It is wanted at Effects.Deadline, and harmless at any time.
type Tick struct{}

func (BecameLeader) input()   {}
func (LostLeadership) input() {}
func (ImageChanged) input()   {}
func (Heartbeat) input()      {}
func (PeerRefused) input()    {}
func (ProposalDone) input()   {}
func (Tick) input()           {}

// Effects is what the owner of the driver is to do after a step.
type Effects struct {
	Propose []Proposal
	// Reply answers the heartbeat that was the input, and is nil after every other input, and without leadership.
	Reply *HeartbeatReply
	// Deadline is when the next Tick is wanted, on the clock of now.
	Deadline time.Duration
}

// Proposal is a command to propose under an id that is never used again.
type Proposal struct {
	ID      uint64
	Command cluster.Command
}

// HeartbeatReply answers a heartbeat.
type HeartbeatReply struct {
	// Code is CodeNone, or CodeStaleBrokerEpoch or CodeUnknownBroker: then the broker must register again.
	Code cluster.Code
	// Fenced says that the broker is fenced, or about to be. It may take no lease from this reply.
	Fenced bool
	// MayShutDown says that a broker that wanted to stop leads nothing any more, and knows it.
	MayShutDown bool
}

// Driver is the machine. It belongs to one goroutine.
type Driver struct {
	cfg     Config
	img     *cluster.Image // nil without leadership
	nextID  uint64
	brokers map[cluster.BrokerID]*session
	// outstanding proposals by id, and who waits for which.
	outstanding map[uint64]*outstanding
	busy        map[cluster.TopicPartition]bool
	shardsBusy  bool
	orphanedAt  [cluster.ShardCount]uint64 // index of the image that showed a shard without coordinator, 0 while it has one
	// todo are the partitions that may need something; retry those that were refused, with the time of the next attempt.
	todo       map[cluster.TopicPartition]bool
	lookAtAll  bool // every partition may: a broker came or went
	retry      map[cluster.TopicPartition]time.Duration
	retryShard time.Duration
	// offline are the replicas whose log failed in the present life of their broker.
	offline map[replica]cluster.BrokerEpoch
	// opened are the replicas that have said in the present life of their broker that they work, after they had not.
	opened map[replica]bool
	// awaiting is, of partitions that wait for complete replicas to return, until when.
	awaiting map[cluster.TopicPartition]time.Duration
	// excluded is, of partitions that such replicas were taken out of, until when that is not done again.
	excluded map[cluster.TopicPartition]time.Duration
	// unsettled is when a broker last came or went, nextBalance when the next round of balancing may be.
	unsettled, nextBalance time.Duration
	unbalanced             bool
	gathering              bool          // a shard waits for its first coordinator
	stepped                time.Duration // the time of the last step
	effects                Effects
}

type replica struct {
	tp     cluster.TopicPartition
	broker cluster.BrokerID
}

// New makes a driver that does not lead.
func New(cfg Config) *Driver { return &Driver{cfg: cfg} }

// Step takes one input at the time now, which never goes back.
func (d *Driver) Step(now time.Duration, in Input) Effects {
	d.effects = Effects{Deadline: NoDeadline}
	if in, ok := in.(BecameLeader); ok {
		d.begin(now, in.Image)
	}
	if d.img == nil {
		return d.effects
	}
	d.wakeUp(now)
	switch in := in.(type) {
	case LostLeadership:
		d.img = nil
		return d.effects
	case ImageChanged:
		d.follow(now, in.Image)
	case Heartbeat:
		d.heartbeat(now, in)
	case PeerRefused:
		d.peerRefused(now, in.Broker)
	case ProposalDone:
		d.done(now, in)
	}
	d.watchSessions(now)
	d.watchPartitions(now)
	d.watchBalance(now)
	d.effects.Deadline = d.deadline(now)
	return d.effects
}

// begin starts a leadership from nothing but the image.
func (d *Driver) begin(now time.Duration, img *cluster.Image) {
	*d = Driver{cfg: d.cfg, nextID: d.nextID, img: img,
		brokers: map[cluster.BrokerID]*session{}, outstanding: map[uint64]*outstanding{}, busy: map[cluster.TopicPartition]bool{},
		todo: map[cluster.TopicPartition]bool{}, retry: map[cluster.TopicPartition]time.Duration{}, offline: map[replica]cluster.BrokerEpoch{}, opened: map[replica]bool{},
		excluded: map[cluster.TopicPartition]time.Duration{}, awaiting: map[cluster.TopicPartition]time.Duration{},
		lookAtAll: true, stepped: now, unsettled: now, unbalanced: true, effects: d.effects}
	for b := range img.Brokers() {
		d.brokers[b.ID] = &session{epoch: b.Epoch, heard: now}
		d.brokers[b.ID].see(b, img.Index())
	}
	d.seeShards()
}

// wakeUp renews all sessions when the driver itself was not stepped for so long that it cannot know who is silent: a process that was
// suspended, or a clock that jumped, must not fence a whole cluster.
func (d *Driver) wakeUp(now time.Duration) {
	if now-d.stepped > 2*d.cfg.Session {
		for _, id := range sortedKeys(d.brokers) {
			d.brokers[id].heard = now
		}
	}
	d.stepped = now
}

// follow takes over a newer image.
func (d *Driver) follow(now time.Duration, img *cluster.Image) {
	delta := cluster.Diff(d.img, img)
	d.img = img
	moved := false
	for c := range delta.Brokers() {
		d.brokerChanged(now, c)
		moved = moved || eligible(c.Old) != eligible(c.New) || epochOf(c.Old) != epochOf(c.New)
	}
	if moved {
		d.unsettled = now
		d.lookAtAll = true
	}
	for c := range delta.Partitions() {
		d.todo[c.Key] = true
	}
	d.unbalanced = d.unbalanced || moved || !isEmpty(delta.Partitions()) || !isEmpty(delta.Shards()) || !isEmpty(delta.Configs())
	d.seeShards()
	d.release()
}

// deadline is the earliest time at which something is to be looked at.
func (d *Driver) deadline(now time.Duration) time.Duration {
	next := NoDeadline
	for _, id := range sortedKeys(d.brokers) {
		next = min(next, d.sessionDeadline(now, id))
	}
	for _, at := range d.retryTimes() {
		next = min(next, at)
	}
	for _, tp := range sortedPartitions(d.awaiting) {
		if d.free(tp) {
			next = min(next, d.awaiting[tp])
		}
	}
	if d.unbalanced {
		next = min(next, max(d.unsettled+d.cfg.Settle, d.nextBalance))
	}
	if d.gathering {
		next = min(next, d.unsettled+d.cfg.Gather)
	}
	return max(next, now)
}
