package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// side is one of the two brokers and what the scripts have learnt from it.
type side struct {
	name      string
	addresses []string // of the brokers 0, 1, ...
	ports     []string
	vars      map[string]string
	offered   map[int16][2]int16
	pending   map[string]pending
}

// address is where a step goes.
func (s *side) address(d directives) (string, error) {
	if d.broker == "" {
		return s.addresses[0], nil
	}
	place, other := strings.CutPrefix(d.broker, "!")
	n, err := strconv.Atoi(place)
	if err != nil || n < 0 || n >= len(s.addresses) {
		return "", fmt.Errorf("no broker %q", d.broker)
	}
	if other {
		n = (n + 1) % len(s.addresses)
	}
	return s.addresses[n], nil
}

// pending is a step without its answer.
type pending struct {
	key, version int16
	d            directives
	answer       chan reply
}

type reply struct {
	tree map[string]any
	err  error
}

// Waiting for a condition: how long, and how long between two looks.
const (
	untilMax   = 10 * time.Second
	untilPause = 20 * time.Millisecond
	slow       = 2 * time.Second // what takes longer is told
)

type runner struct {
	sides    [2]*side // Apache Kafka, Moldau
	ids      *identities
	trace    bool
	requests int
	fields   int
	found    []difference
	faults   []string
}

func newRunner(kafka, moldau string) (*runner, error) {
	r := &runner{ids: newIdentities()}
	for i, list := range []string{kafka, moldau} {
		addresses := strings.Split(list, ",")
		address := addresses[0]
		s := &side{name: [...]string{"kafka", "moldau"}[i], addresses: addresses, vars: map[string]string{}, offered: map[int16][2]int16{}, pending: map[string]pending{}}
		for _, a := range addresses {
			_, port, err := net.SplitHostPort(a)
			if err != nil {
				return nil, err
			}
			s.ports = append(s.ports, port)
		}
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "differential", "1"
		tree, err := ask(address, req, directives{as: -1})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		keys, _ := tree["ApiKeys"].([]any)
		for _, k := range keys {
			m := k.(map[string]any)
			s.offered[number(m["ApiKey"])] = [2]int16{number(m["MinVersion"]), number(m["MaxVersion"])}
		}
		r.sides[i] = s
	}
	return r, nil
}

func number(v any) int16 {
	n, _ := strconv.ParseInt(fmt.Sprint(v), 10, 16) // of a decoded int16
	return int16(n)
}

// both is the versions of an API that both sides offer. Produce says 0 on both and is spoken from 3, see package kafka.
func (r *runner) both(key int16) [2]int16 {
	a, ok := r.sides[0].offered[key]
	b, too := r.sides[1].offered[key]
	if !ok || !too {
		return [2]int16{0, -1}
	}
	return [2]int16{max(a[0], b[0]), min(a[1], b[1])}
}

func (r *runner) fault(s statement, format string, args ...any) {
	r.faults = append(r.faults, s.where+" "+s.name+": "+fmt.Sprintf(format, args...))
}

// set gives both sides the same variable.
func (r *runner) set(name, value string) {
	for _, s := range r.sides {
		s.vars[name] = value
	}
}

func (r *runner) all(statements []statement) error {
	for _, s := range statements {
		if err := r.one(s); err != nil {
			return fmt.Errorf("%s: %w", s.where, err)
		}
	}
	return nil
}

func (r *runner) one(s statement) error {
	switch s.verb {
	case "let":
		r.set(s.name, s.body)
	case "in":
		for _, word := range s.words {
			r.set(s.name, word)
			if name, value, ok := strings.Cut(word, "="); ok {
				r.set("name", name)
				r.set("value", value)
			}
			if err := r.all(s.block); err != nil {
				return err
			}
		}
	case "of":
		key, err := strconv.ParseInt(s.words[0], 10, 16)
		if err != nil {
			return err
		}
		offered := r.both(int16(key))
		if key == 0 {
			offered[0] = max(offered[0], 3)
		}
		for v := offered[0]; v <= offered[1]; v++ {
			r.set(s.name, strconv.Itoa(int(v)))
			if err := r.all(s.block); err != nil {
				return err
			}
		}
	case "ready":
		return r.ready(s)
	case "wait":
		return r.wait(s)
	case "step":
		return r.step(s)
	}
	return nil
}

// step runs a request in each of its versions.
func (r *runner) step(s statement) error {
	key, err := strconv.ParseInt(s.words[0], 10, 16)
	if err != nil {
		return err
	}
	versions, err := substitute(s.words[1], r.sides[0].vars)
	if err != nil {
		return err
	}
	from, to, err := span(versions, r.both(int16(key)))
	if err != nil {
		return err
	}
	if from > to {
		r.fault(s, "no version %s of API %d that both offer", versions, key)
	}
	loop := r.sides[0].vars["v"]
	for v := from; v <= to; v++ {
		if s.words[1] == "*" || from != to {
			r.set("v", strconv.Itoa(int(v)))
		}
		if err := r.request(s, int16(key), v); err != nil {
			return err
		}
	}
	r.set("v", loop)
	return nil
}

