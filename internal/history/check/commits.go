package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// register is the committed offset of a group in a partition: what was written to it, and what was read.
type register struct {
	commits []*commit
	fetches []fetch
	begins  []begin
	deleted bool  // the group was deleted, or may have been
	ended   int32 // as many commits have ended
	last    int64 // when the last of them did
}

// idle is the last commit if it is a deletion that is over and has changed nothing: it was refused, or acknowledged where there was nothing, or behind another of the same
// client, with no commit that began or ended in between. What was under way then, or has no end, is where it would be without it. Times that are the same have no order, so
// it has to be over before time, when the next one begins.
func (r *register) idle(time int64) *commit {
	n := len(r.commits)
	if n == 0 {
		return nil
	}
	last := r.commits[n-1]
	switch {
	case !last.deletes || last.noted >= time:
		return nil
	case last.status == failed, last.status == okay && n == 1:
		return last
	case last.status != okay || n == 1:
		return nil
	}
	before := r.commits[n-2]
	if before.deletes && before.status == okay && !before.tied && before.client == last.client && last.after == before.after+1 {
		return last
	}
	return nil
}

// commit is a write. Its effect lies between began and ended, and ended is never for one whose outcome is unknown.
type commit struct {
	began, ended int64
	// dead is when it cannot have any effect after: an acknowledged commit with a newer generation had ended, or the next one of its series. Never otherwise.
	dead int64
	// followed is when the next acknowledged commit of its series began, never for none: its effect comes before that one's, or not at all.
	followed   int64
	offset     int64
	generation int32
	client     int32
	series     int32 // see groups.series
	op         int64
	noted      int64 // time of the completion, of an unknown one too; never for none
	status     status
	deletes    bool  // it is the deletion of the group
	after      int32 // as many commits of its register had ended when it began
	tied       bool  // one of them may have ended later than that
	of         *register
	told       *told // what its member had been told when it began: a newer generation; nil for no such
}

// fetch is a read.
type fetch struct {
	began, ended int64
	offset       int64 // -1: nothing is committed
	client       int32
	op           int64
}

type registerKey struct {
	group int32
	part  int32
}

func (c *Checker) register(group string, r *history.Record) *register {
	p := c.part(r.Topic, r.Partition)
	if p == nil {
		return nil
	}
	key := registerKey{c.groups.group(group), p.index}
	reg := c.groups.registers[key]
	if reg == nil {
		reg = &register{}
		c.groups.registers[key] = reg
		c.groups.life(key.group).awaits(reg)
		c.groups.concerns(key)
	}
	return reg
}

func (c *Checker) committing(op *operation, client int32, e *history.Event) {
	news := c.groups.newerTold(client, e)
	series := c.groups.seriesOf(client, e)
	for i := range e.Records {
		reg := c.register(e.Group, &e.Records[i])
		if reg == nil {
			continue
		}
		w := &commit{began: e.Time, ended: never, dead: never, followed: never, noted: never, offset: e.Records[i].Offset, generation: e.Generation, client: client, series: series, op: e.Op, status: unknown, told: news, of: reg, after: reg.ended}
		reg.commits = append(reg.commits, w)
		op.commits = append(op.commits, w)
	}
}

func (c *Checker) committed(op *operation, e *history.Event) {
	for _, w := range op.commits {
		w.noted = e.Time
		w.of.ended++
		w.of.last = max(w.of.last, e.Time)
		switch e.Type {
		case history.OK:
			w.status, w.ended = okay, e.Time
		case history.Fail:
			w.status = failed
		}
	}
}

func (c *Checker) fetched(op *operation, e *history.Event) {
	if e.Type != history.OK {
		return
	}
	group := cmp.Or(e.Group, op.group)
	for i := range e.Records {
		if reg := c.register(group, &e.Records[i]); reg != nil {
			reg.fetches = append(reg.fetches, fetch{op.began, e.Time, e.Records[i].Offset, c.names.client(e.Client), e.Op})
		}
	}
}

// judgeRegister holds what was fetched to what was committed.
func (c *Checker) judgeRegister(key registerKey, reg *register) {
	p := c.parts[key.part]
	reg.leaveOutDeleted(p.topic)
	slices.SortStableFunc(reg.commits, func(a, b *commit) int { return cmp.Compare(a.began, b.began) })
	slices.SortStableFunc(reg.fetches, func(a, b fetch) int { return cmp.Compare(a.began, b.began) })
	reg.deleted = slices.ContainsFunc(reg.commits, func(w *commit) bool { return w.deletes && w.status != failed })
	c.judgeFenced(p, key, reg)
	reg.bury()
	c.judgeBegins(p, key, reg)
	written := candidatesOf(reg.commits)
	sweep := newCommitSweep(reg.commits)
	for _, f := range reg.fetches {
		c.checked[StaleCommit]++
		c.checked[PhantomCommit]++
		newest := sweep.before(f.began)
		first, known := written[f.offset].first(f, newest.began)
		switch {
		case !known:
			c.foundFetch(PhantomCommit, p, key, f, nil, "nobody committed it")
		case first == nil:
			c.foundFetch(StaleCommit, p, key, f, newest.by, "a later commit or an earlier fetch had replaced it")
		case f.offset >= 0: // what was fetched has happened, even if its own outcome is unknown
			sweep.add(f.ended, replaced{began: first.began, by: first})
		}
	}
}

