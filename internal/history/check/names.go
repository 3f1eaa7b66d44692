package check

import "math"

// never is a time behind all others.
const never = math.MaxInt64

// topic is one incarnation of a topic.
type topic struct {
	id      string
	relaxed bool // acknowledged records may be lost in all of it
	// underWay are the beginnings of its deletions that have not ended, goneFrom the first of those that did not fail, never for none.
	underWay []int64
	goneFrom int64
	parts    map[int32]*part
}

// part is what is known of one partition.
type part struct {
	topic   *topic
	number  int32
	index   int32 // in Checker.parts
	slots   slots
	relaxed bool  // acknowledged records may be lost
	emptied bool  // they were deleted up to an end that nobody said, or may have been
	lowest  int64 // below it nothing has to be there
	trims   []trim
	// covered are the ranges that some consumer read across.
	covered spans
	gaps    []gap
	// readable is for nextReadable, once all is known.
	readable []int64
	drains   []*drain
	logs     []*replicaLog
	ends     []endOffset
	// differs and copies are what replicas have that others do not, or not there.
	differs []differ
	copies  []copied
	// floors are what is known of the end but by acknowledgements, each above the one before.
	floors []floor
	// acked are the times at which sends were acknowledged.
	acked []int64
	// begun are the times at which sends began; stuck is when the first of those began that never ended, or never.
	begun []int64
	stuck int64
}

// firm says that nothing acknowledged may be lost here.
func (p *part) firm() bool { return !p.relaxed && !p.emptied && !p.topic.relaxed }

// names gives small numbers to what a history names.
type names struct {
	clients map[string]int32
	texts   []string // of clients; 0 is nobody
	first   []int64  // times of their first events, never for none
	topics  map[string]*topic
}

func newNames() names {
	return names{clients: map[string]int32{}, texts: []string{""}, first: []int64{never}, topics: map[string]*topic{}}
}

func (n *names) client(name string) int32 {
	i, ok := n.clients[name]
	if !ok {
		i = int32(len(n.texts))
		n.clients[name] = i
		n.texts = append(n.texts, name)
		n.first = append(n.first, never)
	}
	return i
}

func (n *names) topic(id string) *topic {
	t := n.topics[id]
	if t == nil {
		t = &topic{id: id, goneFrom: never, parts: map[int32]*part{}}
		n.topics[id] = t
	}
	return t
}

// part finds a partition, or nil where it is not known yet.
func (c *Checker) part(id string, number int32) *part {
	if id == "" || number < 0 {
		return nil
	}
	t := c.names.topic(id)
	p := t.parts[number]
	if p == nil {
		p = &part{topic: t, number: number, index: int32(len(c.parts)), stuck: never}
		t.parts[number] = p
		c.parts = append(c.parts, p)
	}
	return p
}
