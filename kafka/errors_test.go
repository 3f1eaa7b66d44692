package kafka

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/moldau-log/moldau/cluster"
)

func TestErrors_EveryCodeHasANumberThatKafkaKnows(t *testing.T) {
	for _, c := range cluster.Codes() {
		n, ok := wireCodes[c]
		if !ok {
			t.Errorf("%v has no row in the table", c)
		}
		var unknown *kerr.Error
		if err := kerr.ErrorForCode(n); (err == nil) != (c == cluster.CodeNone) || (errors.As(err, &unknown) && unknown.Code != n) {
			t.Errorf("%v is %d, which Kafka calls %v", c, n, err)
		}
	}
	if len(wireCodes) != len(cluster.Codes()) {
		t.Errorf("the table has %d rows for %d codes", len(wireCodes), len(cluster.Codes()))
	}
}

func TestErrors_ClientsRetryWhatIsWorthIt(t *testing.T) {
	again := []cluster.Code{
		cluster.CodeNotLeader, cluster.CodeNotEnoughReplicas, cluster.CodeNotEnoughReplicasAfter, cluster.CodeTimedOut, cluster.CodeOffsetNotAvailable, cluster.CodeStorage,
		cluster.CodeNoController, cluster.CodeBrokerFenced, cluster.CodeNotCoordinator, cluster.CodeCoordinatorLoading, cluster.CodeNoCoordinator, cluster.CodeOverloaded,
		cluster.CodeShuttingDown, cluster.CodeUnknownTopic, cluster.CodeFencedLeaderEpoch, cluster.CodeUnknownLeaderEpoch, cluster.CodeCorrupt,
	}
	for _, c := range again {
		if !kerr.IsRetriable(kerr.ErrorForCode(wire(c))) {
			t.Errorf("%v becomes %v, which clients take as final", c, kerr.ErrorForCode(wire(c)))
		}
	}
	for _, c := range []cluster.Code{cluster.CodeTransactional, cluster.CodeInvalidRecord, cluster.CodeTooLarge, cluster.CodeInvalidConfig, cluster.CodeTopicExists, cluster.CodeFencedProducer} {
		if kerr.IsRetriable(kerr.ErrorForCode(wire(c))) {
			t.Errorf("%v becomes %v, which clients try for ever", c, kerr.ErrorForCode(wire(c)))
		}
	}
}

func TestErrors_AnErrorOfAnyKindIsARefusal(t *testing.T) {
	for _, x := range []struct {
		err  error
		want int16
	}{
		{nil, errNone},
		{cluster.Refuse(cluster.CodeTopicExists, "there"), errTopicAlreadyExists},
		{fmt.Errorf("wrapped: %w", cluster.Refuse(cluster.CodeNotController, "")), errNotController},
		{context.DeadlineExceeded, errRequestTimedOut},
		{errors.New("what"), errUnknownServer},
	} {
		if got, message := refused(x.err); got != x.want || (message == nil) != (x.err == nil) {
			t.Errorf("%v becomes %d (%v), want %d", x.err, got, message, x.want)
		}
	}
}
