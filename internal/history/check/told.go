package check

import "github.com/moldau-log/moldau/internal/history"

// told is the newest generation that a member was told, by an assignment or when it joined, in its group's life. It is not changed.
type told struct {
	generation int32
	life       int32 // life.number
	by         origin
}

// toldKey is a member of a group; a client, where an event does not name the member.
type toldKey struct {
	group  int32
	client int32 // 0 for a member
	member string
}

// tell notes a generation that a member was told. One that may be older than the deletion of its group tells nothing: the answer may have waited long for its client.
func (g *groups) tell(client int32, op *operation, e *history.Event) {
	if e.Type != history.OK || e.Generation <= 0 {
		return
	}
	group := g.group(e.Group)
	life := g.life(group)
	if !life.whole(beganAt(op, e)) {
		return
	}
	news := &told{generation: e.Generation, life: life.number, by: origin{client: client, op: e.Op, time: e.Time}}
	keys := []toldKey{{group: group, client: client}, {group: group, member: e.Member}}
	if e.Member == "" {
		keys = keys[:1]
	}
	for _, key := range keys {
		if before := g.told[key]; before == nil || before.life != news.life || before.generation < news.generation {
			g.told[key] = news
		}
	}
}

// newerTold is what the member of a commit that begins had been told, if that is a newer generation than the commit's. A group that may have been deleted meanwhile has begun its
// generations anew. Other members may be ahead (KIP-848), so what they were told says nothing.
func (g *groups) newerTold(client int32, e *history.Event) *told {
	group := g.group(e.Group)
	key := toldKey{group: group, member: e.Member}
	if e.Member == "" {
		key.client = client
	}
	news := g.told[key]
	if e.Generation == 0 || news == nil || news.generation <= e.Generation || news.by.time >= e.Time || !g.life(group).whole(news.by.time) {
		return nil
	}
	return news
}
