package check

import "github.com/moldau-log/moldau/internal/history"

// seriesKey is a member of a group in one generation, as one client sees it: where that numbers its commits, a late one is refused once a later one was acknowledged.
type seriesKey struct {
	group      int32
	client     int32
	member     string
	generation int32
}

// unnumbered is the series of a commit that carries no number.
const unnumbered = 0

// seriesOf is the series that a commit belongs to.
func (g *groups) seriesOf(client int32, e *history.Event) int32 {
	if !e.Ordered {
		return unnumbered
	}
	key := seriesKey{g.group(e.Group), client, e.Member, e.Generation}
	i, ok := g.series[key]
	if !ok {
		i = int32(len(g.series)) + 1
		g.series[key] = i
	}
	return i
}
