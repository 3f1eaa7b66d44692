package history

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzReader: whatever the text, the reader ends, reads no line that encoding/json refuses, and reads its own encoding of an event as the same event.
func FuzzReader(f *testing.F) {
	var all []byte
	for i := range examples {
		line := examples[i].AppendJSON(nil)
		f.Add(string(line))
		all = append(all, line...)
	}
	f.Add(string(all))
	f.Add(`{"x":[{"a":1e5},null,"\ud800"],"client":"\u00e4","type":"ok","kind":"poll"}`)
	f.Fuzz(func(t *testing.T, text string) {
		events, _, _ := read(t, text)
		for i := range events {
			e := &events[i]
			again, _, err := read(t, string(e.AppendJSON(nil)))
			if err != nil || len(again) != 1 {
				t.Fatalf("%+v is not read again: %v", e, err)
			}
			e.Topic = e.sharedTopic()
			for _, both := range []*Event{e, &again[0]} {
				if len(both.Records) == 0 {
					both.Records = nil
				}
			}
			if !reflect.DeepEqual(*e, again[0]) {
				t.Fatalf("%+v is read again as %+v", *e, again[0])
			}
		}
		var d decoder
		if err := d.decode([]byte(text), &Event{}); err == nil && !json.Valid([]byte(text)) {
			t.Fatalf("%q is read, and is not JSON", text)
		}
	})
}

// FuzzParseValue: what is taken for a value is exactly what that value is written as.
func FuzzParseValue(f *testing.F) {
	f.Add([]byte(Value{"p", 1}.String()))
	f.Add(Value{"p", 1}.Padded(60))
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := ParseValue(raw)
		if err == nil && string(raw) != v.String() && string(raw) != string(v.Padded(len(raw))) {
			t.Fatalf("%q was taken for %v", raw, v)
		}
	})
}
