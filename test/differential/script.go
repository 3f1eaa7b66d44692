package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// step is one line of a script.
type step struct {
	name     string
	key      int16
	min, max int16
	body     string
}

// load reads every script, in the order of the names of the files.
func load(dir string) ([]step, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var steps []step
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
			line := strings.TrimSpace(lines.Text())
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			s, err := parse(line)
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", file, line, err)
			}
			steps = append(steps, s)
		}
	}
	return steps, nil
}

func parse(line string) (step, error) {
	words := strings.SplitN(line, " ", 4)
	if len(words) != 4 {
		return step{}, fmt.Errorf("want: name key versions json")
	}
	key, err := strconv.ParseInt(words[1], 10, 16)
	if err != nil {
		return step{}, err
	}
	low, high, ok := strings.Cut(words[2], "-")
	if !ok {
		high = low
	}
	from, err := strconv.ParseInt(low, 10, 16)
	if err != nil {
		return step{}, err
	}
	to, err := strconv.ParseInt(high, 10, 16)
	return step{name: words[0], key: int16(key), min: int16(from), max: int16(to), body: words[3]}, err
}

var macro = regexp.MustCompile(`"?\$(\w+)\(([^)]*)\)"?`)

// request builds the request of a step for one version. $v() is the version, $batch(pid,epoch,seq,flag) a batch of one record.
func (s step) request(version int16) (kmsg.Request, error) {
	body := macro.ReplaceAllStringFunc(strings.ReplaceAll(s.body, "$v", strconv.Itoa(int(version))), func(m string) string {
		parts := macro.FindStringSubmatch(m)
		if parts[1] == "batch" {
			return strconv.Quote(base64.StdEncoding.EncodeToString(batch(parts[2])))
		}
		return m
	})
	req := kmsg.RequestForKey(s.key)
	if req == nil {
		return nil, fmt.Errorf("no API %d", s.key)
	}
	if d, ok := req.(interface{ Default() }); ok {
		d.Default()
	}
	req.SetVersion(version)
	return req, json.Unmarshal([]byte(body), req)
}

// batch encodes one record as its words say: pid=, epoch=, seq=, attr=, magic=, crc (a wrong one), twice (the batch two times).
func batch(spec string) []byte {
	b := kmsg.RecordBatch{Magic: 2, PartitionLeaderEpoch: -1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1, FirstTimestamp: 1700000000000, MaxTimestamp: 1700000000000}
	bad, twice := false, false
	for word := range strings.FieldsSeq(spec) {
		name, value, _ := strings.Cut(word, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "pid":
			b.ProducerID = n
		case "epoch":
			b.ProducerEpoch = int16(n)
		case "seq":
			b.FirstSequence = int32(n)
		case "attr":
			b.Attributes = int16(n)
		case "magic":
			b.Magic = int8(n)
		case "crc":
			bad = true
		case "twice":
			twice = true
		}
	}
	// length 8: attributes, two deltas, key "k", value "v", no headers
	b.Records = []byte{16, 0, 0, 0, 2, 'k', 2, 'v', 0}
	raw := b.AppendTo(nil)
	b.Length = int32(len(raw) - 12)
	b.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	if bad {
		b.CRC++
	}
	raw = b.AppendTo(nil)
	if twice {
		raw = append(raw, raw...)
	}
	return raw
}
