package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// Forwarder carries a question to another broker's Forwarded method and its answer back. Package peer implements it; payloads are opaque to it.
type Forwarder interface {
	Forward(ctx context.Context, to cluster.BrokerID, kind uint8, payload []byte) ([]byte, error)
}

// The kinds of forwarded questions. The numbers are on the peer wire. Bodies are JSON: they are few, small and worth reading in a capture.
const (
	forwardStatus        uint8 = 1
	forwardDeleteRecords uint8 = 2
	forwardQuorum        uint8 = 3
	forwardLogs          uint8 = 4
)

// maxForwardedPartitions bounds one forwarded question.
const maxForwardedPartitions = 20_000

type statusQuestion struct {
	Partitions []cluster.TopicPartition `json:"partitions"`
}

type statusAnswer struct {
	Statuses []PartitionStatus `json:"statuses"`
}

type deleteRecordsQuestion struct {
	Partition cluster.TopicPartition `json:"partition"`
	Before    record.Offset          `json:"before"`
}

type deleteRecordsAnswer struct {
	Start   record.Offset `json:"start"`
	Code    cluster.Code  `json:"code"`
	Message string        `json:"message,omitempty"`
}

// Forwarded answers a question that another broker sent. It never forwards again, so two brokers with different images cannot play ball.
func (b *Broker) Forwarded(ctx context.Context, from cluster.BrokerID, kind uint8, payload []byte) ([]byte, error) {
	switch kind {
	case forwardStatus:
		var q statusQuestion
		if err := json.Unmarshal(payload, &q); err != nil || len(q.Partitions) > maxForwardedPartitions {
			return nil, fmt.Errorf("broker: malformed status question from broker %d: %v", from, err)
		}
		var a statusAnswer
		for _, tp := range q.Partitions {
			a.Statuses = append(a.Statuses, b.localStatus(tp))
		}
		return json.Marshal(a)
	case forwardDeleteRecords:
		var q deleteRecordsQuestion
		if err := json.Unmarshal(payload, &q); err != nil {
			return nil, fmt.Errorf("broker: malformed delete-records question from broker %d: %w", from, err)
		}
		return json.Marshal(b.deleteRecordsHere(ctx, q))
	case forwardQuorum:
		return b.quorumHere()
	case forwardLogs:
		return json.Marshal(b.logsHere())
	}
	return nil, fmt.Errorf("broker: unknown question %d from broker %d", kind, from)
}

func (b *Broker) deleteRecordsHere(ctx context.Context, q deleteRecordsQuestion) deleteRecordsAnswer {
	if r, code := b.partitions.Leader(q.Partition); code != cluster.CodeNone || r == nil {
		return deleteRecordsAnswer{Start: -1, Code: cluster.CodeNotLeader, Message: fmt.Sprintf("broker %d does not lead it any more; retry", b.id)}
	}
	start, err := b.DeleteRecords(ctx, TopicRef{ID: q.Partition.Topic}, q.Partition.Partition, q.Before)
	if err != nil {
		e := AsRefusal(err)
		return deleteRecordsAnswer{Start: -1, Code: e.Code, Message: e.Message}
	}
	return deleteRecordsAnswer{Start: start}
}

func (b *Broker) deleteRecordsElsewhere(ctx context.Context, tp cluster.TopicPartition, before record.Offset, refusal *cluster.Error) (record.Offset, error) {
	if refusal.Code != cluster.CodeNotLeader || refusal.Leader == cluster.NoBroker || refusal.Leader == b.id {
		return -1, refusal
	}
	var a deleteRecordsAnswer
	if err := b.ask(ctx, refusal.Leader, forwardDeleteRecords, deleteRecordsQuestion{tp, before}, &a); err != nil {
		return -1, cluster.Refuse(cluster.CodeNotLeader, fmt.Sprintf("the leader, broker %d, did not answer: %v", refusal.Leader, err))
	}
	if a.Code != cluster.CodeNone {
		return -1, cluster.Refuse(a.Code, a.Message)
	}
	return a.Start, nil
}

// statusElsewhere fills out with what other brokers say of the partitions that they lead, all asked at once.
func (b *Broker) statusElsewhere(ctx context.Context, byLeader map[cluster.BrokerID][]int, partitions []cluster.TopicPartition, out []PartitionStatus) {
	var wg sync.WaitGroup
	for leader, at := range byLeader {
		wg.Go(func() {
			q := statusQuestion{Partitions: make([]cluster.TopicPartition, len(at))}
			for k, i := range at {
				q.Partitions[k] = partitions[i]
			}
			var a statusAnswer
			if err := b.ask(ctx, leader, forwardStatus, q, &a); err != nil || len(a.Statuses) != len(at) {
				return // what the local replica knows stays
			}
			for k, i := range at { // the indexes of two leaders never meet
				out[i] = a.Statuses[k]
			}
		})
	}
	wg.Wait()
}

func (b *Broker) ask(ctx context.Context, to cluster.BrokerID, kind uint8, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("broker: encode question: %w", err)
	}
	reply, err := b.forwarder.Forward(ctx, to, kind, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(reply, answer)
}
