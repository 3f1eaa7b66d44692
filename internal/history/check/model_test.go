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
	deleting   bool // the group: nobody joins
	vague      bool // deletions of the group may have an unknown outcome
}

// modelLog is the log of a leader. What lies below high is on every replica, and readable.
type modelLog struct {
	records []history.Record
	end     int64
	high    int64
	start   int64
	epoch   int32
	read    int64 // end of what was read
	unclean bool
}

// running is an operation under way. effect may be nil once it was had.
type running struct {
	client   string
	event    history.Event
	effect   func(e *history.Event)
	answered bool
	done     func()    // when it was answered; may be nil
	log      *modelLog // of a send, once it has its effect
	end      int64     // of its records there
	cut      bool      // they are gone
}

type modelMember struct {
	name string
	// ordered says that it numbers its commits: none of them has its effect behind a later one.
	ordered bool
	next    map[int32]int64
	busy    bool
}

const (
	modelPartitions = 3
	modelBrokers    = 3
)

// vagueSeeds are those from which on deletions of the group may have an unknown outcome, which leaves little to be known of it.
const vagueSeeds = 10_000

// generate is a correct history.
func generate(seed uint64, steps int) []history.Event {
	m := &model{random: rand.New(rand.NewPCG(seed, 1)), time: 1, ops: map[string]int64{}, logs: make([]modelLog, modelPartitions), committed: map[int32]int64{}}
	m.members = []*modelMember{{name: "m0", next: map[int32]int64{}}, {name: "m1", ordered: true, next: map[int32]int64{}}}
	readers := []*modelMember{{name: "r0", next: map[int32]int64{}}, {name: "r1", next: map[int32]int64{}}}
	m.logs[2].unclean = seed%5 == 4
	m.vague = seed >= vagueSeeds
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
	for i := range m.logs {
		m.logs[i].high = m.logs[i].end
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

// last is the operation that was begun last.
func (m *model) last() *running { return m.running[len(m.running)-1] }

// now writes an event that is not under way for a while.
func (m *model) now(e history.Event) {
	m.ops[e.Client]++
	e.Op, e.Type = m.ops[e.Client], history.OK
	m.write(e)
}

// proceed lets one operation have its effect, or be answered. A client's operations have their effects in their order, but for a commit that was given up and has no number: it may come as
// late as it likes.
func (m *model) proceed() {
	if len(m.running) == 0 {
		return
	}
	i := m.random.IntN(len(m.running))
	r := m.running[i]
	for j := range i {
		if m.running[j].client == r.client && m.running[j].effect != nil && !m.running[j].late() {
			i, r = j, m.running[j]
			break
		}
	}
	if r.effect != nil && r.late() && m.random.IntN(8) > 0 {
		return
	}
	if r.effect != nil && !r.answered && m.random.IntN(12) == 0 && m.mayBeUnknown(r) {
		r.event.Type = history.Info
		m.write(history.Event{Client: r.client, Op: r.event.Op, Type: history.Info, Kind: r.event.Kind, Action: r.event.Action})
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
	if !r.answered && !m.replicated(r) {
		return
	}
	if !r.answered {
		m.write(r.event)
	}
	if r.done != nil {
		r.done()
	}
	m.running = slices.DeleteFunc(m.running, func(x *running) bool { return x == r })
}

// mayBeUnknown says that an operation may be given up.
func (m *model) mayBeUnknown(r *running) bool {
	return r.event.Kind == history.Send || r.event.Kind == history.Commit || m.vague && r.event.Action == history.DeleteGroup
}

// late says that an operation may have its effect behind later ones of its client.
func (r *running) late() bool {
	return r.answered && r.event.Kind == history.Commit && !r.event.Ordered
}

// replicated says that an operation may be answered: the records of a firm send are readable by then. What was cut is not known to be there.
func (m *model) replicated(r *running) bool {
	switch {
	case r.log == nil || r.event.Type != history.OK:
		return true
	case r.cut:
		r.event.Type, r.event.Records = history.Info, nil
		return true
	case r.event.Acks != "" || r.log.high >= r.end:
		return true
	}
	r.log.high = r.log.high + m.random.Int64N(r.log.end-r.log.high+1)
	return false
}

// elect makes another replica the leader of a partition, which lacks some of what was not readable; or, where that was declared, some of what was.
func (m *model) elect(p int32) {
	log := &m.logs[p]
	low := log.high
	if log.unclean {
		low = max(log.start, log.read)
		m.now(history.Event{Client: "a", Kind: history.Admin, Action: history.Unclean, Records: []history.Record{{Topic: "t", Partition: p, Offset: history.Unknown, Epoch: history.Unknown}}})
	}
	to := low + m.random.Int64N(log.end-low+1)
	log.records = slices.DeleteFunc(log.records, func(r history.Record) bool { return r.Offset >= to })
	log.end, log.high = to, min(log.high, to)
	log.epoch++
	for _, r := range m.running {
		r.cut = r.cut || r.log == log && r.end > to
	}
}

// send begins a send of one or two records of one producer to one partition. Now and then it is refused, or weak and lost.
func (m *model) send() {
	client := []string{"p0", "p1", "p2", "p0", "p1", "p2", "loose"}[m.random.IntN(7)]
	p := m.random.Int32N(modelPartitions)
	e := history.Event{Client: client, Kind: history.Send, NotIdempotent: client == "loose"}
	for range 1 + m.random.IntN(2) {
		m.ops[client+" seq"]++
		v := history.Value{Client: client, Seq: m.ops[client+" seq"]}
		e.Records = append(e.Records, history.Record{Topic: "t", Partition: p, Offset: history.Unknown, Epoch: history.Unknown, Value: v.String()})
	}
	switch m.random.IntN(20) {
	case 0, 1:
		e.Acks = history.AcksLeader
	case 2:
		e.Acks = history.AcksNone
	}
	fails := m.random.IntN(15) == 0
	var r *running
	m.begin(e, func(e *history.Event) {
		if fails {
			e.Type = history.Fail
			return
		}
		e.Records = slices.Clone(e.Records)
		lost := e.Acks != "" && m.random.IntN(3) == 0
		if e.NotIdempotent && m.random.IntN(4) == 0 {
			m.append(p, slices.Clone(e.Records), false) // its own retry stores it twice
		}
		m.append(p, e.Records, lost)
		if r.log = &m.logs[p]; !lost {
			r.end = r.log.end
		}
		for i := range e.Records {
			if e.Acks == history.AcksNone {
				e.Records[i].Offset = history.Unknown
			}
		}
	})
	r = m.last()
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
		for p := range int32(modelPartitions) {
			next, owned := c.next[p]
			if e.Group != "" && !owned || m.random.IntN(2) == 0 {
				continue
			}
			got := m.logs[p].readFrom(next, 1+m.random.IntN(5))
			if len(got) > 0 {
				c.next[p] = got[len(got)-1].Offset + 1
			}
			e.Records = append(e.Records, got...)
		}
	})
	m.last().done = func() { c.busy = false }
}

// readFrom is what can be read of a log from an offset on.
func (l *modelLog) readFrom(from int64, most int) []history.Record {
	at, high := l.index(max(from, l.start)), l.index(l.high)
	got := slices.Clone(l.records[min(at, high):min(at+most, high)])
	for i := range got {
		got[i].CRC = 0
		l.read = max(l.read, got[i].Offset+1)
	}
	return got
}

func (l *modelLog) index(offset int64) int {
	at, _ := slices.BinarySearchFunc(l.records, offset, func(r history.Record, o int64) int { return cmp.Compare(r.Offset, o) })
	return at
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
			e.Records = append(e.Records, history.Record{Topic: "t", Partition: p, Offset: m.logs[p].high, Epoch: history.Unknown})
		}
	})
}