func (r *runner) request(s statement, key, version int16) error {
	replies := make([]reply, 2)
	for i, side := range r.sides {
		words := make([]string, len(s.words)-2)
		for k := range words {
			var err error
			if words[k], err = substitute(s.words[k+2], side.vars); err != nil {
				return err
			}
		}
		d, err := newDirectives(words)
		if err != nil {
			return err
		}
		if d.on != "" && d.on != side.name {
			continue
		}
		body, err := substitute(s.body, side.vars)
		if err != nil {
			r.fault(s, "%s: %v", side.name, err)
			return nil
		}
		req, err := build(key, version, body)
		if err != nil {
			return err
		}
		address, err := side.address(d)
		if err != nil {
			r.fault(s, "%s: %v", side.name, err)
			return nil
		}
		if d.async {
			p := pending{key, version, d, make(chan reply, 1)}
			side.pending[s.name] = p
			go func() {
				tree, err := ask(address, req, d)
				p.answer <- reply{tree, err}
			}()
			continue
		}
		start := time.Now()
		replies[i].tree, replies[i].err = r.askUntil(s, side, address, req, d)
		if took := time.Since(start); took > slow {
			fmt.Fprintf(os.Stderr, "%s %s v%d: %s took %d ms\n", s.where, s.name, version, side.name, took.Milliseconds())
		}
		if i == 1 || d.on != "" {
			if d.on == "" {
				r.compare(s, key, version, d, replies)
			} else {
				r.keep(s, side, d, replies[i].tree)
			}
		}
	}
	return nil
}

// askUntil asks, and again until the step's condition holds.
func (r *runner) askUntil(s statement, side *side, address string, req kmsg.Request, d directives) (map[string]any, error) {
	for deadline := time.Now().Add(untilMax); ; time.Sleep(untilPause) {
		tree, err := ask(address, req, d)
		if err != nil || d.untilPath == "" {
			return tree, err
		}
		value, _ := lookup(tree, d.untilPath)
		if (value == d.untilValue) != d.untilNot {
			return tree, nil
		}
		if time.Now().After(deadline) {
			r.fault(s, "%s: %s stayed %q", side.name, d.untilPath, value)
			return tree, nil
		}
	}
}

// compare takes the two answers of a step apart and keeps what the script wants of them.
func (r *runner) compare(s statement, key, version int16, d directives, replies []reply) {
	r.requests++
	for i, reply := range replies {
		if reply.err != nil {
			r.fault(s, "v%d: %s: %v", version, r.sides[i].name, reply.err)
			return
		}
		if r.trace {
			text, _ := json.Marshal(reply.tree) // of maps, lists and texts
			fmt.Printf("%s %s v%d %s: %s\n", s.where, s.name, version, r.sides[i].name, text)
		}
	}
	name, err := substitute(s.name, r.sides[0].vars)
	if err != nil {
		name = s.name
	}
	c := comparison{api: key, step: name, version: version, ids: r.ids, ports: [2][]string{r.sides[0].ports, r.sides[1].ports}}
	c.tree("", map[string]any(replies[0].tree), map[string]any(replies[1].tree))
	r.fields += c.fields
	r.found = append(r.found, c.found...)
	want := map[string]any{}
	switch {
	case d.closed:
		want = closed
	case d.silent:
		want = silent
	}
	for i, reply := range replies {
		got, failed := reply.tree["connection"]
		if failed && maps.Equal(replies[0].tree, replies[1].tree) && want["connection"] != got {
			r.fault(s, "v%d: both: connection %v, which the script does not expect", version, got)
			return
		}
		if len(want) > 0 && !reflect.DeepEqual(reply.tree, want) && len(c.found) == 0 {
			r.fault(s, "v%d: %s answers, and the script expects %v", version, r.sides[i].name, want["connection"])
			return
		}
		r.keep(s, r.sides[i], d, reply.tree)
	}
}

func (r *runner) keep(s statement, side *side, d directives, tree map[string]any) {
	for _, save := range d.save {
		value, ok := lookup(tree, save[1])
		if !ok {
			r.fault(s, "%s: no %s to save", side.name, save[1])
		}
		side.vars[save[0]] = value
	}
}

// wait takes the answers to a step that was sent before.
func (r *runner) wait(s statement) error {
	replies := make([]reply, 2)
	var p pending
	for i, side := range r.sides {
		var ok bool
		if p, ok = side.pending[s.name]; !ok {
			return fmt.Errorf("no step %s without an answer", s.name)
		}
		delete(side.pending, s.name)
		replies[i] = <-p.answer // ends, as ask has a deadline
	}
	r.compare(s, p.key, p.version, p.d, replies)
	return nil
}

// ready asks each partition of a topic for its end until both sides answer, on the broker that leads it.
func (r *runner) ready(s statement) error {
	topic, err := substitute(s.name, r.sides[0].vars)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(s.words[0])
	if err != nil {
		return err
	}
	for _, side := range r.sides {
		for p := range n {
			if !r.partitionReady(side, topic, int32(p)) {
				r.fault(s, "%s: nobody leads partition %d", side.name, p)
			}
		}
	}
	return nil
}

func (r *runner) partitionReady(side *side, topic string, n int32) bool {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 4
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp = n, -1
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{part}}}
	path := fmt.Sprintf("Topics[%s].Partitions[%d].ErrorCode", topic, n)
	for deadline := time.Now().Add(untilMax); time.Now().Before(deadline); time.Sleep(untilPause) {
		for _, address := range side.addresses {
			if tree, err := ask(address, req, directives{as: -1}); err == nil {
				if code, _ := lookup(tree, path); code == "0" {
					return true
				}
			}
		}
	}
	return false
}
