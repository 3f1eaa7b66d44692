package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/partition"
)

// The state of a log is known to its own broker alone: metadata tells who may lead, not why. So whoever asks for the cluster's health has every live broker asked for its logs.

const (
	// logsTimeout bounds that question: `cluster health` is asked again and again, and must not wait long for one that has just died.
	logsTimeout = 300 * time.Millisecond
	// maxNamed bounds the partitions that an answer names.
	maxNamed = 10
)

// LogsOf is what a broker says of its own logs and disk.
type LogsOf struct {
	Broker   cluster.BrokerID `json:"broker"`
	Offline  int              `json:"offline"`   // logs that are not served: the disk failed, recovery found damage, or a directory is missing
	LostEnds int              `json:"lost_ends"` // partitions of one replica whose damaged end was cut off (partition.Runner.LostEnd)
	Named    []string         `json:"named"`     // some of the latter, as topic:partition
	DiskFull bool             `json:"disk_full"` // less than the reserve is free
}

// logsHere answers for this broker.
func (b *Broker) logsHere() LogsOf {
	img := b.Image()
	out := LogsOf{Broker: b.id, DiskFull: b.diskFull.Load()}
	for tp, r := range b.partitions.All() {
		if r.Role() == partition.RoleOffline {
			out.Offline++
		}
		if !lostEnd(img, tp, r) {
			continue
		}
		out.LostEnds++
		if len(out.Named) < maxNamed {
			out.Named = append(out.Named, fmt.Sprintf("%s:%d", r.Topic(), tp.Partition))
		}
	}
	return out
}

// lostEnd reports whether a replica has lost its end for good. While there is another replica it has not.
func lostEnd(img *cluster.Image, tp cluster.TopicPartition, r *partition.Runner) bool {
	p, ok := img.Partition(tp)
	return r.LostEnd() && ok && len(p.Replicas) == 1
}

// logsOfAll asks every other live broker, all at once, and returns the answers, own among them, and who gave none, both in the order of ids. A fenced broker is not asked.
func (b *Broker) logsOfAll(ctx context.Context, img *cluster.Image, own LogsOf) (answers []LogsOf, unreached []cluster.BrokerID) {
	ctx, cancel := context.WithTimeout(ctx, logsTimeout)
	defer cancel()
	var mu sync.Mutex // guards both results
	var wg sync.WaitGroup
	note := func(id cluster.BrokerID, a LogsOf, told bool) {
		mu.Lock()
		defer mu.Unlock()
		if told {
			answers = append(answers, a)
			return
		}
		unreached = append(unreached, id)
	}
	for br := range img.Brokers() {
		if br.ID == b.id || br.Fenced {
			note(br.ID, own, br.ID == b.id)
			continue
		}
		wg.Go(func() {
			var a LogsOf
			err := b.ask(ctx, br.ID, forwardLogs, struct{}{}, &a)
			note(br.ID, a, err == nil && a.Broker == br.ID)
		})
	}
	wg.Wait()
	slices.Sort(unreached)
	slices.SortFunc(answers, func(x, y LogsOf) int { return int(x.Broker) - int(y.Broker) })
	return answers, unreached
}

// countLogs adds to the cluster's health what its brokers have said of their logs.
func countLogs(h *Health, answers []LogsOf, unreached []cluster.BrokerID) {
	for _, a := range answers {
		h.OfflineLogs += a.Offline
		h.LostEnds += a.LostEnds
		if a.Offline > 0 {
			h.Reasons = append(h.Reasons,
				fmt.Sprintf("%d partitions are offline on broker %d: the disk failed, recovery found damage, or a directory is missing", a.Offline, a.Broker))
		}
		if a.LostEnds > 0 {
			h.Reasons = append(h.Reasons, fmt.Sprintf("%d partitions of broker %d may have lost acknowledged records: a damaged end was cut off, and there is no other replica (%s)",
				a.LostEnds, a.Broker, strings.Join(a.Named, ", ")))
		}
		if a.DiskFull {
			h.Reasons = append(h.Reasons, fmt.Sprintf("the disk of broker %d is nearly full: it refuses produce", a.Broker))
		}
	}
	h.Unreached = unreached
	for _, id := range unreached {
		if !slices.Contains(h.Fenced, id) { // of whom that is said already
			h.Reasons = append(h.Reasons, fmt.Sprintf("broker %d did not say how its logs are", id))
		}
	}
}