// rare is a rebalance, a seek, a deletion of records or of the group, an election, or what an administrator does.
func (m *model) rare(readers []*modelMember) {
	p := m.random.Int32N(modelPartitions)
	log := &m.logs[p]
	at := func(offset int64) []history.Record {
		return []history.Record{{Topic: "t", Partition: p, Offset: offset, Epoch: history.Unknown}}
	}
	switch m.random.IntN(13) {
	case 0, 1, 2:
		m.rebalance()
	case 3, 4:
		m.seek(readers[m.random.IntN(2)], p, m.random.Int64N(log.high+1))
	case 5:
		m.seek(m.members[m.random.IntN(2)], p, m.random.Int64N(log.high+1))
	case 6:
		start := log.start + m.random.Int64N(log.high-log.start+1)/4
		m.begin(history.Event{Client: "a", Kind: history.Admin, Action: history.DeleteRecords, Records: at(start)}, func(*history.Event) { log.start = max(log.start, min(start, log.high)) })
	case 7: // retention, and somebody who sees it
		log.start += m.random.Int64N(log.high-log.start+1) / 8
		m.now(history.Event{Client: "n", Kind: history.Admin, Action: history.LogStart, Records: at(log.start)})
	case 8, 9:
		m.elect(p)
	case 10:
		to := log.start + m.random.Int64N(log.high-log.start+1)
		m.begin(history.Event{Client: "reset", Kind: history.Commit, Group: "g", Records: at(to)}, func(*history.Event) { m.committed[p] = to })
	case 11:
		m.deleteGroup()
	case 12: // it has members
		m.begin(history.Event{Client: "b", Kind: history.Admin, Action: history.DeleteGroup, Group: "g"}, func(e *history.Event) { e.Type = history.Fail })
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
				e := history.Event{Client: c.name, Kind: history.Poll, Action: history.Drain, Broker: b, Records: m.logs[p].readFrom(c.next[p], 7)}
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
