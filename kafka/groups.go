package kafka

import (
	"context"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
)

// Group requests go to the broker that coordinates the group. Another one answers NOT_COORDINATOR, and the client asks FindCoordinator again.

// coordinatorError gives the number and the message of a coordinator's refusal, and tells the meter.
func (s *slot) coordinatorError(err error) (code int16, message *string) {
	if err == nil {
		return errNone, nil
	}
	e := broker.AsRefusal(err)
	text := e.Error()
	return s.note(wireGroup(e.Code)), &text
}

// text is a nullable string, with null as the empty one.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// nullable is a string with the empty one as null.
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// topicOf finds a topic that a request names by id or by name, or gives Kafka's error.
func (c *conn) topicOf(ctx context.Context, id [16]byte, name string) (*cluster.Topic, int16) {
	ref := broker.TopicRef{ID: cluster.TopicID(id), Name: name}
	t, err := c.s.broker.Topic(ctx, ref)
	if err != nil {
		return nil, c.wireTopic(ref, broker.AsRefusal(err).Code)
	}
	return t, errNone
}

// groupState is the state of a group in Kafka's words.
func groupState(s consumergroup.State) string {
	switch s {
	case consumergroup.StateEmpty:
		return "Empty"
	case consumergroup.StateStable:
		return "Stable"
	case consumergroup.StateReconciling:
		return "Reconciling"
	case consumergroup.StatePreparing:
		return "PreparingRebalance"
	case consumergroup.StateCompleting:
		return "CompletingRebalance"
	}
	return "Unknown"
}

// groupType is the type of a group in Kafka's words. A native group has the model of Kafka's consumer groups (KIP-848); a group that has only offsets is what
// Kafka calls a classic one.
func groupType(t cluster.GroupType) string {
	if t == cluster.GroupNative {
		return "consumer"
	}
	return "classic"
}
