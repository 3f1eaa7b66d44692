package kafka

import (
	"context"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
)

// dense is a request of size bytes whose one list has as many items as fit: head is what comes before the list, item the smallest one.
func dense(key, version int16, head string, item []byte, size int) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = append(b, 0, 0, 0, 1, 0xff, 0xff, 0) // correlation, no client id, no tags
	b = append(b, head...)
	const count, tags = 5, 1
	n := (size - len(b) - count - tags) / len(item)
	b = binary.AppendUvarint(b, uint64(n)+1)
	for range n {
		b = append(b, item...)
	}
	b = append(b, 0)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// What a request decodes to is many times its size if it lists what is empty, or tags what nobody knows. Each kind has its bound: above it the connection ends with one line
// in the log, and memory for the bytes that came is all that it has cost (case 108).
func TestCase108_ARequestDoesNotDecodeToManyTimesItsSize(t *testing.T) {
	const size, most = 8 << 20, 48 << 20 // most leaves room for the pooled frame as it grows, and for this test
	const join, sync, produce = "\x02g\x00\x00\x27\x10\x00\x00\x27\x10\x01\x00\x09consumer", "\x02g\x00\x00\x00\x01\x02m\x00", "\x00\x00\x01\x00\x00\x0a\x00"
	empty, tagged := []byte{1, 1, 0}, []byte{1, 1, 1, 99, 0}
	for name, frame := range map[string][]byte{
		"join": dense(11, 7, join, empty, size), "join with tags": dense(11, 7, join, tagged, size),
		"sync": dense(14, 4, sync, empty, size), "sync with tags": dense(14, 4, sync, tagged, size), "a small sync": dense(14, 4, sync, empty, groupStructure),
		"produce": dense(0, 9, produce, empty, size), "produce with tags": dense(0, 9, produce, tagged, size),
		"metadata": dense(3, 9, "", []byte{1, 0}, size), "delete groups": dense(42, 2, "", []byte{1}, size),
	} {
		d := openDoorOf(t, Config{}, newFakeBroker(), newFullBroker(), fakeGroups{})
		c := d.dial()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = c.Write(frame) // it fails when the door has closed already
		c.closed()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > most {
			t.Errorf("%s: %d MiB for a request of %d", name, n>>20, len(frame)>>20)
		}
		if log := d.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "above the bound") {
			t.Errorf("%s: logged:\n%s", name, log)
		}
		waitFor(t, name+": the release of everything", func() bool {
			return d.s.held.Held() == 0 && d.s.working.Held() == 0 && d.s.producing.Held() == 0
		})
	}
}

// waitingGroups shows what a request holds while it waits in its group.
type waitingGroups struct {
	fakeGroups
	came, leave chan struct{}
}

func (g waitingGroups) JoinGroup(ctx context.Context, r consumergroup.JoinRequest) (consumergroup.JoinResponse, error) {
	g.came <- struct{}{}
	<-g.leave
	return g.fakeGroups.JoinGroup(ctx, r)
}

// A member that waits for the others of its group leaves the work to other requests, however large its own was (case 108).
func TestCase108_WhoWaitsForAGroupHoldsNoWork(t *testing.T) {
	f, groups := newFakeBroker(), waitingGroups{came: make(chan struct{}), leave: make(chan struct{})}
	d := openDoorOf(t, Config{}, f, f, groups)
	c := d.dial()
	req := &kmsg.JoinGroupRequest{Version: 7, Group: "g", ProtocolType: strings.Repeat("p", 2*largeRequest)}
	d.s.working.Give(-1) // a budget that is in use shows that the request takes its part
	c.send(req)
	<-groups.came
	if n := d.s.working.Held(); n != 1 {
		t.Errorf("%d bytes of work are taken", n)
	}
	close(groups.leave)
	c.answer(req)
	d.s.working.Give(1)
}

// manyPartitions is a Produce request whose structure is large: one batch that is good, and many that are empty.
func manyPartitions(t *testing.T, acks int16) *kmsg.ProduceRequest {
	req := produceRequest(t, "v", acks)
	topic := &req.Topics[0]
	topic.Partitions = append(topic.Partitions, make([]kmsg.ProduceRequestTopicPartition, largeProduce)...)
	return req
}

