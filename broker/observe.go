package broker

import (
	"context"
	"strconv"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/meter"
	"github.com/moldau-log/moldau/partition"
)

// observe registers the gauges that are computed when somebody reads them.
func (b *Broker) observe(set *meter.Set) {
	set.GaugeFunc("moldau_controller_is_leader", "1 on the broker whose controller is active.", nil, func(emit func(float64, ...string)) {
		id, ok := b.Controller()
		emit(one(ok && id == b.id))
	})
	set.GaugeFunc("moldau_partitions", "Partitions of which this broker holds a replica, by state; under_* count those it leads, lost_end those whose only replica had a damaged end cut off.", []string{"state"}, b.observePartitions)
	set.GaugeFunc("moldau_log_size_bytes", "Size of a partition's log on this broker.", []string{"topic", "partition"}, func(emit func(float64, ...string)) {
		for tp, r := range b.partitions.All() {
			if t, ok := b.Image().Topic(tp.Topic); ok {
				emit(float64(r.Status().SizeBytes), t.Name, strconv.Itoa(int(tp.Partition)))
			}
		}
	})
	set.GaugeFunc("moldau_disk_free_bytes", "Free space of the data directory's file system.", nil, func(emit func(float64, ...string)) {
		if free, _, err := b.options.FS.DiskFree(b.options.Root); err == nil {
			emit(float64(free))
		}
	})
	set.GaugeFunc("moldau_group_members", "Members of a group that this broker coordinates.", []string{"group"}, func(emit func(float64, ...string)) {
		for _, g := range b.groupLags() {
			emit(float64(g.members), g.name)
		}
	})
	set.GaugeFunc("moldau_group_lag_records", "Records between a group's committed offset and the high watermark; absent where nothing is committed.",
		[]string{"group", "topic", "partition"}, func(emit func(float64, ...string)) {
			for _, g := range b.groupLags() {
				for tp, lag := range g.lag {
					if t, ok := b.Image().Topic(tp.Topic); ok {
						emit(float64(lag), g.name, t.Name, strconv.Itoa(int(tp.Partition)))
					}
				}
			}
		})
}

func (b *Broker) observePartitions(emit func(float64, ...string)) {
	var online, offline, under, underMin, lost int
	img := b.Image()
	for tp, r := range b.partitions.All() {
		if r.Role() == partition.RoleOffline {
			offline++
			continue
		}
		online++
		lost += int(one(lostEnd(img, tp, r)))
		p, ok := img.Partition(tp)
		if !ok || p.Leader != b.id {
			continue
		}
		if len(p.ISR) < len(p.Replicas)-len(p.Adding) {
			under++
		}
		if t, ok := img.Topic(tp.Topic); ok && len(p.ISR) < img.MinISR(t, p) {
			underMin++
		}
	}
	emit(float64(online), "online")
	emit(float64(offline), "offline")
	emit(float64(under), "under_replicated")
	emit(float64(underMin), "under_min_isr")
	emit(float64(lost), "lost_end")
}

type groupLag struct {
	name    string
	members int
	lag     map[cluster.TopicPartition]int64
}

// groupLags asks the local coordinator. A metrics page is not worth waiting long for.
func (b *Broker) groupLags() []groupLag {
	ctx, cancel := context.WithTimeout(b.ctx, time.Second)
	defer cancel()
	lags, err := b.groups.Lags(ctx)
	if err != nil {
		return nil
	}
	out := make([]groupLag, 0, len(lags))
	for _, l := range lags {
		out = append(out, groupLag{l.Group, l.Members, l.Lag})
	}
	return out
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
