package check

import "github.com/moldau-log/moldau/internal/history"

// life is what is known of the deletions of a group. Generations begin anew after one, so what two events say of a group is held to each other only where the group was certainly
// not deleted in between. A deletion that failed is as if it had never been.
type life struct {
	number   int32       // as many deletions were acknowledged
	ended    int64       // when the last of them was, -never for none
	underWay []*deletion // those that have not ended
	unknown  *deletion   // of those of unknown outcome, which may come at any time, the one that began first
}

// deletion is one of a group.
type deletion struct {
	op     *operation
	client int32
	number int64 // of op
	noted  int64 // when its outcome was said to be unknown; never before
}

func (g *groups) life(group int32) *life {
	l := g.lives[group]
	if l == nil {
		l = &life{ended: -never}
		g.lives[group] = l
	}
	return l
}

// overtook says that the group was deleted since a time: what began then may belong to what was before.
func (l *life) overtook(since int64) bool { return l.ended >= since }

// whole says that the group was certainly not deleted since a time, and is not being deleted.
func (l *life) whole(since int64) bool {
	return !l.overtook(since) && l.unknown == nil && len(l.underWay) == 0
}

// deleting takes the deletion of a group that begins: it commits "nothing" in every register of the group.
func (c *Checker) deleting(op *operation, client int32, e *history.Event) {
	group := c.groups.group(e.Group)
	d := &deletion{op: op, client: client, number: e.Op, noted: never}
	l := c.groups.life(group)
	l.underWay = append(l.underWay, d)
	for part := range c.groups.parts[group] {
		if reg := c.groups.registers[registerKey{group, part}]; reg != nil {
			reg.delete(d)
		}
	}
}

// deleted takes how the deletion of a group ended. What its members were given before one that was acknowledged binds no other.
func (c *Checker) deleted(op *operation, e *history.Event) {
	group := c.groups.group(op.group)
	l := c.groups.life(group)
	var d *deletion
	for i := range l.underWay {
		if l.underWay[i].op == op {
			d = l.underWay[i]
			l.underWay = append(l.underWay[:i], l.underWay[i+1:]...)
			break
		}
	}
	switch e.Type {
	case history.OK:
		l.number++
		l.ended = max(l.ended, e.Time)
		for part := range c.groups.parts[group] {
			delete(c.groups.given, registerKey{group, part})
		}
	case history.Info:
		if d.noted = e.Time; l.unknown == nil || op.began < l.unknown.op.began {
			l.unknown = d
		}
	}
}

// awaits adds to a register that is new what a deletion of its group may still do to it.
func (l *life) awaits(reg *register) {
	if l.unknown != nil {
		reg.delete(l.unknown)
	}
	for _, d := range l.underWay {
		reg.delete(d)
	}
}

// delete begins the deletion of what is committed. A register that another deletion has emptied, with nothing behind that, takes this one in its place: what many deletions of a
// group leave does not grow with them.
func (r *register) delete(d *deletion) {
	w := r.idle(d.op.began)
	if w == nil {
		w = &commit{}
		r.commits = append(r.commits, w)
	} else {
		r.ended--
	}
	*w = commit{
		began: d.op.began, ended: never, dead: never, followed: never, noted: d.noted, offset: -1, client: d.client, op: d.number, status: unknown, deletes: true,
		of: r, after: r.ended, tied: r.ended > 0 && r.last >= d.op.began,
	}
	if d.noted == never {
		d.op.commits = append(d.op.commits, w)
	}
}