// A Produce request with very many partitions holds its part until it is answered, and no second one of its connection joins it. Records count for nothing in that: while all
// of it is taken, large batches pass (case 108).
func TestCase108_AProduceOfManyPartitionsGoesAlone(t *testing.T) {
	d := openDoor(t, Config{})
	c, other := d.dial(), d.dial()
	req := manyPartitions(t, 1)
	c.send(req)
	c.send(produceRequest(t, "next", 1))
	<-d.broker.came
	taken := d.s.producing.Held()
	if taken < largeProduce || taken > workingBytes {
		t.Fatalf("%d bytes are taken", taken)
	}
	d.s.producing.Give(int(taken - workingBytes)) // nothing is left
	large := produceRequest(t, strings.Repeat("x", 900_000), 1)
	other.send(large)
	<-d.broker.came
	if got := len(d.broker.batch(1).req.Batch); got < 900_000 {
		t.Fatalf("the second batch has %d bytes: it joined a large request", got)
	}
	d.s.producing.Give(int(workingBytes - taken))
	d.broker.batch(0).done(broker.ProduceResult{LogAppendMs: -1})
	c.answer(req)
	<-d.broker.came
	for i := 1; i < 3; i++ {
		d.broker.batch(i).done(broker.ProduceResult{LogAppendMs: -1})
	}
	other.answer(large)
	c.frame()
	waitFor(t, "the release of the budget", func() bool { return d.s.producing.Held() == 0 })
	unheard := manyPartitions(t, 0)
	c.send(unheard)
	<-d.broker.came
	d.broker.batch(3).done(broker.ProduceResult{LogAppendMs: -1})
	c.closed() // its empty batches were refused
	waitFor(t, "the release of the budget", func() bool { return d.s.producing.Held() == 0 })
}

// The walk finds the payload of every version, sees where a body is cut, and allocates nothing.
func TestWalk_FindsThePayload(t *testing.T) {
	const payloadBytes = 3000
	records := make([]byte, payloadBytes/3)
	name := "a name"
	for key, row := range table() {
		if !payload(key) {
			continue
		}
		for version := row.least(); version <= row.max; version++ {
			var req kmsg.Request
			switch key {
			case kmsg.Produce.Int16():
				p := kmsg.ProduceRequestTopicPartition{Records: records}
				p.UnknownTags.Set(7, []byte("tag"))
				topics := []kmsg.ProduceRequestTopic{{Topic: name, Partitions: []kmsg.ProduceRequestTopicPartition{p, {}, p}}, {Partitions: []kmsg.ProduceRequestTopicPartition{p}}}
				req = &kmsg.ProduceRequest{Version: version, TransactionID: &name, Topics: topics}
			case kmsg.JoinGroup.Int16():
				p := kmsg.JoinGroupRequestProtocol{Name: name, Metadata: records}
				p.UnknownTags.Set(7, []byte("tag"))
				req = &kmsg.JoinGroupRequest{Version: version, Group: name, MemberID: name, InstanceID: &name, ProtocolType: name, Protocols: []kmsg.JoinGroupRequestProtocol{p, p, {}, p}, Reason: &name}
			default:
				a := kmsg.SyncGroupRequestGroupAssignment{MemberID: name, MemberAssignment: records}
				req = &kmsg.SyncGroupRequest{Version: version, Group: name, MemberID: name, InstanceID: &name, ProtocolType: &name, Protocol: &name, GroupAssignment: []kmsg.SyncGroupRequestGroupAssignment{a, a, {}, a}}
			}
			body := req.AppendTo(nil)
			pass := func(body []byte) walk {
				w := walk{rest: body, flexible: req.IsFlexible()}
				w.pass(key, version)
				return w
			}
			if w := pass(body); w.short || w.payload != payloadBytes || w.items != 4 || len(w.rest) != 0 {
				t.Errorf("%s version %d: short %v, payload %d in %d items, %d bytes left", kmsg.NameForKey(key), version, w.short, w.payload, w.items, len(w.rest))
			}
			for n := range body {
				if !pass(body[:n]).short {
					t.Errorf("%s version %d cut at %d of %d: not seen", kmsg.NameForKey(key), version, n, len(body))
				}
			}
			if n := testing.AllocsPerRun(10, func() { pass(body) }); n != 0 {
				t.Errorf("%s version %d: %v allocations", kmsg.NameForKey(key), version, n)
			}
		}
	}
}

// askedBroker notes in whose name topics are looked for.
type askedBroker struct {
	*fakeBroker
	asked []context.Context
}

func (a *askedBroker) Topic(ctx context.Context, ref broker.TopicRef) (*cluster.Topic, error) {
	a.asked = append(a.asked, ctx)
	return a.fakeBroker.Topic(ctx, ref)
}

// Unknown topics of one Produce are looked for in the name of one request, so that the controller is asked once; the next request asks anew.
func TestProduce_UnknownTopicsAreOneQuestion(t *testing.T) {
	a := &askedBroker{fakeBroker: newFakeBroker()}
	c := openDoorOf(t, Config{}, a.fakeBroker, a, nil).dial()
	for range 2 {
		req := produceRequest(t, "v", 1)
		topic := req.Topics[0]
		req.Topics = nil
		for _, name := range []string{"one", "two", "three"} {
			topic.Topic = name
			req.Topics = append(req.Topics, topic)
		}
		c.send(req)
		for range req.Topics {
			<-a.came
		}
		a.mu.Lock()
		for _, p := range a.produced {
			p.done(broker.ProduceResult{Code: cluster.CodeUnknownTopic, BaseOffset: -1})
		}
		a.produced = nil
		a.mu.Unlock()
		c.answer(req)
	}
	if len(a.asked) != 6 || a.asked[0] != a.asked[2] || a.asked[3] != a.asked[5] || a.asked[0] == a.asked[3] {
		t.Errorf("%d questions in the name of %v", len(a.asked), a.asked)
	}
}
