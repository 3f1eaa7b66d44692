package broker

import (
	"context"
	"sync"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// producerIDBlock is how many producer ids a broker takes from the controller at once.
const producerIDBlock = 1000

// producerIDs hands out ids of the block that this broker holds. A block not used up when the broker stops is lost, never given twice.
type producerIDs struct {
	mu        sync.Mutex // guards next and end
	next, end record.ProducerID
}

func (p *producerIDs) take() (record.ProducerID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next >= p.end {
		return record.NoProducerID, false
	}
	p.next++
	return p.next - 1, true
}

// refill makes a new block the present one, unless somebody else has just done so; then the new one is lost.
func (p *producerIDs) refill(first record.ProducerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next >= p.end {
		p.next, p.end = first, first+producerIDBlock
	}
}

// InitProducerID gives an idempotent producer an id of its own with epoch 0.
func (b *Broker) InitProducerID(ctx context.Context) (record.ProducerID, record.ProducerEpoch, error) {
	for {
		if id, ok := b.producerIDs.take(); ok {
			return id, 0, nil
		}
		res, err := b.propose(ctx, cluster.AllocateProducerIDs{Broker: b.id, Epoch: b.Epoch(), Count: producerIDBlock})
		if err != nil {
			return record.NoProducerID, -1, err
		}
		b.producerIDs.refill(res.FirstProducerID)
	}
}
