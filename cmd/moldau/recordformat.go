package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/moldau-log/moldau/client"
)

// appendRecord appends the text of one record.
type appendRecord func(dst []byte, r *client.Record) []byte

// recordPrinter returns how records are printed: by -f if it is given, else by -o.
func recordPrinter(output, format string) (appendRecord, error) {
	if format != "" {
		return compileFormat(format)
	}
	switch output {
	case formatTable:
		return compileFormat(`%s\n`)
	case formatWide:
		return compileFormat(`%p\t%o\t%T\t%k\t%s\n`)
	case formatName:
		return compileFormat(`%t:%p:%o\n`)
	case formatJSON, formatJSONL:
		return appendJSON, nil
	case formatYAML:
		return appendYAML, nil
	}
	return nil, usage("-o %q is not one of %v", output, formats)
}

// compileFormat understands what kcat's -f does: %t topic, %p partition, %o offset, %k key, %s value, %K and %S their lengths (-1 for null),
// %T timestamp in milliseconds, %h headers, %e leader epoch, %%, and the escapes \n \t \r \0 \\ \xHH.
func compileFormat(format string) (appendRecord, error) {
	var parts []appendRecord
	var text []byte
	for i := 0; i < len(format); i++ {
		switch c := format[i]; {
		case c == '%' && i+1 < len(format) && format[i+1] == '%':
			i++
			text = append(text, '%')
		case c == '%':
			i++
			if i == len(format) || verbs[format[i]] == nil {
				return nil, usage("-f %q: %q is not one of %%t %%p %%o %%k %%s %%K %%S %%T %%h %%e %%%%", format, format[i-1:min(i+1, len(format))])
			}
			parts = append(parts, literal(text), verbs[format[i]])
			text = nil
		case c == '\\':
			b, used, err := unescape(format[i:])
			if err != nil {
				return nil, err
			}
			text = append(text, b)
			i += used - 1
		default:
			text = append(text, c)
		}
	}
	parts = append(parts, literal(text))
	return func(dst []byte, r *client.Record) []byte {
		for _, p := range parts {
			dst = p(dst, r)
		}
		return dst
	}, nil
}

func literal(text []byte) appendRecord {
	return func(dst []byte, _ *client.Record) []byte { return append(dst, text...) }
}

var verbs = map[byte]appendRecord{
	't': func(dst []byte, r *client.Record) []byte { return append(dst, r.Topic...) },
	'p': func(dst []byte, r *client.Record) []byte { return strconv.AppendInt(dst, int64(r.Partition), 10) },
	'o': func(dst []byte, r *client.Record) []byte { return strconv.AppendInt(dst, r.Offset, 10) },
	'k': func(dst []byte, r *client.Record) []byte { return append(dst, r.Key...) },
	's': func(dst []byte, r *client.Record) []byte { return append(dst, r.Value...) },
	'K': func(dst []byte, r *client.Record) []byte { return strconv.AppendInt(dst, length(r.Key), 10) },
	'S': func(dst []byte, r *client.Record) []byte { return strconv.AppendInt(dst, length(r.Value), 10) },
	'T': func(dst []byte, r *client.Record) []byte { return strconv.AppendInt(dst, r.Timestamp.UnixMilli(), 10) },
	'e': func(dst []byte, r *client.Record) []byte { return strconv.AppendInt(dst, int64(r.LeaderEpoch), 10) },
	'h': appendHeaders,
}

func length(b []byte) int64 {
	if b == nil {
		return -1
	}
	return int64(len(b))
}

func appendHeaders(dst []byte, r *client.Record) []byte {
	for i, h := range r.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, h.Key...), '='), h.Value...)
	}
	return dst
}

// unescape reads one escape at the front of s.
func unescape(s string) (b byte, used int, err error) {
	simple := map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '0': 0, '\\': '\\'}
	if len(s) >= 4 && s[1] == 'x' {
		n, err := strconv.ParseUint(s[2:4], 16, 8)
		if err == nil {
			return byte(n), 4, nil
		}
	}
	if len(s) >= 2 {
		if b, ok := simple[s[1]]; ok {
			return b, 2, nil
		}
	}
	return 0, 0, usage("-f: %q is not one of \\n \\t \\r \\0 \\\\ \\xHH", s[:min(len(s), 2)])
}

// recordShape is one record of `moldau consume -o json`. What is not UTF-8 is in the _base64 fields instead.
type recordShape struct {
	Topic       string        `json:"topic"`
	Partition   int32         `json:"partition"`
	Offset      int64         `json:"offset"`
	TimestampMs int64         `json:"timestamp_ms"`
	LeaderEpoch int32         `json:"leader_epoch"`
	Key         *string       `json:"key"`
	KeyBase64   string        `json:"key_base64,omitempty"`
	Value       *string       `json:"value"`
	ValueBase64 string        `json:"value_base64,omitempty"`
	Headers     []headerShape `json:"headers"`
}

type headerShape struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"`
	ValueBase64 string  `json:"value_base64,omitempty"`
}

func shapeRecord(r *client.Record) recordShape {
	s := recordShape{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, TimestampMs: r.Timestamp.UnixMilli(), LeaderEpoch: r.LeaderEpoch, Headers: []headerShape{},
	}
	s.Key, s.KeyBase64 = textOrBase64(r.Key)
	s.Value, s.ValueBase64 = textOrBase64(r.Value)
	for _, h := range r.Headers {
		shape := headerShape{Key: h.Key}
		shape.Value, shape.ValueBase64 = textOrBase64(h.Value)
		s.Headers = append(s.Headers, shape)
	}
	return s
}

func textOrBase64(b []byte) (*string, string) {
	if b == nil {
		return nil, ""
	}
	if !utf8.Valid(b) {
		return nil, base64.StdEncoding.EncodeToString(b)
	}
	text := string(b)
	return &text, ""
}

func appendJSON(dst []byte, r *client.Record) []byte {
	w := appender{dst}
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(shapeRecord(r)); err != nil {
		panic(fmt.Sprintf("encode a record: %v", err)) // only plain fields
	}
	return w.b
}

func appendYAML(dst []byte, r *client.Record) []byte {
	w := appender{dst}
	if err := writeYAML(&w, []recordShape{shapeRecord(r)}); err != nil {
		panic(fmt.Sprintf("encode a record: %v", err)) // only plain fields
	}
	return w.b
}

type appender struct{ b []byte }

func (w *appender) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}
