package main

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerMax bounds what a broker may answer to one request; patience bounds how long it may take.
const (
	answerMax = 16 << 20
	patience  = 5 * time.Second
)

// Answers that are none.
var (
	closed = map[string]any{"connection": "closed"}
	silent = map[string]any{"connection": "open, no answer"}
	late   = map[string]any{"connection": "no answer in time"}
)

// Correlations of a request, and of the ApiVersions that is sent behind one that must have no answer.
const (
	asked  = 1
	behind = 2
)

// ask sends one request on a connection of its own and gives the answer as a tree.
func ask(address string, req kmsg.Request, d directives) (map[string]any, error) {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("differential"))
	out := format.AppendRequest(nil, req, asked)
	if len(d.tail) > len(out) {
		return nil, fmt.Errorf("a tail of %d bytes, and the request has %d", len(d.tail), len(out))
	}
	copy(out[len(out)-len(d.tail):], d.tail)
	if d.silent {
		out = append(out, format.AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), behind)...)
	}
	if _, err := conn.Write(out); err != nil {
		return closed, nil
	}
	answer, err := readAnswer(conn)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return late, nil
	case err != nil:
		return closed, nil
	}
	if binary.BigEndian.Uint32(answer) == behind {
		return silent, nil
	}
	body := answer[4:]
	resp := req.ResponseKind()
	if d.as >= 0 {
		resp.SetVersion(d.as)
	}
	if resp.IsFlexible() && resp.Key() != 18 { // the header's tags; the answer to ApiVersions has none
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("an answer that is not one: %w", err)
	}
	return treeOf(reflect.ValueOf(resp).Elem()).(map[string]any), nil
}

func readAnswer(conn net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 5 || n > answerMax {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	answer := make([]byte, n)
	_, err := io.ReadFull(conn, answer)
	return answer, err
}

// treeOf gives a decoded answer as maps, lists, and texts of its values. Ids are in hex, record batches are taken apart.
func treeOf(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return treeOf(v.Elem())
	case reflect.Array:
		raw := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(raw), v)
		return hex.EncodeToString(raw)
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return base64.StdEncoding.EncodeToString(v.Bytes())
		}
		out := make([]any, v.Len())
		for i := range out {
			out[i] = treeOf(v.Index(i))
		}
		return out
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			name, f := v.Type().Field(i).Name, v.Field(i)
			switch tags, isTags := f.Interface().(kmsg.Tags); {
			case isTags && tags.Len() > 0:
				out[name] = fmt.Sprint(tags.Len())
			case isTags, name == "Version":
			case name == "RecordBatches":
				out[name] = batches(f.Bytes())
			default:
				out[name] = treeOf(f)
			}
		}
		return out
	}
	return fmt.Sprint(v.Interface())
}

// batches takes fetched records apart. A batch that was cut at the end is told as such.
func batches(raw []byte) any {
	if raw == nil {
		return nil
	}
	out := []any{}
	for len(raw) >= 12 {
		n := 12 + int(binary.BigEndian.Uint32(raw[8:]))
		if n > len(raw) {
			return append(out, "cut")
		}
		var b kmsg.RecordBatch
		if err := b.ReadFrom(raw[:n]); err != nil {
			return append(out, err.Error())
		}
		out = append(out, treeOf(reflect.ValueOf(b)))
		raw = raw[n:]
	}
	return out
}
