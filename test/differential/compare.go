package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// difference is one field that the sides do not agree on.
type difference struct {
	step    string
	version int16
	path    string
	theirs  string // Apache Kafka's
	ours    string
}

// comparison walks two answers side by side.
type comparison struct {
	api     int16
	step    string
	version int16
	ids     *identities
	ports   [2][]string // of each side's brokers, in their order
	fields  int
	found   []difference
}

func (c *comparison) differ(path, theirs, ours string) {
	c.found = append(c.found, difference{c.step, c.version, path, theirs, ours})
}

func (c *comparison) tree(path string, a, b any) {
	x, aIsMap := a.(map[string]any)
	y, bIsMap := b.(map[string]any)
	if aIsMap && bIsMap {
		names := maps.Clone(x)
		maps.Copy(names, y)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			c.member(join(path, name), x, y, name)
		}
		return
	}
	l, aIsList := a.([]any)
	m, bIsList := b.([]any)
	if aIsList && bIsList {
		c.list(path, l, m)
		return
	}
	c.fields++
	c.leaf(path, a, b)
}

// member compares what two maps have under a name. What only one of them has is one difference, however much it is.
func (c *comparison) member(path string, a, b map[string]any, name string) {
	x, inA := a[name]
	y, inB := b[name]
	switch {
	case inA && inB:
		c.tree(path, x, y)
	case inA:
		c.fields++
		c.differ(path, brief(x), "absent")
	default:
		c.fields++
		c.differ(path, "absent", brief(y))
	}
}

func (c *comparison) list(path string, a, b []any) {
	x, namesA := named(a)
	y, namesB := named(b)
	labels := map[string]string{}
	switch {
	case namesA == nil || namesB == nil:
		if x, y, namesA, namesB = c.paired(a, b); namesA == nil { // by position
			x, namesA = numbered(a)
			y, namesB = numbered(b)
		}
		for i, name := range namesB {
			labels[name] = fmt.Sprint(i)
		}
		for i, name := range namesA {
			labels[name] = fmt.Sprint(i)
		}
	default:
		for _, name := range append(slices.Clone(namesA), namesB...) {
			labels[name] = name
		}
	}
	all := slices.Clone(namesA)
	for _, name := range namesB {
		if _, ok := x[name]; !ok {
			all = append(all, name)
		}
	}
	for _, name := range all {
		c.member(path+"["+labels[name]+"]", x, y, name)
	}
	if orderMatters(c.api, path) {
		c.order(path, slices.DeleteFunc(slices.Clone(namesA), func(n string) bool { return y[n] == nil }), slices.DeleteFunc(slices.Clone(namesB), func(n string) bool { return x[n] == nil }))
	}
}

// order compares the places of what both lists have.
func (c *comparison) order(path string, a, b []string) {
	if len(a) < 2 {
		return
	}
	c.fields++
	if !slices.Equal(a, b) {
		c.differ(path+".order", strings.Join(a, " "), strings.Join(b, " "))
	}
}

// paired names elements by an id that each side has made itself: Moldau's by what Kafka calls the same thing.
func (c *comparison) paired(a, b []any) (x, y map[string]any, namesA, namesB []string) {
	for _, field := range []string{"TopicID", "MemberID", "ProducerID"} {
		x, namesA = byField(a, field)
		y, namesB = byField(b, field)
		if namesA == nil || namesB == nil {
			continue
		}
		translated := map[string]any{}
		for i, name := range namesB {
			theirs := c.ids.translate(field, name)
			translated[theirs] = y[name]
			namesB[i] = theirs
		}
		return x, translated, namesA, namesB
	}
	return nil, nil, nil, nil
}

func (c *comparison) leaf(path string, a, b any) {
	x, y := brief(a), brief(b)
	k := kindOf(c.api, path)
	if (a == nil || b == nil) && k != words {
		if x != y {
			c.differ(path, x, y)
		}
		return
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	equal := x == y
	switch k {
	case words:
		equal = true
	case identity:
		equal = c.ids.same(name, x, y)
	case clock:
		equal = none[x] == none[y] && (none[x] == false || x == y)
	case amount:
		equal = true
	case address:
		equal = x == y || (slices.Contains(c.ports[0], x) && slices.Index(c.ports[0], x) == slices.Index(c.ports[1], y))
	}
	if !equal {
		c.differ(path, x, y)
	}
}

// keyed are the fields that name an element of a list, the first that all elements have, each another.
var keyed = []string{"ApiKey", "Topic", "Partition", "ResourceName", "Name", "Group", "GroupID", "Key", "NodeID"}

// named gives the elements of a list by their names, or nothing if they have none.
func named(list []any) (map[string]any, []string) {
	for _, field := range keyed {
		if out, names := byField(list, field); names != nil {
			return out, names
		}
	}
	return nil, nil
}

func byField(list []any, field string) (map[string]any, []string) {
	out, names := map[string]any{}, []string{}
	for _, element := range list {
		m, _ := element.(map[string]any)
		value, ok := m[field].(string)
		if kind, isKind := m["Type"].(string); isKind && field == "Name" { // of a resource, whose kind is part of its name
			value = kind + ":" + value
		}
		if _, twice := out[value]; !ok || twice || (value == "" && field == "Topic") {
			return nil, nil
		}
		out[value] = element
		names = append(names, value)
	}
	return out, names
}

func numbered(list []any) (map[string]any, []string) {
	out, names := map[string]any{}, make([]string, len(list))
	for i, element := range list {
		names[i] = fmt.Sprint(i)
		out[names[i]] = element
	}
	return out, names
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// brief shows a value in a line.
func brief(v any) string {
	switch t := v.(type) {
	case nil:
		return "null"
	case string:
		return t
	case []any:
		return fmt.Sprintf("a list of %d", len(t))
	}
	return "present"
}

// lookup finds a value by a path such as Topics[t].Partitions[0].ErrorCode. [#0] is an element by its place.
func lookup(tree any, path string) (string, bool) {
	for path != "" {
		path = strings.TrimPrefix(path, ".")
		if rest, ok := strings.CutPrefix(path, "["); ok {
			name, after, _ := strings.Cut(rest, "]")
			list, _ := tree.([]any)
			elements, _ := named(list)
			if place, ok := strings.CutPrefix(name, "#"); ok || elements == nil {
				name = place
				elements, _ = numbered(list)
			}
			tree, path = elements[name], after
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		m, _ := tree.(map[string]any)
		tree, path = m[path[:end]], path[end:]
	}
	if tree == nil {
		return "", false
	}
	return brief(tree), true
}
