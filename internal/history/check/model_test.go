package check

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/moldau-log/moldau/internal/history"
)

// model is a broker that makes no mistake, small enough to be believed: logs, one group with two members, and clients whose operations overlap. It
// writes the history of a run. An operation begins, has its effect, and is answered, in this order, at times that chance chooses; an unknown one is answered
// first, and has its effect later or never.
type model struct {
	random  *rand.Rand
	time    int64
	events  []history.Event
	ops     map[string]int64
	logs    []modelLog
	running []*running

	committed  map[int32]int64
	generation int32
	members    []*modelMember
}

type modelLog struct {
	records []history.Record
	end     int64
	start   int64
	epoch   int32
}

// running is an operation under way. effect may be nil once it was had.
type running struct {
	client   string
	event    history.Event
	effect   func(e *history.Event)
	answered bool
}

type modelMember struct {
	name string
	next map[int32]int64
	busy bool
}

const (
	modelPartitions = 3
	modelBrokers    = 3
)

// generate is a correct history.
func generate(seed uint64, steps int) []history.Event {
	m := &model{random: rand.New(rand.NewPCG(seed, 1)), time: 1, ops: map[string]int64{}, logs: make([]modelLog, modelPartitions), committed: map[int32]int64{}}
	m.members = []*modelMember{{name: "m0", next: map[int32]int64{}}, {name: "m1", next: map[int32]int64{}}}
	readers := []*modelMember{{name: "r0", next: map[int32]int64{}}, {name: "r1", next: map[int32]int64{}}}
	m.rebalance()
	for range steps {
		switch m.random.IntN(12) {
		case 0, 1, 2, 3:
			m.send()
		case 4, 5:
			m.poll(readers[m.random.IntN(2)], history.Event{Kind: history.Poll})
		case 6:
			member := m.members[m.random.IntN(2)]
			m.poll(member, history.Event{Kind: history.Poll, Group: "g", Member: member.name})
		case 7:
			m.commit()
		case 8:
			m.ask()
		case 9:
			m.rare(readers)
		}
		for range 2 {
			m.proceed()
		}
	}
	for len(m.running) > 0 {
		m.proceed()
	}
	m.end()
	return m.events
}

// tick moves the time, not always: two things may happen at once.
func (m *model) tick() { m.time += m.random.Int64N(4) }

func (m *model) write(e history.Event) {
	m.tick()
	e.Time = m.time
	e.Records = slices.Clone(e.Records)
	m.events = append(m.events, e)
}

// begin writes the invoke of an operation; effect will fill in what its answer carries.
func (m *model) begin(e history.Event, effect func(*history.Event)) {
	m.ops[e.Client]++
	e.Op, e.Type = m.ops[e.Client], history.Invoke
	m.write(e)
	m.running = append(m.running, &running{client: e.Client, event: e, effect: effect})
}

// now writes an event that is not under way for a while.
func (m *model) now(e history.Event) {
	m.ops[e.Client]++
	e.Op, e.Type = m.ops[e.Client], history.OK
	m.write(e)
}

// proceed lets one operation have its effect, or be answered. A client's operations have their effects in their order.
func (m *model) proceed() {
	if len(m.running) == 0 {
		return
	}
	i := m.random.IntN(len(m.running))
	r := m.running[i]
	for j := range i {
		if m.running[j].client == r.client && m.running[j].effect != nil {
			i, r = j, m.running[j]
			break
		}
	}
	if r.effect != nil && !r.answered && m.random.IntN(12) == 0 && (r.event.Kind == history.Send || r.event.Kind == history.Commit) {
		r.event.Type = history.Info
		m.write(history.Event{Client: r.client, Op: r.event.Op, Type: history.Info, Kind: r.event.Kind})
		r.answered = true
		return
	}
	if r.effect != nil {
		r.event.Type = history.OK
		if r.answered && m.random.IntN(2) == 0 {
			r.effect = nil // it never happens
		} else {
			r.effect(&r.event)
			r.effect = nil
		}
		if !r.answered {
			return
		}
	}
	if !r.answered {
		m.write(r.event)
	}
	m.running = slices.DeleteFunc(m.running, func(x *running) bool { return x == r })
}

