package check

import "slices"

// What is seen of a topic from the moment in which its deletion begins may be what is left of it, unless that fails. What a check at the end looks at is kept, and left out then if the
// topic was gone by its time; a consumer's reading and where an owner begins are judged as they come, and left out as long as a deletion is under way.

// deleting notes a deletion that begins at a time.
func (t *topic) deleting(time int64) { t.underWay = append(t.underWay, time) }

// deleted notes how a deletion ended that had begun at a time, or that it may have happened.
func (t *topic) deleted(began int64, certainlyNot bool) {
	if at := slices.Index(t.underWay, began); at >= 0 {
		t.underWay = slices.Delete(t.underWay, at, at+1)
	}
	if !certainlyNot {
		t.goneFrom = min(t.goneFrom, began)
	}
}

// gone says that the topic is being deleted, or was, or may have been.
func (t *topic) gone() bool { return len(t.underWay) > 0 || t.goneFrom < never }

// goneBy says, once every deletion has ended, that one had begun at a time.
func (t *topic) goneBy(time int64) bool { return t.goneFrom <= time }

// leaveOutDeleted leaves out what was seen of a partition when its topic was gone.
func (p *part) leaveOutDeleted() {
	if p.topic.goneFrom == never {
		return
	}
	for _, d := range p.drains {
		d.gone = p.topic.goneBy(d.by.time)
	}
	for _, l := range p.logs {
		l.gone = p.topic.goneBy(l.by.time)
	}
	p.ends = slices.DeleteFunc(p.ends, func(q endOffset) bool { return p.topic.goneBy(q.ended) })
	p.gaps = slices.DeleteFunc(p.gaps, func(g gap) bool { return p.topic.goneBy(g.by.time) })
}

// leaveOutDeleted leaves out what was seen of a group's offset when its topic, with which it goes, was gone.
func (r *register) leaveOutDeleted(t *topic) {
	if t.goneFrom == never {
		return
	}
	r.fetches = slices.DeleteFunc(r.fetches, func(f fetch) bool { return t.goneBy(f.ended) })
	r.begins = slices.DeleteFunc(r.begins, func(b begin) bool { return t.goneBy(b.time) })
}
