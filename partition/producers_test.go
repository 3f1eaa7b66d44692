package partition

import (
	"bytes"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

func TestCase66_RetryGetsTheOriginalsOffset(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1)
	for seq, v := range []string{"a", "b", "c", "d", "e", "f"} {
		k.checkProduced(k.produce(sent{id: 9, seq: record.Sequence(seq), values: []string{v}}.bytes(t), AcksISR), cluster.CodeNone, record.Offset(seq))
	}
	for _, acks := range []Acks{AcksISR, AcksLeader, AcksNone} {
		k.checkProduced(k.produce(sent{id: 9, seq: 1, values: []string{"b"}}.bytes(t), acks), cluster.CodeNone, 1)
	}
	// The first is beyond the window of five: known to be old, its offset is not known any more.
	k.checkProduced(k.produce(sent{id: 9, seq: 0, values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeDuplicateSequence, -1)
	k.checkValues("a", "b", "c", "d", "e", "f")
}

func TestCase66_RetryWhileTheOriginalWaits(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	r := k.topic(2, 1)
	deadline := k.clock.Now() + 1<<40
	original := call(r, sent{id: 9, seq: 0, values: []string{"a"}}.bytes(t), AcksISR, deadline)
	retry := call(r, sent{id: 9, seq: 0, values: []string{"a"}}.bytes(t), AcksISR, deadline)
	k.awaitStatus("both waiting", func(s Status) bool { return s.Waiting == 2 && s.LogEnd == 1 })
	old, _ := k.image.Partition(testTP)
	alone := old.Clone()
	alone.ISR, alone.PartitionEpoch = []cluster.BrokerID{1}, alone.PartitionEpoch+1
	k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, alone) })
	k.reconcile()
	k.checkProduced(k.answer(original), cluster.CodeNone, 0)
	k.checkProduced(k.answer(retry), cluster.CodeNone, 0)
	k.checkValues("a")
}

func TestCase68_FiveInFlightAndTheFirstFails(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1)
	k.put(testTP, 3, 1, 2)
	full, _ := k.image.Partition(testTP)
	alone := full.Clone()
	alone.ISR, alone.PartitionEpoch = []cluster.BrokerID{1}, full.PartitionEpoch+1
	k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, alone) })
	k.reconcile()
	batch := func(seq int) []byte {
		return sent{id: 9, seq: record.Sequence(seq), values: []string{fmt.Sprint(seq)}}.bytes(t)
	}
	k.checkProduced(k.produce(batch(0), AcksISR), cluster.CodeNotEnoughReplicas, -1)
	// Now the set is whole again, and the other four arrive before the retry of the first.
	back := full.Clone()
	back.PartitionEpoch, back.ISR, back.Replicas = full.PartitionEpoch+2, []cluster.BrokerID{1}, []cluster.BrokerID{1}
	back.Directories = back.Directories[:1]
	k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, back) })
	k.reconcile()
	for seq := 1; seq < 5; seq++ {
		k.checkProduced(k.produce(batch(seq), AcksISR), cluster.CodeOutOfOrderSequence, -1)
	}
	for seq := range 5 {
		k.checkProduced(k.produce(batch(seq), AcksISR), cluster.CodeNone, record.Offset(seq))
	}
	k.checkValues("0", "1", "2", "3", "4")
}

// The first of several in flight reaches a replica that does not lead yet, the others when it does: none of them goes before the first.
func TestCase68_TheFirstComesBeforeTheElection(t *testing.T) {
	for name, first := range map[string]func(k *kit, batch []byte){
		"refused by the replica": func(k *kit, batch []byte) {
			k.checkProduced(k.produce(batch, AcksISR), cluster.CodeNotLeader, -1)
		},
		"refused on its way": func(k *kit, batch []byte) { k.runner().NoteRefused(batch) },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, vfs.NewMem())
			k.topic(2, 2)
			batch := func(seq int) []byte {
				return sent{id: 9, seq: record.Sequence(seq), values: []string{fmt.Sprint(seq)}}.bytes(t)
			}
			first(k, batch(0))
			old, _ := k.image.Partition(testTP)
			alone := old.Clone()
			alone.Leader, alone.LeaderEpoch, alone.PartitionEpoch, alone.ISR = 1, old.LeaderEpoch+1, old.PartitionEpoch+1, []cluster.BrokerID{1}
			k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, alone) })
			k.reconcile()
			for seq := 1; seq < 5; seq++ { // another led when the first was refused, and it may have taken it since: nobody is told that something is missing
				k.checkProduced(k.produce(batch(seq), AcksISR), cluster.CodeNotLeader, -1)
			}
			for seq := range 5 {
				k.checkProduced(k.produce(batch(seq), AcksISR), cluster.CodeNone, record.Offset(seq))
			}
			k.checkValues("0", "1", "2", "3", "4")
		})
	}
}

