package history

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends the event's line, with its newline. A topic that all records share is written once.
func (e *Event) AppendJSON(b []byte) []byte {
	b = append(b, `{"t":`...)
	b = strconv.AppendInt(b, e.Time, 10)
	b = appendText(b, "client", e.Client)
	b = append(b, `,"op":`...)
	b = strconv.AppendInt(b, e.Op, 10)
	b = appendText(b, "type", string(e.Type))
	b = appendText(b, "kind", string(e.Kind))
	b = appendText(b, "action", e.Action)
	shared := e.sharedTopic()
	b = appendText(b, "topic", shared)
	b = appendText(b, "group", e.Group)
	b = appendText(b, "member", e.Member)
	if e.Generation != 0 {
		b = append(b, `,"generation":`...)
		b = strconv.AppendInt(b, int64(e.Generation), 10)
	}
	b = appendText(b, "acks", e.Acks)
	if e.NotIdempotent {
		b = append(b, `,"not_idempotent":true`...)
	}
	if e.Ordered {
		b = append(b, `,"ordered":true`...)
	}
	if e.NamesBroker() {
		b = append(b, `,"broker":`...)
		b = strconv.AppendInt(b, int64(e.Broker), 10)
	}
	b = appendText(b, "error", e.Error)
	if len(e.Records) > 0 {
		b = append(b, `,"records":[`...)
		for i := range e.Records {
			if i > 0 {
				b = append(b, ',')
			}
			b = e.Records[i].appendJSON(b, shared)
		}
		b = append(b, ']')
	}
	return append(b, '}', '\n')
}

// sharedTopic is the topic that a reader may assume for records without one.
func (e *Event) sharedTopic() string {
	if len(e.Records) == 0 {
		return e.Topic
	}
	for i := range e.Records {
		if e.Records[i].Topic != e.Records[0].Topic {
			return ""
		}
	}
	return e.Records[0].Topic
}

func (r *Record) appendJSON(b []byte, shared string) []byte {
	b = append(b, `{"p":`...)
	b = strconv.AppendInt(b, int64(r.Partition), 10)
	if r.Topic != shared {
		b = appendText(b, "topic", r.Topic)
	}
	if r.Offset != Unknown {
		b = append(b, `,"o":`...)
		b = strconv.AppendInt(b, r.Offset, 10)
	}
	if r.Epoch != Unknown {
		b = append(b, `,"e":`...)
		b = strconv.AppendInt(b, int64(r.Epoch), 10)
	}
	if r.CRC != 0 {
		b = append(b, `,"crc":`...)
		b = strconv.AppendUint(b, uint64(r.CRC), 10)
	}
	return append(appendText(b, "v", r.Value), '}')
}

// appendText appends a member, or nothing for an empty text.
func appendText(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, '"', ':')
	if plain(text) {
		b = append(b, '"')
		b = append(b, text...)
		return append(b, '"')
	}
	quoted, err := json.Marshal(text)
	if err != nil { // a string cannot fail
		return append(b, `""`...)
	}
	return append(b, quoted...)
}

// plain says that a text needs no escape.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
