package check

import (
	"cmp"
	"slices"
)

// Kind is a kind of anomaly; docs/history.md explains each.
type Kind string

// The kinds, in the order of the report.
const (
	InconsistentOffsets Kind = "inconsistent-offsets"
	Duplicate           Kind = "duplicate"
	Misplaced           Kind = "misplaced"
	AbortedRead         Kind = "aborted-read"
	Phantom             Kind = "phantom"
	EarlyRead           Kind = "early-read"
	LostWrite           Kind = "lost-write"
	Unseen              Kind = "unseen"
	PollSkip            Kind = "poll-skip"
	IntPollSkip         Kind = "int-poll-skip"
	NonmonotonicPoll    Kind = "nonmonotonic-poll"
	IntNonmonotonicPoll Kind = "int-nonmonotonic-poll"
	NonmonotonicSend    Kind = "nonmonotonic-send"
	RealTime            Kind = "real-time"
	LatestBack          Kind = "latest-back"
	DeletedRead         Kind = "deleted-read"
	StaleCommit         Kind = "stale-commit"
	PhantomCommit       Kind = "phantom-commit"
	FencedCommit        Kind = "fenced-commit"
	TwoOwners           Kind = "two-owners"
	StartSkip           Kind = "start-skip"
	ReplicaDiffers      Kind = "replica-differs"
	ReplicaHole         Kind = "replica-hole"
	EpochBack           Kind = "epoch-back"
	BeyondReplica       Kind = "beyond-replica"
	Unavailable         Kind = "availability"
)

// rule says what is counted as checked for a kind, and when it does not hold.
type rule struct {
	kind Kind
	unit string
	// firm rules say nothing about partitions where acknowledged records may be lost.
	firm bool
}

// rules has every kind once.
var rules = []rule{
	{kind: InconsistentOffsets, unit: "offsets", firm: true},
	{kind: Duplicate, unit: "idempotent values", firm: true},
	{kind: Misplaced, unit: "values seen"},
	{kind: AbortedRead, unit: "failed values"},
	{kind: Phantom, unit: "values seen"},
	{kind: EarlyRead, unit: "values read"},
	{kind: LostWrite, unit: "firm values", firm: true},
	{kind: Unseen, unit: "values times drains", firm: true},
	{kind: PollSkip, unit: "polls of a partition", firm: true},
	{kind: IntPollSkip, unit: "records read", firm: true},
	{kind: NonmonotonicPoll, unit: "polls of a partition", firm: true},
	{kind: IntNonmonotonicPoll, unit: "records read"},
	{kind: NonmonotonicSend, unit: "values in order", firm: true},
	{kind: RealTime, unit: "values", firm: true},
	{kind: LatestBack, unit: "end offsets", firm: true},
	{kind: DeletedRead, unit: "deletions"},
	{kind: StaleCommit, unit: "fetched offsets"},
	{kind: PhantomCommit, unit: "fetched offsets"},
	{kind: FencedCommit, unit: "commits"},
	{kind: TwoOwners, unit: "partitions assigned"},
	{kind: StartSkip, unit: "partitions taken over", firm: true},
	{kind: ReplicaDiffers, unit: "records of replicas"},
	{kind: ReplicaHole, unit: "records of replicas", firm: true},
	{kind: EpochBack, unit: "records of replicas"},
	{kind: BeyondReplica, unit: "replicas", firm: true},
	{kind: Unavailable, unit: "faults"},
}

// Anomaly is one thing that must not happen, with what it was seen from.
type Anomaly struct {
	Kind      Kind   `json:"kind"`
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Value     string `json:"value,omitempty"`
	Detail    string `json:"detail"`
	// Again is how often the same was seen once more: in other reads, drains or replicas. It is not counted as another anomaly.
	Again    int64      `json:"again,omitempty"`
	Evidence []Evidence `json:"evidence,omitempty"`
}

// Evidence is an operation of the history that an anomaly involves.
type Evidence struct {
	What   string `json:"what"`
	Client string `json:"client"`
	Op     int64  `json:"op"`
	// Began and Ended are the times of its events as they stand in the history, in nanoseconds; 0 is not known.
	Began int64 `json:"began,omitempty"`
	Ended int64 `json:"ended,omitempty"`
}

// tally counts the anomalies of one kind in one partition.
type tally struct {
	count   int64
	samples []sample
}

// sample is an anomaly that is shown, and how often it was seen again.
type sample struct {
	Anomaly
	again *int64
}

type tallyKey struct {
	kind Kind
	part int32 // index, -1 for none
}

// subject is what an anomaly is about, besides its kind and partition: one with the same subject is the same anomaly, seen again.
type subject struct {
	offset int64
	id     valueID
	group  int32
	more   int64
}

type sighting struct {
	tallyKey
	subject
}

// found counts an anomaly at an offset.
func (c *Checker) found(kind Kind, p *part, offset int64, describe func(a *Anomaly)) {
	c.foundAs(kind, p, offset, subject{offset: offset}, describe)
}

// foundAs counts an anomaly, once for each subject; describe is called only for those that will be shown.
func (c *Checker) foundAs(kind Kind, p *part, offset int64, about subject, describe func(a *Anomaly)) {
	key := tallyKey{kind: kind, part: -1}
	if p != nil {
		key.part = p.index
	}
	if again := c.sightings[sighting{key, about}]; again != nil {
		*again++
		return
	}
	again := new(int64)
	c.sightings[sighting{key, about}] = again
	t := c.tallies[key]
	if t == nil {
		t = &tally{}
		c.tallies[key] = t
	}
	t.count++
	if len(t.samples) >= c.options.Limit {
		return
	}
	a := Anomaly{Kind: kind, Partition: -1, Offset: offset}
	if p != nil {
		a.Topic, a.Partition = p.topic.id, p.number
	}
	describe(&a)
	t.samples = append(t.samples, sample{a, again})
}

// anomalies are what was found of one kind, without what its rule says nothing about: how many, and the first of them.
func (c *Checker) anomalies(r rule) (count int64, samples []Anomaly) {
	var keys []tallyKey
	for key := range c.tallies {
		if key.kind == r.kind {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b tallyKey) int { return cmp.Compare(a.part, b.part) })
	for _, key := range keys {
		if key.part >= 0 && c.exempt(r, c.parts[key.part]) {
			continue
		}
		count += c.tallies[key].count
		for _, s := range c.tallies[key].samples {
			s.Again = *s.again
			samples = append(samples, s.Anomaly)
		}
	}
	return count, samples[:min(len(samples), c.options.Limit)]
}

// exempt says that a rule does not hold in a partition.
func (c *Checker) exempt(r rule, p *part) bool {
	return r.firm && !p.firm()
}