// send begins a send of one or two records of one producer to one partition. Now and then it is refused, or weak and lost.
func (m *model) send() {
	client := []string{"p0", "p1", "p2"}[m.random.IntN(3)]
	p := m.random.Int32N(modelPartitions)
	e := history.Event{Client: client, Kind: history.Send}
	for range 1 + m.random.IntN(2) {
		m.ops[client+" seq"]++
		v := history.Value{Client: client, Seq: m.ops[client+" seq"]}
		e.Records = append(e.Records, history.Record{Topic: "t", Partition: p, Offset: history.Unknown, Epoch: history.Unknown, Value: v.String()})
	}
	if m.random.IntN(10) == 0 {
		e.Acks = history.AcksLeader
	}
	fails := m.random.IntN(15) == 0
	m.begin(e, func(e *history.Event) {
		if fails {
			e.Type = history.Fail
			return
		}
		e.Records = slices.Clone(e.Records)
		lost := e.Acks == history.AcksLeader && m.random.IntN(3) == 0
		m.append(p, e.Records, lost)
	})
}

func (m *model) append(p int32, records []history.Record, lost bool) {
	log := &m.logs[p]
	if m.random.IntN(20) == 0 {
		log.end++ // a gap, as a marker leaves it
	}
	if m.random.IntN(20) == 0 {
		log.epoch++
	}
	end := log.end
	for i := range records {
		records[i].Offset = end
		stored := records[i]
		stored.Epoch, stored.CRC = log.epoch, uint32(end)+1
		if end++; !lost {
			log.records = append(log.records, stored)
		}
	}
	if !lost {
		log.end = end
	}
}

// poll begins a poll of a consumer that has none under way: some records of some of its partitions.
func (m *model) poll(c *modelMember, e history.Event) {
	if c.busy || len(c.next) == 0 && e.Group != "" {
		return
	}
	c.busy = true
	e.Client = c.name
	m.begin(e, func(e *history.Event) {
		c.busy = false
		for p := range int32(modelPartitions) {
			next, owned := c.next[p]
			if e.Group != "" && !owned || m.random.IntN(2) == 0 {
				continue
			}
			got := m.logs[p].read(next, 1+m.random.IntN(5))
			if len(got) > 0 {
				c.next[p] = got[len(got)-1].Offset + 1
			}
			e.Records = append(e.Records, got...)
		}
	})
}

// read is what a log has from an offset on.
func (l *modelLog) read(from int64, most int) []history.Record {
	at, _ := slices.BinarySearchFunc(l.records, max(from, l.start), func(r history.Record, o int64) int { return cmp.Compare(r.Offset, o) })
	got := slices.Clone(l.records[at:min(at+most, len(l.records))])
	for i := range got {
		got[i].CRC = 0
	}
	return got
}

// commit begins a commit by a member, of where it is.
func (m *model) commit() {
	c := m.members[m.random.IntN(2)]
	if c.busy || len(c.next) == 0 {
		return
	}
	e := history.Event{Client: c.name, Kind: history.Commit, Group: "g", Member: c.name, Generation: m.generation}
	for p := range int32(modelPartitions) {
		if next, ok := c.next[p]; ok {
			e.Records = append(e.Records, history.Record{Topic: "t", Partition: p, Offset: next, Epoch: history.Unknown})
		}
	}
	m.begin(e, func(e *history.Event) {
		if e.Generation != m.generation {
			e.Type = history.Fail
			return
		}
		for _, r := range e.Records {
			m.committed[r.Partition] = r.Offset
		}
	})
}

