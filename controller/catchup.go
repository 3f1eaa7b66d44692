package controller

import (
	"context"
	"fmt"

	"github.com/moldau-log/moldau/cluster"
)

// CatchUp returns when this broker has applied everything that the controller had applied when it was asked: what another broker has told a client is then known
// here too (case 152). It is a heartbeat, and renews the session as one.
func (s *Session) CatchUp(ctx context.Context) error {
	response, err := s.c.callLeader(ctx, HeartbeatRequest{Broker: s.c.cfg.Broker, Epoch: s.Epoch(), Applied: s.handled(), WantDrain: s.isDraining()})
	if err != nil {
		return fmt.Errorf("controller: catch up: %w", err)
	}
	answer, ok := response.(HeartbeatResponse)
	if !ok || answer.Code != cluster.CodeNone {
		return cluster.Refuse(cluster.CodeNoController, "no controller has answered; retry")
	}
	return s.c.WaitApplied(ctx, answer.Applied)
}
