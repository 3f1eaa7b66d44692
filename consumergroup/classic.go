package consumergroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/cluster"
)

// maxIDPrefix bounds the part of a new member id that comes from the client, in bytes.
const maxIDPrefix = 128

// JoinGroup takes a classic member into the next generation; Kafka's JoinGroup. It waits until the members have joined, as long as their
// rebalance timeout at most, so ctx should end with the client's connection and not before. With MemberIDRequired the member is to join
// again with the MemberID it was given (error 79 of Kafka). The request's bytes may be reused afterwards, as with SyncGroup.
//
// Refusals are a *cluster.Error. CodeUnknownMember: join again without an id. CodeFencedInstance: another member took the instance id.
// CodeInconsistentProtocol: other protocols or type than the other members. CodeGroupTypeMismatch: the group has native members.
// CodeGroupFull, CodeInvalidSessionTimeout, CodeInvalidGroup, CodeInvalidRequest. CodeNotCoordinator, CodeCoordinatorLoading and
// CodeNoCoordinator: find the coordinator and try again; the request may have taken effect.
func (c *Coordinator) JoinGroup(ctx context.Context, r JoinRequest) (JoinResponse, error) {
	r.Protocols = slices.Clone(r.Protocols)
	for i := range r.Protocols { // the group keeps it, the caller's buffer comes from a connection
		r.Protocols[i].Metadata = bytes.Clone(r.Protocols[i].Metadata)
	}
	if r.MemberID == "" {
		r.NewMemberID = c.newClassicID(r)
	}
	reply, err := c.do(ctx, r.Group, r)
	if err != nil {
		return JoinResponse{}, again(err)
	}
	return *reply.Join, nil
}

// newClassicID makes a member id that tells people whose it is.
func (c *Coordinator) newClassicID(r JoinRequest) string {
	prefix := r.InstanceID
	if prefix == "" {
		prefix = r.ClientID
	}
	return fmt.Sprintf("%s-%s", prefix[:min(len(prefix), maxIDPrefix)], c.ports.NewMemberID())
}

// SyncGroup hands over the leader's assignments, or asks for a member's own; Kafka's SyncGroup. It waits for the leader. Refusals are those
// of JoinGroup, and CodeIllegalGeneration and CodeRebalanceInProgress: join again.
func (c *Coordinator) SyncGroup(ctx context.Context, r SyncRequest) (SyncResponse, error) {
	r.Assignments = slices.Clone(r.Assignments)
	for i := range r.Assignments {
		r.Assignments[i].Assignment = bytes.Clone(r.Assignments[i].Assignment)
	}
	reply, err := c.do(ctx, r.Group, r)
	if err != nil {
		return SyncResponse{}, again(err)
	}
	return *reply.Sync, nil
}

// ClassicHeartbeat keeps up the session of a classic member; Kafka's Heartbeat. Refusals are those of SyncGroup.
func (c *Coordinator) ClassicHeartbeat(ctx context.Context, r ClassicHeartbeatRequest) error {
	_, err := c.do(ctx, r.Group, r)
	return again(err)
}

// LeaveGroup removes classic members, each with its own result; Kafka's LeaveGroup. The error refuses the whole request.
func (c *Coordinator) LeaveGroup(ctx context.Context, r LeaveRequest) ([]cluster.Code, error) {
	reply, err := c.do(ctx, r.Group, r)
	return reply.Codes, again(err)
}

// again turns an unknown outcome into "try again": classic clients know no other word for it here, and trying again is safe.
func again(err error) error {
	var refusal *cluster.Error
	if errors.As(err, &refusal) && refusal.Code == cluster.CodeTimedOut {
		return cluster.Refuse(cluster.CodeNoCoordinator, refusal.Message)
	}
	return err
}
