package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// Counts is what a history consists of.
type Counts struct {
	Events int64 `json:"events"`
	// Values are the records that were sent, Read those that polls returned.
	Values int64 `json:"values"`
	Read   int64 `json:"read"`
	// Undrained are firm acknowledged values above everything that was read, in partitions that no drain read to the end: neither lost nor there.
	Undrained int64 `json:"undrained"`

	Operations map[history.Kind]*Outcomes `json:"operations"`
}

// Outcomes counts the operations of one kind by how they ended. What never ended is among Info.
type Outcomes struct {
	Begun int64 `json:"begun"`
	OK    int64 `json:"ok"`
	Fail  int64 `json:"fail"`
	Info  int64 `json:"info"`
}

func (c *Counts) of(k history.Kind) *Outcomes {
	if c.Operations == nil {
		c.Operations = map[history.Kind]*Outcomes{}
	}
	o := c.Operations[k]
	if o == nil {
		o = &Outcomes{}
		c.Operations[k] = o
	}
	return o
}

// Check is what one kind of anomaly was looked for in, and how often it was found.
type Check struct {
	Kind      Kind   `json:"kind"`
	Checked   int64  `json:"checked"`
	Unit      string `json:"unit"`
	Anomalies int64  `json:"anomalies"`
}

// Report is the judgement of a history.
type Report struct {
	Counts       Counts       `json:"counts"`
	Checks       []Check      `json:"checks"`
	Anomalies    []Anomaly    `json:"anomalies"`
	Availability Availability `json:"availability"`
	// Notes say what could not be judged.
	Notes []string `json:"notes,omitempty"`
	// Start is the time of the first event, in nanoseconds: what the text form counts seconds from.
	Start int64 `json:"start"`
}

// Clean says that nothing was found.
func (r *Report) Clean() bool { return r.Total() == 0 }

// Total is how many anomalies were found, described or not.
func (r *Report) Total() int64 {
	var n int64
	for i := range r.Checks {
		n += r.Checks[i].Anomalies
	}
	return n
}

// Report runs the checks that need the whole history. Call it once, after the last Add.
func (c *Checker) Report() *Report {
	c.unfinished()
	c.leaveAll()
	c.judgeValues()
	parts := slices.Clone(c.parts)
	slices.SortFunc(parts, func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.topic.id, b.topic.id), cmp.Compare(a.number, b.number))
	})
	for _, p := range parts {
		p.leaveOutDeleted()
		c.judgeGaps(p)
		c.judgeLost(p)
		floors := c.floorsOf(p)
		c.judgeRealTime(p, floors)
		c.judgeLatest(p, floors)
		c.judgeLogs(p, floors)
		p.slots.each(0, never, func(int64, *slot) bool { c.checked[InconsistentOffsets]++; return true })
	}
	c.judgeGroups()
	r := &Report{Availability: c.availability(), Start: c.first, Anomalies: []Anomaly{}}
	for _, rule := range rules {
		n, samples := c.anomalies(rule)
		r.Checks = append(r.Checks, Check{Kind: rule.kind, Checked: c.checked[rule.kind], Unit: rule.unit, Anomalies: n})
		r.Anomalies = append(r.Anomalies, samples...)
	}
	for op := range c.pending {
		c.counts.of(c.pending[op].kind).Info++
	}
	r.Counts = c.counts
	r.Notes = c.notes()
	return r
}

// notes say what the history leaves open.
func (c *Checker) notes() []string {
	var notes []string
	for _, file := range c.torn {
		notes = append(notes, file+" ends in the middle of a line: its recorder was killed, and what it had not written is unknown")
	}
	if n := len(c.pending); n > 0 {
		notes = append(notes, fmt.Sprintf("%d operations have no end: their outcome is unknown", n))
	}
	if n := c.counts.Undrained; n > 0 {
		notes = append(notes, fmt.Sprintf("%d acknowledged values are in no read and no drain that began after them read their partitions to the end: neither lost nor there", n))
	}
	incomplete, undated := 0, 0
	for _, p := range c.parts {
		for _, d := range p.drains {
			switch {
			case d.end < 0:
				incomplete++
			case d.began == never:
				undated++
			}
		}
	}
	if incomplete > 0 {
		notes = append(notes, fmt.Sprintf("%d drains of a partition did not reach its end: what they lack is not counted", incomplete))
	}
	if undated > 0 {
		notes = append(notes, fmt.Sprintf("of %d drains of a partition nobody told when they began: what they lack at or behind their ends is not counted", undated))
	}
	var soft []string
	emptied := 0
	for _, p := range c.parts {
		if !p.firm() {
			soft = append(soft, fmt.Sprintf("%s-%d", p.topic.id, p.number))
		}
		if p.emptied {
			emptied++
		}
	}
	if len(soft) > 0 {
		notes = append(notes, fmt.Sprintf("in %d partitions acknowledged records may be lost (relaxed, unclean), such as %s: what needs firm ones was not asked there", len(soft), soft[0]))
	}
	if emptied > 0 {
		notes = append(notes, fmt.Sprintf("in %d of these partitions records were deleted up to their end, and nobody said where that was", emptied))
	}
	return notes
}
