package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/record"
)

// firstTimestamp is what records carry unless a script says otherwise: ms since 1970, a moment that both clusters take for the past.
const firstTimestamp = 1700000000000

// batchSpec is a batch in words: n= records (1), size= bytes of each value, key=null, ts= of the first record, step= between records, codec=, and what is changed in the
// header afterwards: pid=, epoch=, seq=, attr= (added), magic=, base=, leader=, count=, delta=, max= (timestamp), length= (added), crc (a wrong one), cut= (bytes off the end),
// body=TEXT for the records.
type batchSpec map[string]string

func newBatchSpec(text string) batchSpec {
	spec := batchSpec{}
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		spec[name] = value
	}
	return spec
}

// take is a number, or what stands where there is none. It forgets the word, so that what is left was not understood.
func (s batchSpec) take(name string, otherwise int64) int64 {
	text, ok := s[name]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		delete(s, name)
	}
	return n
}

func (s batchSpec) text(name string) (string, bool) {
	text, ok := s[name]
	delete(s, name)
	return text, ok
}

func batch(text string) ([]byte, error) {
	spec := newBatchSpec(text)
	var b kmsg.RecordBatch
	raw, err := spec.records()
	if err != nil {
		return nil, err
	}
	if err := b.ReadFrom(raw); err != nil {
		return nil, err
	}
	b.PartitionLeaderEpoch = int32(spec.take("leader", -1))
	b.FirstOffset = spec.take("base", 0)
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = spec.take("pid", -1), int16(spec.take("epoch", -1)), int32(spec.take("seq", -1))
	b.Attributes |= int16(spec.take("attr", 0))
	b.Magic = int8(spec.take("magic", 2))
	b.NumRecords = int32(spec.take("count", int64(b.NumRecords)))
	b.LastOffsetDelta = int32(spec.take("delta", int64(b.LastOffsetDelta)))
	b.MaxTimestamp = spec.take("max", b.MaxTimestamp)
	if body, ok := spec.text("body"); ok {
		b.Records = []byte(body)
	}
	raw = b.AppendTo(nil)
	b.Length = int32(len(raw) - 12)
	b.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	if _, bad := spec.text("crc"); bad {
		b.CRC++
	}
	b.Length += int32(spec.take("length", 0))
	cut := int(spec.take("cut", 0))
	raw = b.AppendTo(nil)
	if len(spec) > 0 {
		return nil, fmt.Errorf("not understood: %v", spec)
	}
	return raw[:len(raw)-cut], nil
}

func (s batchSpec) records() ([]byte, error) {
	name, ok := s.text("codec")
	if !ok {
		name = "none"
	}
	codec, err := record.ParseCodec(name)
	if err != nil {
		return nil, err
	}
	b := record.NewBuilder(record.BuilderOptions{Codec: codec})
	ts, step := s.take("ts", firstTimestamp), s.take("step", 1)
	value := bytes.Repeat([]byte("v"), int(s.take("size", 1)))
	key := []byte("k")
	if text, ok := s.text("key"); ok {
		key = []byte(text)
		if text == "null" {
			key = nil
		}
	}
	for i := range s.take("n", 1) {
		b.Append(ts+i*step, key, value, nil)
	}
	out, err := b.Build()
	return out.Bytes(), err
}

// oldMessage is a message set of one message of format 0 or 1: magic=, crc (a wrong one).
func oldMessage(text string) ([]byte, error) {
	spec := newBatchSpec(text)
	magic := spec.take("magic", 1)
	body := []byte{byte(magic), 0}
	if magic == 1 {
		body = binary.BigEndian.AppendUint64(body, firstTimestamp)
	}
	for _, field := range []string{"k", "v"} {
		body = binary.BigEndian.AppendUint32(body, uint32(len(field)))
		body = append(body, field...)
	}
	crc := crc32.ChecksumIEEE(body)
	if _, bad := spec.text("crc"); bad {
		crc++
	}
	if len(spec) > 0 {
		return nil, fmt.Errorf("not understood: %v", spec)
	}
	out := binary.BigEndian.AppendUint64(nil, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)+4))
	return append(binary.BigEndian.AppendUint32(out, crc), body...), nil
}
