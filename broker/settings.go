package broker

import (
	"strconv"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
)

// groupSettings are what the coordinator of this broker is to keep to: the dynamic configs of the broker, else of the cluster, else its own configuration.
func (b *Broker) groupSettings(img *cluster.Image) consumergroup.Settings {
	s := b.options.Groups.Settings()
	retention := s.OffsetsRetention
	if minutes := img.BrokerInt(b.id, "offsets.retention.minutes", -1); minutes > 0 {
		retention = time.Duration(minutes) * time.Minute
	}
	return consumergroup.Settings{
		MinSession:            img.BrokerMillis(b.id, "group.min.session.timeout.ms", s.MinSession),
		MaxSession:            img.BrokerMillis(b.id, "group.max.session.timeout.ms", s.MaxSession),
		InitialRebalanceDelay: img.BrokerMillis(b.id, "group.initial.rebalance.delay.ms", s.InitialRebalanceDelay),
		MaxMembers:            int(img.BrokerInt(b.id, "group.max.size", int64(s.MaxMembers))),
		MaxOffsetMetadata:     int(img.BrokerInt(b.id, "offset.metadata.max.bytes", int64(s.MaxOffsetMetadata))),
		OffsetsRetention:      retention,
	}
}

// withOwn puts what this broker's own configuration says in the place of built-in defaults: it is what counts where nothing dynamic is set.
func (b *Broker) withOwn(entries []cluster.EffectiveConfig) []cluster.EffectiveConfig {
	o := &b.options
	s := o.Groups.Settings()
	millis := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	own := map[string]string{
		"auto.create.topics.enable":        strconv.FormatBool(o.AutoCreate),
		"default.replication.factor":       strconv.Itoa(int(o.DefaultReplication)),
		"group.initial.rebalance.delay.ms": millis(s.InitialRebalanceDelay),
		"group.max.session.timeout.ms":     millis(s.MaxSession),
		"group.max.size":                   strconv.Itoa(s.MaxMembers),
		"group.min.session.timeout.ms":     millis(s.MinSession),
		"num.partitions":                   strconv.Itoa(int(o.DefaultPartitions)),
		"offset.metadata.max.bytes":        strconv.Itoa(s.MaxOffsetMetadata),
		"offsets.retention.minutes":        strconv.FormatInt(int64(s.OffsetsRetention/time.Minute), 10),
		"replica.lag.time.max.ms":          millis(o.LagMax),
	}
	for i := range entries {
		e := &entries[i]
		if value, ok := own[e.Key.Name]; ok && e.Source == cluster.SourceDefault && value != e.Value {
			e.Value, e.Source = value, cluster.SourceStatic
		}
	}
	return entries
}
