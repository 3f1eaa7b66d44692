package broker

import (
	"context"
	"encoding/json"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
)

// Quorum is who keeps the metadata log, and how far each is.
type Quorum = controller.Quorum

// QuorumMember is one broker of it.
type QuorumMember = controller.QuorumMember

// Quorum asks the controller. When it does not answer, or there is none, the broker tells what it knows itself: the ends of other brokers' logs are -1 then.
func (b *Broker) Quorum(ctx context.Context) Quorum {
	own := b.controller.Quorum()
	if own.Leader == b.id || own.Leader == cluster.NoBroker {
		return own
	}
	var told Quorum
	if err := b.ask(ctx, own.Leader, forwardQuorum, struct{}{}, &told); err != nil || told.Leader != own.Leader {
		return own
	}
	return told
}

// quorumHere answers another broker.
func (b *Broker) quorumHere() ([]byte, error) { return json.Marshal(b.controller.Quorum()) }
