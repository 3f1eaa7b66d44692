package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
)

// unknownTopicWait bounds how long a request for an unknown topic waits for this broker to catch up with the controller: a client that created the topic
// through another broker must not be told that it does not exist (HARD-CASES 152).
const unknownTopicWait = time.Second

// lookup finds a topic in the present image.
func (b *Broker) lookup(ref TopicRef) (*cluster.Topic, bool) {
	img := b.Image()
	if !ref.ID.IsZero() {
		t, ok := img.Topic(ref.ID)
		return t, ok && (ref.Name == "" || t.Name == ref.Name)
	}
	return img.TopicByName(ref.Name)
}

// Request marks ctx as that of one client's request. However many unknown topics that names, it waits for the controller once: what was created before the request
// is known then. It is for one goroutine.
func Request(ctx context.Context) context.Context {
	return context.WithValue(ctx, caughtUpKey{}, new(bool))
}

// caughtUpKey is the key of a *bool that says whether a request has waited.
type caughtUpKey struct{}

// Topic finds a topic, and if it is not there waits, bounded, until this broker has applied what the controller had committed when it asked.
func (b *Broker) Topic(ctx context.Context, ref TopicRef) (*cluster.Topic, error) {
	if t, ok := b.lookup(ref); ok {
		return t, nil
	}
	if caughtUp, ok := ctx.Value(caughtUpKey{}).(*bool); ok {
		if *caughtUp {
			return nil, unknownTopic(ref)
		}
		*caughtUp = true
	}
	ctx, cancel := context.WithTimeout(ctx, unknownTopicWait)
	defer cancel()
	// A failure leaves the question where it was: the answer is then from what this broker knows.
	if s := b.session.Load(); s != nil {
		_ = s.CatchUp(ctx)
	}
	if t, ok := b.lookup(ref); ok {
		return t, nil
	}
	return nil, unknownTopic(ref)
}

// dataTopic is Topic for requests that move records: it creates the topic when the broker is told to do that for topics a client first asks for.
func (b *Broker) dataTopic(ctx context.Context, ref TopicRef) (*cluster.Topic, error) {
	t, err := b.Topic(ctx, ref)
	if err == nil || !ref.ID.IsZero() || !b.autoCreate() {
		return t, err
	}
	_, err = b.CreateTopic(ctx, TopicSpec{Name: ref.Name, Partitions: -1, ReplicationFactor: -1})
	if err != nil && AsRefusal(err).Code != cluster.CodeTopicExists { // somebody else was faster
		return nil, err
	}
	return b.Topic(ctx, ref)
}

func (b *Broker) autoCreate() bool {
	switch b.Image().BrokerConfig(b.id).AutoCreate {
	case "true":
		return true
	case "false":
		return false
	}
	return b.options.AutoCreate
}

func unknownTopic(ref TopicRef) *cluster.Error {
	name := ref.Name
	if name == "" {
		name = "with id " + ref.ID.String()
	}
	return cluster.Refuse(cluster.CodeUnknownTopic, fmt.Sprintf("topic %s does not exist; create it with `moldau topic create`", name))
}

// replicaWait bounds how long a request that can wait does so until a local replica does what the metadata already say: after a topic was created or a leader
// elected, the replica is opened and told. replicaPoll is the pause between two looks.
const (
	replicaWait = time.Second
	replicaPoll = 2 * time.Millisecond
)

// soon looks until there is what it looks for, bounded by replicaWait and ctx.
func (b *Broker) soon(ctx context.Context, there func() bool) {
	if there() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, replicaWait)
	defer cancel()
	tick := time.NewTicker(replicaPoll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if there() {
			return
		}
	}
}

// leaderSoon is leader for callers that have a goroutine to spare. Who would be told to ask this very broker waits for it instead, bounded.
func (b *Broker) leaderSoon(ctx context.Context, t *cluster.Topic, p int32) (r *partition.Runner, refusal *cluster.Error) {
	b.soon(ctx, func() bool {
		r, refusal = b.leader(t, p)
		return !b.awaited(refusal)
	})
	return r, refusal
}

// awaited reports whether a refusal by leader tells the client to ask this very broker: its replica is still being opened.
func (b *Broker) awaited(refusal *cluster.Error) bool {
	return refusal != nil && refusal.Code == cluster.CodeNotLeader && refusal.Leader == b.id
}

// leader finds the local replica of a partition if it leads. The refusal names who leads as far as this broker knows.
func (b *Broker) leader(t *cluster.Topic, p int32) (*partition.Runner, *cluster.Error) {
	tp := cluster.TopicPartition{Topic: t.ID, Partition: p}
	meta, ok := b.Image().Partition(tp)
	if !ok {
		return nil, cluster.Refuse(cluster.CodeUnknownTopic, fmt.Sprintf("topic %s has no partition %d; it has %d, numbered from 0", t.Name, p, t.Partitions))
	}
	r, code := b.partitions.Leader(tp)
	if code == cluster.CodeNone {
		return r, nil
	}
	if code == cluster.CodeUnknownTopic { // known to the metadata, not (yet) here
		code = cluster.CodeNotLeader
	}
	return nil, &cluster.Error{
		Code:        code,
		Message:     fmt.Sprintf("broker %d does not lead %s-%d; ask broker %d", b.id, t.Name, p, meta.Leader),
		Leader:      meta.Leader,
		LeaderEpoch: int32(meta.LeaderEpoch),
	}
}