// candidates are the commits of one offset that did not fail, by their beginning. What is replaced for one fetch is replaced for all that begin later, so
// it is dropped.
type candidates struct {
	commits []*commit
	dropped bool
}

func candidatesOf(commits []*commit) map[int64]*candidates {
	nothing := &commit{began: -never, ended: -never, dead: never, followed: never, status: okay, offset: -1}
	written := map[int64]*candidates{-1: {commits: []*commit{nothing}}}
	for _, w := range commits {
		if w.status == failed {
			continue
		}
		if written[w.offset] == nil {
			written[w.offset] = &candidates{}
		}
		written[w.offset].commits = append(written[w.offset].commits, w)
	}
	return written
}

// first finds the first commit that a fetch can have seen: begun before the fetch ended, and not replaced before it began. known is false when the offset had
// not been written at all.
func (s *candidates) first(f fetch, newest int64) (w *commit, known bool) {
	if s == nil {
		return nil, false
	}
	for len(s.commits) > 0 && s.commits[0].began <= f.ended {
		if w := s.commits[0]; w.ended >= newest && w.dead >= f.began {
			return w, true
		}
		s.commits, s.dropped = s.commits[1:], true
	}
	return nil, s.dropped
}

func (c *Checker) foundFetch(kind Kind, p *part, key registerKey, f fetch, by *commit, why string) {
	c.foundAs(kind, p, f.offset, subject{offset: f.offset, group: key.group}, func(a *Anomaly) {
		a.Detail = fmt.Sprintf("group %s: the committed offset was fetched as %d, and %s", c.groups.texts[key.group], f.offset, why)
		if by != nil {
			a.Detail += fmt.Sprintf(" (%d)", by.offset)
			a.Evidence = append(a.Evidence, c.commitEvidence(by))
		}
		a.Evidence = append(a.Evidence, Evidence{What: "fetched", Client: c.names.texts[f.client], Op: f.op, Began: f.began, Ended: f.ended})
	})
}

func (c *Checker) commitEvidence(w *commit) Evidence {
	what := [...]string{neverSent: "", unknown: "committed, outcome unknown", okay: "committed", failed: "commit failed"}[w.status]
	e := Evidence{What: what, Client: c.names.texts[w.client], Op: w.op, Began: w.began}
	if w.noted != never {
		e.Ended = w.noted
	}
	return e
}

// bury works out when commits of unknown outcome can no longer happen: once an acknowledged one with a newer generation has ended, or one of the same series that began after
// they were given up. Any other may come late, for ever: a request waits in a network as long as it likes. In a group that was deleted, generations and numbers have begun
// anew and say nothing.
func (r *register) bury() {
	if r.deleted {
		return
	}
	acked := newCommitSweep(r.commits).acked
	slices.SortStableFunc(acked, func(a, b *commit) int { return cmp.Compare(a.generation, b.generation) })
	newer := make([]int64, len(acked)+1) // newer[i]: the earliest end of acked[i:]
	newer[len(acked)] = never
	for i := len(acked) - 1; i >= 0; i-- {
		newer[i] = min(newer[i+1], acked[i].ended)
	}
	next := map[int32]*commit{} // by series: its next acknowledged commit
	for i := len(r.commits) - 1; i >= 0; i-- {
		w := r.commits[i]
		if w.status == okay {
			next[w.series] = w
			continue
		}
		if after := next[w.series]; w.series != unnumbered && after != nil && w.noted <= after.began {
			w.dead, w.followed = after.ended, after.began
		}
		if w.generation > 0 {
			at, _ := slices.BinarySearchFunc(acked, w.generation+1, func(a *commit, g int32) int { return cmp.Compare(a.generation, g) })
			w.dead = min(w.dead, newer[at])
		}
	}
}

// judgeFenced: once a commit with a generation was acknowledged, none with an older one that begins later is, unless the group may have been deleted in between. Nor is
// one whose member had been told a newer one.
func (c *Checker) judgeFenced(p *part, key registerKey, reg *register) {
	acked := newCommitSweep(reg.commits).acked
	var newest *commit
	next, forgotten := 0, int64(-never)
	for _, w := range reg.commits {
		if w.deletes && w.status != failed {
			forgotten = max(forgotten, w.ended)
		}
		if w.status != okay || w.generation == 0 {
			continue
		}
		c.checked[FencedCommit]++
		for ; next < len(acked) && acked[next].ended < w.began; next++ {
			if newest == nil || forgotten >= newest.began || acked[next].generation > newest.generation {
				newest = acked[next]
			}
		}
		about := subject{offset: w.offset, group: key.group, more: int64(w.generation)}
		switch {
		case newest != nil && newest.generation > w.generation && forgotten < newest.began:
			c.foundAs(FencedCommit, p, w.offset, about, func(a *Anomaly) {
				a.Detail = fmt.Sprintf("group %s: a commit of generation %d was acknowledged after one of generation %d", c.groups.texts[key.group], w.generation, newest.generation)
				a.Evidence = []Evidence{c.commitEvidence(newest), c.commitEvidence(w)}
			})
		case w.told != nil:
			c.foundAs(FencedCommit, p, w.offset, about, func(a *Anomaly) {
				a.Detail = fmt.Sprintf("group %s: a commit of generation %d was acknowledged, and its member had been told generation %d", c.groups.texts[key.group], w.generation, w.told.generation)
				a.Evidence = []Evidence{c.action("told", w.told.by), c.commitEvidence(w)}
			})
		}
	}
}
