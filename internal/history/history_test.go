package history

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// read reads a whole text and returns its events and the error that ended it.
func read(t testing.TB, text string) ([]Event, *Reader, error) {
	t.Helper()
	r := NewReader("test", strings.NewReader(text))
	var events []Event
	for {
		var e Event
		if err := r.Next(&e); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return events, r, err
		}
		events = append(events, e)
	}
}

var examples = []Event{
	{Time: 1, Client: "p1", Op: 1, Type: Invoke, Kind: Send, Acks: AcksLeader, NotIdempotent: true, Topic: "t",
		Records: []Record{{Topic: "t", Partition: Unknown, Offset: Unknown, Epoch: Unknown, Value: "p1/1/00000000"}}},
	{Time: 2, Client: "p1", Op: 1, Type: Info, Kind: Send, Error: "timed out \"twice\"\n\u00e4"},
	{Time: 3, Client: "c", Op: 7, Type: OK, Kind: Poll, Action: Drain, Broker: 0, Group: "g", Member: "m-1",
		Records: []Record{{Topic: "a", Partition: 0, Offset: 0, Epoch: 0, Value: "x"}, {Topic: "b", Partition: 3, Offset: 1 << 60, Epoch: 9}}},
	{Time: 4, Client: "c", Op: 8, Type: OK, Kind: Assign, Topic: "t", Generation: 5, Records: []Record{{Topic: "t", Offset: Kept, Epoch: Unknown}}},
	{Time: 5, Client: "d", Op: 9, Type: OK, Kind: Replica, Topic: "t", Broker: 2, Records: []Record{{Topic: "t", Offset: 4, Epoch: 1, CRC: 1<<32 - 1, Value: "x"}}},
	{Time: 5, Client: "m", Op: 2, Type: Invoke, Kind: Commit, Group: "g", Member: "m-1", Generation: 2, Ordered: true, Topic: "t", Records: []Record{{Topic: "t", Offset: 3, Epoch: Unknown}}},
	{Time: 6, Client: "n", Op: 1, Type: OK, Kind: Admin, Action: DeleteTopic, Topic: "t"},
}

func TestEventsSurviveAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jsonl")
	for range 2 { // the second writer goes on where the first stopped
		w, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range examples {
			if err := w.Write(&examples[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(&examples[0]); !errors.Is(err, ErrClosed) {
			t.Errorf("write after close: %v", err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := read(t, string(text))
	if err != nil || len(got) != 2*len(examples) {
		t.Fatalf("%d events, %v", len(got), err)
	}
	for i := range got {
		want := examples[i%len(examples)]
		if len(want.Records) > 1 {
			want.Topic = ""
		}
		if len(got[i].Records) == 0 {
			got[i].Records = nil
		}
		if !reflect.DeepEqual(got[i], want) {
			t.Errorf("event %d:\n got %+v\nwant %+v", i, got[i], want)
		}
	}
}

func TestTornLastLineIsTolerated(t *testing.T) {
	var whole []byte
	for i := range examples {
		whole = examples[i].AppendJSON(whole)
	}
	last := len(examples) - 1
	end := len(whole) - len(examples[last].AppendJSON(nil))
	for cut := end + 1; cut < len(whole)-1; cut++ {
		events, r, err := read(t, string(whole[:cut]))
		if err != nil || len(events) != last || !r.Torn() || r.Line() != last+1 {
			t.Fatalf("cut at %d: %d events, torn %v at line %d, %v", cut, len(events), r.Torn(), r.Line(), err)
		}
	}
	if events, r, err := read(t, string(whole[:len(whole)-1])); err != nil || len(events) != last+1 || r.Torn() {
		t.Errorf("without its newline: %d events, torn %v, %v", len(events), r.Torn(), err)
	}
}

func TestWriterCutsATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jsonl")
	if err := os.WriteFile(path, append(examples[1].AppendJSON(nil), `{"t":1,"cl`...), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(&examples[5]), w.Close()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if events, _, err := read(t, string(text)); err != nil || len(events) != 2 {
		t.Errorf("%d events, %v", len(events), err)
	}
}

func TestBadLinesAreRefusedByNumber(t *testing.T) {
	good := string(examples[1].AppendJSON(nil))
	for line, want := range map[string]string{
		`{"t":1`:                             "test:2: the line ends",
		`[]`:                                 "not a JSON object",
		`{"t":1,}`:                           "want a string",
		`{"t":1.5}`:                          "byte 5: want a whole number",
		`{"t":1e9}`:                          "byte 5: want a whole number",
		`{"t":9223372036854775808}`:          "a whole number",
		`{"t":01}`:                           "a whole number",
		`{"client":5}`:                       "want a string",
		`{"client":"a"} x`:                   "text after",
		`{"t":1}`:                            "client is missing",
		`{"t":1,"client":"a","type":"okay"}`: `type "okay"`,
		`{"t":1,"client":"a","type":"ok","kind":"sent"}`:                                         `kind "sent"`,
		`{"t":1,"client":"a","type":"ok","kind":"send","acks":"-1"}`:                             `acks "-1"`,
		`{"client":"a","type":"ok","kind":"send"}`:                                               `t is missing`,
		`{"t":1,"client":"a","type":"ok","kind":"admin","action":"drain-done"}`:                  `action "drain-done" of an admin operation is not one of`,
		`{"t":1,"client":"a","type":"ok","kind":"poll","records":[{"o":1}]}`:                     "record 0: p is missing",
		`{"t":1,"client":"a","type":"ok","kind":"admin","action":"drained","records":[{"p":0}]}`: "record 0: o is missing",
		`{"t":1,"client":"a","type":"invoke","kind":"admin"}`:                                    `action ""`,
		`{"t":1,"client":"a","type":"ok","kind":"replica","broker":-1}`:                          "a whole number from 0",
		`{"t":1,"client":"a","type":"ok","kind":"poll","action":"drained"}`:                      `action "drained" of a poll is not "drain"`,
		`{"t":1,"client":"a","type":"ok","kind":"send","records":[{"p":-2}]}`:                    "partition -2",
		`{"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`:                    "nested",
		`{"x":nul,"client":"a"}`: "want a value",
		`{"client":"\q"}`:        "valid escapes",
		`{"client":"` + strings.Repeat("a", MaxLine) + `"}`: "too long",
	} {
		events, _, err := read(t, good+line+"\n"+good)
		var bad *LineError
		if !errors.As(err, &bad) || bad.Line != 2 || len(events) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %d events, %v; want %q", line, len(events), err, want)
		}
	}
}

// TestAnotherFileIsNotATornOne: one line without its newline is a recorder that was killed only if it begins as an event does.
func TestAnotherFileIsNotATornOne(t *testing.T) {
	for text, want := range map[string]error{"hello": errNotJSON, "PK\x03\x04": errNotJSON, "\xef\xbb\xbf{\"t\":1}\n": errBOM, " {\"t\":": nil} {
		if _, _, err := read(t, text); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

// TestBroker0IsOne: where a broker has to be named, none is told from 0.
func TestBroker0IsOne(t *testing.T) {
	for text, want := range map[string]int32{
		`"kind":"replica"`: Unknown, `"kind":"replica","broker":0`: 0, `"kind":"replica","broker":7`: 7,
		`"kind":"poll","action":"drain"`: Unknown, `"kind":"poll","broker":0,"action":"drain"`: 0, `"kind":"admin","action":"drained"`: Unknown,
		`"kind":"poll"`: 0, `"kind":"poll","broker":0`: 0,
	} {
		events, _, err := read(t, `{"t":1,"client":"a","op":1,"type":"ok",`+text+"}\n")
		if err != nil || len(events) != 1 || events[0].Broker != want {
			t.Errorf("%s: %+v, %v; want %d", text, events, err, want)
		}
		if named := strings.Contains(text, "broker"); err == nil && events[0].NamesBroker() != named {
			t.Errorf("%s: names a broker: %v", text, !named)
		}
	}
}

// TestKafkasNameOfISR: acks=all is what every Kafka client calls it.
func TestKafkasNameOfISR(t *testing.T) {
	events, _, err := read(t, `{"t":1,"client":"a","op":1,"type":"invoke","kind":"send","acks":"all"}`+"\n")
	if err != nil || len(events) != 1 || events[0].Acks != AcksISR {
		t.Errorf("%+v, %v", events, err)
	}
}

func TestUnknownMembersAreSkipped(t *testing.T) {
	events, _, err := read(t, ` { "t" : 1 , "mine" : {"a":[1,-2.5e3,"x",null,true]}, "client":"\u0061", "type":"ok","kind":"join","records":[ ] } `+"\r\n\r\n\n\r\n")
	if err != nil || len(events) != 1 || events[0].Client != "a" || events[0].Kind != Join {
		t.Errorf("%+v, %v", events, err)
	}
}

// failing fails at its second write.
type failing struct{ writes int }

func (f *failing) Write(b []byte) (int, error) {
	if f.writes++; f.writes > 1 {
		return 0, errors.New("disk is full")
	}
	return len(b), nil
}

func (f *failing) Close() error { return nil }

func TestWriterKeepsItsFirstError(t *testing.T) {
	w := NewWriter(&failing{})
	if err := errors.Join(w.Write(&examples[0]), w.Flush()); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(&examples[0]); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"flush": w.Flush(), "write": w.Write(&examples[0]), "close": w.Close(), "close again": w.Close()} {
		if err == nil || !strings.Contains(err.Error(), "disk is full") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// stuck writes only when it is told to.
type stuck struct{ proceed chan struct{} }

func (s stuck) Write(b []byte) (int, error) { <-s.proceed; return len(b), nil }
func (s stuck) Close() error                { return nil }

func TestWriterIsBounded(t *testing.T) {
	out := stuck{make(chan struct{})}
	w := NewWriter(out)
	wrote := make(chan int)
	go func() {
		for size := 0; size < 3*maxPending; size += len(examples[2].AppendJSON(nil)) {
			if w.Write(&examples[2]) != nil {
				break
			}
			w.mu.Lock()
			pending := len(w.pending)
			w.mu.Unlock()
			if pending > maxPending+1000 {
				t.Errorf("%d bytes are pending", pending)
				break
			}
		}
		close(wrote)
	}()
	out.proceed <- struct{}{} // the writer's first batch; the second fills up behind it
	close(out.proceed)
	<-wrote
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestClockIsMonotonic(t *testing.T) {
	for last := Now(); ; {
		now := Now()
		if now < last {
			t.Fatalf("%d after %d", now, last)
		}
		if now > last {
			return
		}
	}
}
