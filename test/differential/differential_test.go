package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// quotedVariable is a variable that is a whole text, so most likely an id.
var quotedVariable = regexp.MustCompile(`"\$\{\w+\}"`)

// TestScripts_EveryStepBuilds: every request of every script is one that kmsg knows, with fields that it has, whatever the variables are.
func TestScripts_EveryStepBuilds(t *testing.T) {
	var statements []statement
	for _, dir := range []string{"one", "three"} {
		of, err := load(filepath.Join("testdata", dir), "")
		if err != nil {
			t.Fatal(err)
		}
		statements = append(statements, of...)
	}
	steps := 0
	lets := map[string]string{}
	var walk func([]statement)
	walk = func(all []statement) {
		for _, s := range all {
			switch s.verb {
			case "let":
				lets[s.name] = s.body
			case "in":
				lets[s.name] = s.words[0]
				walk(s.block)
			case "of":
				walk(s.block)
			case "step":
				steps++
				key, err := strconv.ParseInt(s.words[0], 10, 16)
				if err != nil {
					t.Fatalf("%s: %v", s.where, err)
				}
				if _, err := build(int16(key), 0, withoutVariables(s.body, lets)); err != nil {
					t.Errorf("%s %s: %v", s.where, s.name, err)
				}
			}
		}
	}
	walk(statements)
	if steps < 400 {
		t.Errorf("%d steps; the scripts were not read", steps)
	}
}

// withoutVariables puts in what let gives, a zero id for a variable that is a whole text, and 1 for all others.
func withoutVariables(body string, lets map[string]string) string {
	for range 5 {
		body = variable.ReplaceAllStringFunc(body, func(m string) string {
			if text, ok := lets[m[2:len(m)-1]]; ok {
				return text
			}
			return m
		})
	}
	body = quotedVariable.ReplaceAllString(body, `"`+strings.Repeat("0", 32)+`"`)
	return variable.ReplaceAllString(body, "1")
}

func TestBuild_WhatIsLeftOutHasItsDefault(t *testing.T) {
	req, err := build(1, 12, `{"Topics":[{"Topic":"t","Partitions":[{"Partition":3}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	p := req.(*kmsg.FetchRequest).Topics[0].Partitions[0]
	if p.Partition != 3 || p.CurrentLeaderEpoch != -1 || p.LastFetchedEpoch != -1 {
		t.Errorf("partition %d, current leader epoch %d, last fetched epoch %d; want 3, -1, -1", p.Partition, p.CurrentLeaderEpoch, p.LastFetchedEpoch)
	}
	if _, err := build(1, 12, `{"Topics":[{"Name":"t"}]}`); err == nil {
		t.Error("a field that kmsg does not have was taken")
	}
}

// differing compares two answers to Metadata and gives the paths that differ.
func differing(ids *identities, a, b map[string]any) string {
	c := comparison{api: 3, step: "s", ids: ids, ports: [2][]string{{"9"}, {"8"}}}
	c.tree("", a, b)
	var out []string
	for _, d := range c.found {
		out = append(out, d.path)
	}
	return strings.Join(out, " ")
}

func TestCompare(t *testing.T) {
	topic := func(name, id, code string) map[string]any {
		return map[string]any{"Topic": name, "TopicID": id, "ErrorCode": code, "ErrorMessage": nil}
	}
	answer := func(topics ...any) map[string]any { return map[string]any{"Topics": topics, "Port": "9"} }
	ids := newIdentities()
	for _, c := range []struct {
		name string
		a, b map[string]any
		want string
	}{
		{"ids are each side's own", answer(topic("x", "aa", "0")), answer(topic("x", "bb", "0")), ""},
		{"and mean the same later", answer(topic("y", "aa", "0")), answer(topic("y", "cc", "0")), "Topics[y].TopicID"},
		{"the order does not matter", answer(topic("x", "aa", "0"), topic("z", "dd", "3")), answer(topic("z", "ee", "3"), topic("x", "bb", "0")), ""},
		{"a code does", answer(topic("x", "aa", "0")), answer(topic("x", "bb", "3")), "Topics[x].ErrorCode"},
		{"what is missing is one difference", answer(topic("x", "aa", "0"), topic("z", "dd", "3")), answer(topic("x", "bb", "0")), "Topics[z]"},
		{"null is not an empty list", map[string]any{"Topics": nil}, map[string]any{"Topics": []any{}}, "Topics"},
		{"only one side closes", closed, map[string]any{"ErrorCode": "0"}, "ErrorCode connection"},
		{"a port is the side's own", map[string]any{"Port": "9"}, map[string]any{"Port": "8"}, ""},
		{"and no other", map[string]any{"Port": "9"}, map[string]any{"Port": "7"}, "Port"},
	} {
		if got := differing(ids, c.a, c.b); got != c.want {
			t.Errorf("%s: differing %q, want %q", c.name, got, c.want)
		}
	}
}

func TestList_ARowSpeaksOfStepFieldAndBothValues(t *testing.T) {
	r, err := newRow("| `create-{a,b}` | `Topics[*].ErrorCode` | `39` | `*` | because it is so |")
	if err != nil {
		t.Fatal(err)
	}
	rows := []*row{r}
	for _, c := range []struct {
		d    difference
		want bool
	}{
		{difference{step: "create-a", path: "Topics[x].ErrorCode", theirs: "39", ours: "102"}, true},
		{difference{step: "create-c", path: "Topics[x].ErrorCode", theirs: "39", ours: "102"}, false},
		{difference{step: "create-b", path: "Topics[x].ErrorCodes", theirs: "39", ours: "102"}, false},
		{difference{step: "create-b", path: "Topics[x].ErrorCode", theirs: "3", ours: "102"}, false},
	} {
		if got := find(rows, c.d) != nil; got != c.want {
			t.Errorf("%+v: on the list %v, want %v", c.d, got, c.want)
		}
	}
	if r.hits != 1 {
		t.Errorf("%d hits, want 1", r.hits)
	}
	if _, err := newRow("| `a` | `b` | `c` | `d` | |"); err == nil {
		t.Error("a row without a reason was taken")
	}
}

// TestList_IsReadable: the list in the repository has five cells in every row.
func TestList_IsReadable(t *testing.T) {
	list := filepath.Join("..", "..", "docs", "kafka-differences.md")
	if _, err := os.Stat(list); err != nil {
		t.Fatal(err)
	}
	if _, err := reviewed(list); err != nil {
		t.Error(err)
	}
}
