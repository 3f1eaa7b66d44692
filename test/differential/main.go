package main

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerMax bounds what a broker may answer to one request; patience bounds how long it may take.
const (
	answerMax = 16 << 20
	patience  = 20 * time.Second
)

func main() {
	kafka := flag.String("kafka", "", "host:port of Apache Kafka")
	moldau := flag.String("moldau", "", "host:port of Moldau")
	scripts := flag.String("scripts", "testdata", "directory of the scripts")
	list := flag.String("list", "../../docs/kafka-differences.md", "the reviewed list of differences")
	flag.Parse()
	if err := run(*kafka, *moldau, *scripts, *list); err != nil {
		fmt.Fprintln(os.Stderr, "differential:", err)
		os.Exit(1)
	}
}

func run(kafka, moldau, scripts, list string) error {
	steps, err := load(scripts)
	if err != nil {
		return err
	}
	known, err := reviewed(list)
	if err != nil {
		return err
	}
	var requests, fields, listed int
	found := map[string]bool{}
	seen := map[string]bool{}
	for _, s := range steps {
		for version := s.min; version <= s.max; version++ {
			theirs, err := s.ask(kafka, version)
			if err != nil {
				theirs = map[string]any{"connection": "failed"}
			}
			ours, err := s.ask(moldau, version)
			if err != nil {
				ours = map[string]any{"connection": "failed"}
			}
			requests++
			for _, path := range paths(theirs, ours) {
				fields++
				if a, b := show(theirs, path), show(ours, path); a != b {
					where := s.name + " " + path
					seen[where] = true
					if known[where] {
						listed++
						continue
					}
					found[where] = true
					fmt.Printf("%s v%d %s: Kafka %s, Moldau %s\n", s.name, version, path, a, b)
				}
			}
		}
	}
	for where := range known {
		if !seen[where] {
			fmt.Printf("listed, but no difference any more: %s\n", where)
		}
	}
	fmt.Printf("%d requests, %d fields compared, %d differing fields on the list, %d places that are not\n", requests, fields, listed, len(found))
	if len(found) > 0 {
		return fmt.Errorf("%d differences are not on the reviewed list", len(found))
	}
	return nil
}

// reviewed reads the first cell of each row of the list: the step and the field, in backquotes.
func reviewed(file string) (map[string]bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "| `"); ok {
			where, _, _ := strings.Cut(rest, "`")
			known[where] = true
		}
	}
	return known, nil
}

// ask sends one request on a connection of its own, and flattens the answer.
func (s step) ask(address string, version int16) (map[string]any, error) {
	req, err := s.request(version)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("differential")).AppendRequest(nil, req, 1)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > answerMax {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	answer := make([]byte, n)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, err
	}
	body := answer[4:]
	if req.IsFlexible() && req.Key() != 18 { // the header's tags; ApiVersions has none
		body = body[1:]
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(body); err != nil {
		return nil, err
	}
	text, err := json.Marshal(resp)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	flat := map[string]any{}
	flatten(flat, "", tree)
	return flat, nil
}

// varying are fields that two clusters cannot agree on: identities, addresses, times, words.
var varying = map[string]bool{"ErrorMessage": true, "ClusterID": true, "NodeID": true, "Port": true, "Host": true, "ControllerID": true, "TopicID": true, "Leader": true,
	"LeaderID": true, "ProducerID": true, "MemberID": true, "BrokerID": true, "Replicas": true, "ISR": true, "ThrottleMillis": true, "CoordinatorID": true,
	"UnknownTags": true, "Version": true, "Documentation": true, "ReplicaNodes": true, "ISRNodes": true}

// keyed are fields that name an element of an array, so that order does not matter.
var keyed = []string{"Topic", "Partition", "Name", "ResourceName", "ApiKey", "Group", "GroupID", "Key"}

func flatten(into map[string]any, path string, tree any) {
	switch t := tree.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(t)) {
			if !varying[name] {
				flatten(into, strings.TrimPrefix(path+"."+name, "."), t[name])
			}
		}
	case []any:
		into[path+".len"] = len(t)
		for i, element := range t {
			flatten(into, fmt.Sprintf("%s[%s]", path, elementName(element, i)), element)
		}
	default:
		into[path] = t
	}
}

func elementName(element any, i int) string {
	m, _ := element.(map[string]any)
	for _, name := range keyed {
		if value, ok := m[name]; ok && value != nil {
			return fmt.Sprint(value)
		}
	}
	return fmt.Sprint(i)
}

func paths(a, b map[string]any) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func show(m map[string]any, path string) string {
	if value, ok := m[path]; ok {
		return fmt.Sprintf("%v", value)
	}
	return "absent"
}