// ask begins a question for committed offsets or for ends.
func (m *model) ask() {
	if m.random.IntN(2) == 0 {
		m.begin(history.Event{Client: "n", Kind: history.Committed, Group: "g"}, func(e *history.Event) {
			for p := range int32(modelPartitions) {
				offset, ok := m.committed[p]
				if !ok {
					offset = history.Unknown
				}
				e.Records = append(e.Records, history.Record{Topic: "t", Partition: p, Offset: offset, Epoch: history.Unknown})
			}
		})
		return
	}
	m.begin(history.Event{Client: "n", Kind: history.Latest}, func(e *history.Event) {
		for p := range int32(modelPartitions) {
			e.Records = append(e.Records, history.Record{Topic: "t", Partition: p, Offset: m.logs[p].end, Epoch: history.Unknown})
		}
	})
}

// rare is a rebalance, a seek, a deletion of records, or a fault.
func (m *model) rare(readers []*modelMember) {
	switch m.random.IntN(8) {
	case 0, 1:
		m.rebalance()
	case 2, 3:
		c, p := readers[m.random.IntN(2)], m.random.Int32N(modelPartitions)
		if c.busy {
			return
		}
		c.next[p] = m.random.Int64N(m.logs[p].end + 1)
		m.now(history.Event{Client: c.name, Kind: history.Seek, Records: []history.Record{{Topic: "t", Partition: p, Offset: c.next[p], Epoch: history.Unknown}}})
	case 4:
		p := m.random.Int32N(modelPartitions)
		log := &m.logs[p]
		start := log.start + m.random.Int64N(log.end-log.start+1)/4
		m.begin(history.Event{Client: "a", Kind: history.Admin, Action: history.DeleteRecords, Records: []history.Record{{Topic: "t", Partition: p, Offset: start, Epoch: history.Unknown}}},
			func(*history.Event) { log.start = max(log.start, start) })
	}
}

// rebalance deals the partitions to the members, if neither is busy. A member that has a partition may keep it.
func (m *model) rebalance() {
	if m.members[0].busy || m.members[1].busy {
		return
	}
	m.generation++
	owner := make([]int, modelPartitions)
	for p := range owner {
		owner[p] = m.random.IntN(2)
	}
	for i, c := range m.members {
		e := history.Event{Client: c.name, Kind: history.Assign, Group: "g", Member: c.name, Generation: m.generation}
		next := map[int32]int64{}
		for p := range int32(modelPartitions) {
			if owner[p] != i {
				continue
			}
			start := int64(history.Kept)
			if at, had := c.next[p]; had {
				next[p] = at
			} else {
				start = max(m.committed[p], m.logs[p].start)
				next[p] = start
			}
			e.Records = append(e.Records, history.Record{Topic: "t", Partition: p, Offset: start, Epoch: history.Unknown})
		}
		c.next = next
		m.now(e)
	}
}

// end drains every partition from each broker, and dumps each replica.
func (m *model) end() {
	for b := range int32(modelBrokers) {
		c := &modelMember{name: "d" + string('0'+b), next: map[int32]int64{}}
		done := history.Event{Client: c.name, Kind: history.Admin, Action: history.Drained, Broker: b}
		for p := range int32(modelPartitions) {
			m.now(history.Event{Client: c.name, Kind: history.Seek, Records: []history.Record{{Topic: "t", Partition: p, Offset: 0, Epoch: history.Unknown}}})
			for {
				e := history.Event{Client: c.name, Kind: history.Poll, Action: history.Drain, Broker: b, Records: m.logs[p].read(c.next[p], 7)}
				if len(e.Records) == 0 {
					break
				}
				c.next[p] = e.Records[len(e.Records)-1].Offset + 1
				m.now(e)
			}
			done.Records = append(done.Records, history.Record{Topic: "t", Partition: p, Offset: m.logs[p].end, Epoch: history.Unknown})
		}
		m.now(done)
	}
	for b := range int32(modelBrokers) {
		for p := range int32(modelPartitions) {
			log := &m.logs[p]
			e := history.Event{Client: "dump", Kind: history.Replica, Broker: b, Records: slices.Clone(log.records)}
			e.Records = append(e.Records, history.Record{Topic: "t", Partition: p, Offset: log.end, Epoch: history.Unknown})
			m.now(e)
		}
	}
}
