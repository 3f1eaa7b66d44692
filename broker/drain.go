package broker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// aloneAfter is how long after the end of its lease a draining broker still hopes for a controller. When a whole cluster stops at once, the last brokers have none.
const (
	aloneAfter = time.Second
	aloneCheck = 50 * time.Millisecond
)

// errAlone ends a drain that nobody answers.
var errAlone = errors.New("broker: no controller answers, so nothing can move away")

// Drain begins an orderly stop: leaderships and coordinator shards move to other brokers. It returns when they have moved, or with an error when ctx ends or no
// controller answers any more.
func (b *Broker) Drain(ctx context.Context) error {
	b.stopping.Store(true)
	s := b.session.Load()
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go b.giveUpAlone(ctx, cancel)
	if err := s.Drain(ctx); err != nil {
		return fmt.Errorf("broker: drain: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// giveUpAlone cancels a drain when the controller has been silent for too long. It ends with ctx.
func (b *Broker) giveUpAlone(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(aloneCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if b.clock.Now() > time.Duration(b.contactUntil.Load())+aloneAfter {
				cancel(errAlone)
				return
			}
		}
	}
}
