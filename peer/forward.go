package peer

import (
	"context"
	"fmt"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
)

// Forward sends an opaque request to another broker and returns its answer. kind tells the handler there how to read it. payload must not be changed before
// Forward returns and is at most Config.MaxFrame minus a few bytes; the answer is the caller's own. A refusal of the handler comes back as the *cluster.Error
// that it returned; other errors are as those of Call.
func (p *Peer) Forward(ctx context.Context, to cluster.BrokerID, kind uint8, payload []byte) ([]byte, error) {
	end, err := p.resolve(to)
	if err != nil {
		return nil, err
	}
	answered, body, err := p.callers.call(ctx, callerKey{stream: streamForward, to: end}, kind, payload)
	if err != nil {
		return nil, err
	}
	if answered != kind {
		return nil, fmt.Errorf("peer: forward to broker %d: %w", to, errFrameMangled)
	}
	return body, nil
}

// resolve finds a broker's peer port.
func (p *Peer) resolve(to cluster.BrokerID) (controller.Endpoint, error) {
	end, known := p.cfg.Resolve(to)
	if !known || end.Address == "" || end.Server == "" {
		return controller.Endpoint{}, fmt.Errorf("peer: broker %d: %w", to, cluster.Refuse(cluster.CodeUnknownBroker, "its peer address is not known"))
	}
	return end, nil
}