// The disk has no room for the first, and has for the next.
func TestCase68_TheFirstFindsTheDiskFull(t *testing.T) {
	disk := vfs.NewInjector(vfs.NewMem(), nil)
	k := newKit(t, disk)
	k.topic(1, 1)
	batch := func(seq int) []byte {
		return sent{id: 9, seq: record.Sequence(seq), values: []string{fmt.Sprint(seq)}}.bytes(t)
	}
	disk.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "*.log", Count: 1, Err: syscall.ENOSPC})
	k.checkProduced(k.produce(batch(0), AcksISR), cluster.CodeStorage, -1)
	k.checkProduced(k.produce(batch(1), AcksISR), cluster.CodeOutOfOrderSequence, -1)
	for seq := range 3 {
		k.checkProduced(k.produce(batch(seq), AcksISR), cluster.CodeNone, record.Offset(seq))
	}
	k.checkValues("0", "1", "2")
}

// The first comes before the replica that is to take it has been made.
func TestCase68_TheFirstComesBeforeTheReplica(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	batch := func(seq int) []byte {
		return sent{id: 9, seq: record.Sequence(seq), values: []string{fmt.Sprint(seq)}}.bytes(t)
	}
	k.manager.NoteRefused(testTP, batch(0))
	k.manager.NoteRefused(testTP, []byte("no batch"))
	k.topic(1, 1)
	k.checkProduced(k.produce(batch(1), AcksISR), cluster.CodeNotLeader, -1)
	for seq := range 3 {
		k.checkProduced(k.produce(batch(seq), AcksISR), cluster.CodeNone, record.Offset(seq))
	}
	k.checkValues("0", "1", "2")
}

func TestEarlyRefusals_AreBounded(t *testing.T) {
	var e EarlyRefusals
	head := make([]byte, record.HeaderSize)
	other := cluster.TopicPartition{Topic: cluster.TopicID{8}}
	for range maxEarly {
		e.Note(other, head)
	}
	e.Note(testTP, head)
	if n, m := len(e.Take(testTP)), len(e.Take(other)); n != 1 || m != 0 || e.count != 0 {
		t.Errorf("%d of the newest, %d of the others, %d counted", n, m, e.count)
	}
}

// The first is refused by a replica that does not lead yet, and then stored by the one that does. All that the producer has written is deleted before the replica
// copies it, so it knows nothing of the producer when it leads: it neither tells it that a batch is missing, which clients take for a loss, nor refuses it for long,
// even if its clock is set back.
func TestCase68_TheFirstIsStoredElsewhereAndDeleted(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(2, 2)
	k.checkProduced(k.produce(sent{id: 9, seq: 37, values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNotLeader, -1)
	old, _ := k.image.Partition(testTP)
	alone := old.Clone()
	alone.Leader, alone.LeaderEpoch, alone.PartitionEpoch, alone.ISR = 1, old.LeaderEpoch+1, old.PartitionEpoch+1, []cluster.BrokerID{1}
	k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, alone) })
	k.reconcile()
	second := sent{id: 9, seq: 38, values: []string{"b"}}.bytes(t)
	k.clock.pass(doubtFor * 1e6)
	k.manager.Contact(k.clock.Now() + 1e12)
	for range 3 { // for less than doubtFor
		k.checkProduced(k.produce(second, AcksISR), cluster.CodeNotLeader, -1) // it comes here for the first time: the first may be on its way too
		k.clock.pass(doubtFor/2*1e6 - 1)
	}
	k.clock.wall.Add(-3_600_000)
	k.checkProduced(k.produce(second, AcksISR), cluster.CodeNotLeader, -1)
	k.clock.pass(doubtFor * 1e6)
	k.checkProduced(k.produce(second, AcksISR), cluster.CodeNone, 0)
	k.checkValues("b")
}

