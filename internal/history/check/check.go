package check

import (
	"fmt"

	"github.com/moldau-log/moldau/internal/history"
)

// Options shape a check; the zero value is a good one.
type Options struct {
	// Limit bounds how many anomalies of each kind are described; all are counted. 0 is DefaultLimit.
	Limit int
	// MaxGap and MaxRecovery, in nanoseconds, make long times without an acknowledged send an anomaly; 0 does not.
	MaxGap, MaxRecovery int64
}

// DefaultLimit is how many anomalies of each kind are described.
const DefaultLimit = 10

// Checker judges one history. Give it every event, then ask for the Report once.
type Checker struct {
	options Options
	names   names
	parts   []*part
	values  values
	pending map[opKey]*operation
	// sessions are what consumers are reading, by client and partition.
	sessions map[int32]map[int32]*session
	groups   groups
	faults   []faultWindow
	tallies  map[tallyKey]*tally
	// sightings are, by anomaly, how often it was seen again.
	sightings map[sighting]*int64
	counts    Counts
	// checked counts for each kind what it was held against.
	checked     map[Kind]int64
	first, last int64 // times of the history
	torn        []string
	full        history.Event // see completed
}

// New makes a checker.
func New(o Options) *Checker {
	if o.Limit <= 0 {
		o.Limit = DefaultLimit
	}
	return &Checker{
		options: o, names: newNames(), values: newValues(), groups: newGroups(),
		pending: map[opKey]*operation{}, sessions: map[int32]map[int32]*session{}, tallies: map[tallyKey]*tally{}, sightings: map[sighting]*int64{}, checked: map[Kind]int64{},
	}
}

// Add takes the next event and keeps nothing of it. An error says that the recorder broke the format's rules; the history cannot be judged then.
func (c *Checker) Add(e *history.Event) error {
	if c.counts.Events == 0 {
		c.first, c.last = e.Time, e.Time
	}
	c.first, c.last = min(c.first, e.Time), max(c.last, e.Time)
	c.counts.Events++
	if err := c.add(e); err != nil {
		return fmt.Errorf("check: client %s, op %d, %s %s at %d: %w", e.Client, e.Op, e.Kind, e.Type, e.Time, err)
	}
	return nil
}

func (c *Checker) add(e *history.Event) error {
	client := c.names.client(e.Client)
	c.names.first[client] = min(c.names.first[client], e.Time)
	if e.Type == history.Invoke {
		if err := wholeInvoke(e); err != nil {
			return err
		}
		return c.begin(client, e)
	}
	op, err := c.end(client, e)
	if err != nil {
		return err
	}
	e = c.completed(op, e)
	if err := whole(op, e); err != nil {
		return err
	}
	switch e.Kind {
	case history.Send:
		return c.sent(op, e)
	case history.Poll:
		return c.polled(client, op, e)
	case history.Commit:
		c.committed(op, e)
	case history.Committed:
		c.fetched(op, e)
	case history.Latest:
		c.latest(client, op, e)
	case history.Assign:
		c.assigned(client, op, e)
	case history.Seek:
		c.sought(client, e)
	case history.Admin:
		return c.administered(client, op, e)
	case history.Replica:
		return c.dumped(client, op, e)
	case history.Fault:
		c.healed(op, e)
	case history.Join:
		c.groups.tell(client, op, e)
	}
	return nil
}

// Torn notes that a file ends in the middle of a line.
func (c *Checker) Torn(file string) { c.torn = append(c.torn, file) }
