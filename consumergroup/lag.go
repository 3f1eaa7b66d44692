package consumergroup

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/coordinator"
	"github.com/moldau-log/moldau/consumergroup/group"
)

// lagCache keeps the watermarks that the leaders last told. Whoever finds them too old asks; others wait for that answer.
type lagCache struct {
	sync.Mutex
	at         time.Time
	watermarks map[cluster.TopicPartition]int64
	asking     chan struct{} // closed when the answer is there; nil while nobody asks
}

// Describe returns everything that is known of a group; CodeUnknownGroup when there is none.
func (c *Coordinator) Describe(ctx context.Context, name string) (Description, error) {
	reply, err := c.do(ctx, name, group.Describe{Group: name})
	if err != nil {
		return Description{}, err
	}
	d := Description{Description: *reply.Description, Coordinator: c.config.Broker}
	d.HighWatermarks = c.watermarks(ctx)
	d.Lag = lagOf(d.Offsets, d.HighWatermarks)
	return d, nil
}

// List returns the groups of the shards that this broker leads, by name. It may be ahead of the log by what is being committed.
func (c *Coordinator) List(ctx context.Context) ([]Listing, error) {
	var out []Listing
	err := c.look(ctx, func(core *coordinator.Coordinator) {
		core.Groups(func(g *group.Group) {
			out = append(out, Listing{Group: g.Name(), Type: g.Type(), State: g.State(), Members: g.Members(), ProtocolType: g.ProtocolType()})
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b Listing) int { return strings.Compare(a.Group, b.Group) })
	return out, nil
}

// Lags returns members and lag of the groups that this broker coordinates, by name, for metrics. The watermarks are at most LagInterval old.
func (c *Coordinator) Lags(ctx context.Context) ([]GroupLag, error) {
	watermarks := c.watermarks(ctx)
	var out []GroupLag
	err := c.look(ctx, func(core *coordinator.Coordinator) {
		core.Groups(func(g *group.Group) {
			out = append(out, GroupLag{Group: g.Name(), Members: g.Members(), Lag: lagOf(g.Offsets(), watermarks)})
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b GroupLag) int { return strings.Compare(a.Group, b.Group) })
	return out, nil
}

// lagOf is watermark minus committed offset, never below 0, where both are known. A mark below 0 is no offset.
func lagOf(offsets []FetchedOffset, watermarks map[cluster.TopicPartition]int64) map[cluster.TopicPartition]int64 {
	out := map[cluster.TopicPartition]int64{}
	for _, o := range offsets {
		if end, ok := watermarks[o.Partition]; ok && o.Committed.Offset >= 0 {
			out[o.Partition] = max(0, end-int64(o.Committed.Offset))
		}
	}
	return out
}

// watermarks returns the leaders' watermarks of all committed partitions, asking again when they are older than LagInterval. It gives what
// there is when the leaders do not answer. The map is never changed.
func (c *Coordinator) watermarks(ctx context.Context) map[cluster.TopicPartition]int64 {
	if c.ports.Lag == nil {
		return nil
	}
	for {
		c.lag.Lock()
		if c.lag.watermarks != nil && time.Since(c.lag.at) < c.config.LagInterval {
			defer c.lag.Unlock()
			return c.lag.watermarks
		}
		asking := c.lag.asking
		if asking == nil {
			done := make(chan struct{})
			c.lag.asking = done
			c.lag.Unlock()
			return c.ask(ctx, done)
		}
		c.lag.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
			return nil
		}
	}
}

// ask asks the leaders once and shares the answer.
func (c *Coordinator) ask(ctx context.Context, done chan struct{}) map[cluster.TopicPartition]int64 {
	watermarks, err := c.askLeaders(ctx)
	c.lag.Lock()
	defer c.lag.Unlock()
	c.lag.asking = nil
	close(done)
	if err != nil && ctx.Err() != nil {
		return nil // this caller's patience ended: the next one asks again
	}
	if err != nil {
		c.log.Warn("group lag is not known", "error", err)
		watermarks = map[cluster.TopicPartition]int64{}
	}
	c.lag.at, c.lag.watermarks = time.Now(), watermarks
	return watermarks
}

func (c *Coordinator) askLeaders(ctx context.Context) (map[cluster.TopicPartition]int64, error) {
	wanted := map[cluster.TopicPartition]struct{}{}
	err := c.look(ctx, func(core *coordinator.Coordinator) {
		core.Groups(func(g *group.Group) {
			for _, o := range g.Offsets() {
				wanted[o.Partition] = struct{}{}
			}
		})
	})
	if err != nil || len(wanted) == 0 {
		return map[cluster.TopicPartition]int64{}, err
	}
	partitions := make([]cluster.TopicPartition, 0, len(wanted))
	for tp := range wanted {
		partitions = append(partitions, tp)
	}
	slices.SortFunc(partitions, cluster.TopicPartition.Compare)
	return c.ports.Lag.HighWatermarks(ctx, partitions)
}