func TestCase70_ForgottenProducerIsLetIn(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	r := k.topic(1, 1)
	k.checkProduced(k.produce(sent{id: 9, seq: 0, values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.clock.pass(DefaultProducerExpiry + 1e9)
	k.manager.Contact(k.clock.Now() + 1e12)
	r.put(message{kind: kindMaintain}, 0)
	k.checkProduced(k.produce(sent{id: 9, seq: 41, values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.checkProduced(k.produce(sent{id: 9, seq: 41, values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.checkValues("a", "b")
}

// A producer whose batch waits for its acknowledgement sends it again and again, for longer than idle ones are remembered. It is not idle.
func TestCase70_WhoRepeatsIsNotForgotten(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	r := k.topic(1, 1)
	for range 4 {
		k.checkProduced(k.produce(sent{id: 9, seq: 0, values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
		k.clock.pass(DefaultProducerExpiry * 2 / 3)
		k.manager.Contact(k.clock.Now() + 1e12)
		r.put(message{kind: kindMaintain}, 0)
	}
	k.checkProduced(k.produce(sent{id: 9, seq: 1, values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.checkValues("a", "b")
}

// A producer writes what happened two days ago, and the broker stops right after that. What it remembers of the producer then is as young as its start.
func TestCase70_OldTimestampsOutliveAStart(t *testing.T) {
	mem := vfs.NewMem()
	k := newKit(t, mem)
	k.topic(1, 1)
	k.clock.pass(5 * DefaultProducerExpiry)
	k.manager.Contact(k.clock.Now() + 1e12)
	batch := sent{id: 9, seq: 0, ts: k.clock.WallMs() - 2*DefaultProducerExpiry.Milliseconds(), values: []string{"a"}}.bytes(t)
	k.checkProduced(k.produce(batch, AcksISR), cluster.CodeNone, 0)
	k.restart(mem.CrashClone())
	k.elect(1)
	k.manager.Contact(k.clock.Now() + 1e12)
	k.runner().put(message{kind: kindMaintain}, 0)
	k.checkProduced(k.produce(batch, AcksISR), cluster.CodeNone, 0)
	k.checkValues("a")
}

func TestCase71_SequenceWraps(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1)
	const last = 1<<31 - 1
	k.checkProduced(k.produce(sent{id: 9, seq: last - 1, values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.checkProduced(k.produce(sent{id: 9, seq: last, values: []string{"b", "c"}}.bytes(t), AcksISR), cluster.CodeNone, 1) // takes last and 0
	k.checkProduced(k.produce(sent{id: 9, seq: 1, values: []string{"d"}}.bytes(t), AcksISR), cluster.CodeNone, 3)
	k.checkProduced(k.produce(sent{id: 9, seq: 3, values: []string{"x"}}.bytes(t), AcksISR), cluster.CodeOutOfOrderSequence, -1)
	k.checkProduced(k.produce(sent{id: 9, seq: last, values: []string{"b", "c"}}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.checkProduced(k.produce(sent{id: 9, seq: last - 7, values: []string{"x"}}.bytes(t), AcksISR), cluster.CodeDuplicateSequence, -1)
	k.checkValues("a", "b", "c", "d")
}

func TestCase74_OldProducerEpochIsFenced(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(1, 1)
	k.checkProduced(k.produce(sent{id: 9, epoch: 0, seq: 0, values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.checkProduced(k.produce(sent{id: 9, epoch: 2, seq: 5, values: []string{"x"}}.bytes(t), AcksISR), cluster.CodeOutOfOrderSequence, -1)
	k.checkProduced(k.produce(sent{id: 9, epoch: 2, seq: 0, values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.checkProduced(k.produce(sent{id: 9, epoch: 1, seq: 0, values: []string{"x"}}.bytes(t), AcksISR), cluster.CodeFencedProducer, -1)
	k.checkProduced(k.produce(sent{id: 9, epoch: 0, seq: 0, values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeFencedProducer, -1)
	k.checkValues("a", "b")
}

// A new epoch begins with sequence 0, and what it sends next is no repeat of what the old one sent under the same numbers.
func TestCase74_ANewEpochRepeatsNothing(t *testing.T) {
	disk := vfs.NewMem()
	k := newKit(t, disk)
	k.topic(1, 1)
	batch := func(epoch record.ProducerEpoch, seq record.Sequence, value string) []byte {
		return sent{id: 9, epoch: epoch, seq: seq, values: []string{value}}.bytes(t)
	}
	for i, value := range []string{"a", "b", "c"} {
		k.checkProduced(k.produce(batch(0, record.Sequence(i), value), AcksISR), cluster.CodeNone, record.Offset(i))
	}
	k.checkProduced(k.produce(batch(1, 0, "d"), AcksISR), cluster.CodeNone, 3)
	k.checkProduced(k.produce(batch(1, 2, "x"), AcksISR), cluster.CodeOutOfOrderSequence, -1)
	k.restart(disk.CrashClone()) // it is so for who has it from the log, too
	k.elect(1)
	k.checkProduced(k.produce(batch(1, 1, "e"), AcksISR), cluster.CodeNone, 4)
	k.checkProduced(k.produce(batch(1, 0, "d"), AcksISR), cluster.CodeNone, 3)
	k.checkValues("a", "b", "c", "d", "e")
}

func TestFollowerKeepsProducerState(t *testing.T) {
	k := newKit(t, vfs.NewMem())
	k.topic(2, 2)
	b, err := record.Parse(sent{id: 9, seq: 4, values: []string{"a"}}.bytes(t))
	k.check(err)
	b.Stamp(0, 1)
	k.manager.Data(testTP, 1, dataOf(b, 0), func() {})
	k.elect(1)
	alone, _ := k.image.Partition(testTP)
	p := alone.Clone()
	p.ISR, p.PartitionEpoch = []cluster.BrokerID{1}, p.PartitionEpoch+1
	k.change(func(txn *cluster.Txn) { txn.PutPartition(testTP, p) })
	k.reconcile()
	k.checkProduced(k.produce(sent{id: 9, seq: 4, values: []string{"a"}}.bytes(t), AcksISR), cluster.CodeNone, 0)
	k.checkProduced(k.produce(sent{id: 9, seq: 5, values: []string{"b"}}.bytes(t), AcksISR), cluster.CodeNone, 1)
	k.checkValues("a", "b")
}

// manyProducers is a state with every field in use.
func manyProducers() *Producers {
	p := newProducers()
	for id := record.ProducerID(1); id <= 20; id++ {
		for seq := range record.Sequence(id) {
			b := record.NewBuilder(record.BuilderOptions{ProducerID: id, ProducerEpoch: record.ProducerEpoch(id), BaseSequence: seq})
			b.Append(1, nil, nil, nil)
			batch, err := b.Build()
			if err != nil {
				panic(err)
			}
			batch.Stamp(record.Offset(id)*100+record.Offset(seq), 1)
			p.apply(batch.Head, int64(id)*1000)
		}
	}
	return p
}

func TestProducerSnapshot_RoundTrip(t *testing.T) {
	was := manyProducers()
	b := was.encode()
	is, err := decodeProducers(b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(is.encode(), b) || is.len() != was.len() {
		t.Error("the decoded state is another one")
	}
	for id, p := range was.known {
		if *is.known[id] != *p {
			t.Errorf("producer %d: %+v, was %+v", id, is.known[id], p)
		}
	}
	for n := range b {
		if _, err := decodeProducers(b[:n]); err == nil {
			t.Fatalf("%d of %d bytes are accepted", n, len(b))
		}
	}
	if _, err := decodeProducers(append(slices.Clone(b), 0)); err == nil {
		t.Error("a byte too many is accepted")
	}
}

// TestProducerSnapshot_Golden pins the format.
func TestProducerSnapshot_Golden(t *testing.T) {
	p := newProducers()
	p.known[0x0102] = &producer{epoch: 3, count: 1, lastMs: 0x0405, window: [producerWindow]rememberedBatch{{first: 6, last: 7, base: 8, end: 10}}}
	want := []byte{
		0, 1, 0, 0, 0, 1,
		0, 0, 0, 0, 0, 0, 1, 2, 0, 3, 0, 0, 0, 0, 0, 0, 4, 5, 1,
		0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 10,
	}
	if got := p.encode(); !bytes.Equal(got, want) {
		t.Errorf("encoded as % x", got)
	}
}

func FuzzProducerSnapshot(f *testing.F) {
	f.Add(manyProducers().encode())
	f.Add([]byte{0, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeProducers(b)
		if err != nil {
			return
		}
		if again, err := decodeProducers(p.encode()); err != nil || again.len() != p.len() {
			t.Errorf("what was decoded does not encode: %v", err)
		}
	})
}

// TestProducers_AgainstAModel compares the window with a plain list of everything ever accepted.
func TestProducers_AgainstAModel(t *testing.T) {
	p := newProducers()
	next := record.Sequence(1<<31 - 40) // so that it wraps
	var accepted []record.Sequence
	for i := range 300 {
		b := record.NewBuilder(record.BuilderOptions{ProducerID: 1, BaseSequence: next})
		for range i%3 + 1 {
			b.Append(1, nil, nil, nil)
		}
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if v := p.check(batch.Head, 1, 0); v.code != cluster.CodeNone || v.original != nil {
			t.Fatalf("in sequence %d: %+v", next, v)
		}
		batch.Stamp(record.Offset(i*10), 1)
		p.apply(batch.Head, 0)
		accepted = append(accepted, next)
		next = batch.LastSequence().Next(1)
		for back, first := range slices.Backward(accepted) {
			age := len(accepted) - 1 - back
			old := record.NewBuilder(record.BuilderOptions{ProducerID: 1, BaseSequence: first})
			for range back%3 + 1 {
				old.Append(1, nil, nil, nil)
			}
			again, err := old.Build()
			if err != nil {
				t.Fatal(err)
			}
			v := p.check(again.Head, 1, 0)
			switch {
			case age < producerWindow && (v.original == nil || v.original.base != record.Offset(back*10)):
				t.Fatalf("batch %d of %d is not found: %+v", back, i, v)
			case age >= producerWindow && v.code != cluster.CodeDuplicateSequence:
				t.Fatalf("batch %d of %d: %+v", back, i, v)
			}
			if age > producerWindow+2 {
				break
			}
		}
	}
}
