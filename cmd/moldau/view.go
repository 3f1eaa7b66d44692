package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// The output formats.
const (
	formatTable = "table" // for people
	formatWide  = "wide"  // a table with every column
	formatJSON  = "json"  // one document
	formatYAML  = "yaml"  // the same document
	formatJSONL = "jsonl" // one element of a list a line
	formatName  = "name"  // only what identifies each thing, for shell loops
)

var formats = []string{formatTable, formatWide, formatJSON, formatYAML, formatJSONL, formatName}

// view is one answer in every shape that -o can give it.
type view struct {
	fields []field  // lines above the tables
	tables []table  // printed one after another; what is empty and has no title is left out
	names  []string // for -o name
	value  any      // for json, yaml and jsonl: a struct, or a slice of them
}

// field is one line of label and text.
type field struct{ label, text string }

type table struct {
	title   string
	columns []column
	rows    [][]string
}

type column struct {
	name string
	only string // "" or formatWide
}

// col is a column of every table, wide one of -o wide only.
func col(name string) column  { return column{name: name} }
func wide(name string) column { return column{name: name, only: formatWide} }

// show prints a view in the format of -o.
func (a *app) show(v view) error {
	switch a.output {
	case formatTable, formatWide:
		return writeTables(a.out, v, a.output)
	case formatJSON:
		return writeJSON(a.out, v.value)
	case formatJSONL:
		return writeJSONLines(a.out, v.value)
	case formatYAML:
		return writeYAML(a.out, v.value)
	case formatName:
		return writeLines(a.out, v.names)
	}
	return usage("-o %q is not one of %s", a.output, strings.Join(formats, ", "))
}

func writeLines(w io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func writeJSONLines(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		return enc.Encode(v)
	}
	for i := range list.Len() {
		if err := enc.Encode(list.Index(i).Interface()); err != nil {
			return err
		}
	}
	return nil
}

// writeYAML goes through JSON, so that both have the same keys in the same order.
func writeYAML(w io.Writer, v any) error {
	var text bytes.Buffer
	if err := writeJSON(&text, v); err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text.Bytes(), &doc); err != nil {
		return err
	}
	blockStyle(&doc)
	text.Reset() // not straight to w: the encoder hides why a write failed
	enc := yaml.NewEncoder(&text)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}

// blockStyle drops JSON's braces; empty lists stay visible, and quotes stay where a string would be read as something else, also by readers of
// YAML 1.1, to whom yes is true.
func blockStyle(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode && len(n.Content) > 0 {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		if plain, err := yaml.Marshal(n.Value); err == nil && strings.TrimSuffix(string(plain), "\n") == n.Value {
			n.Style = 0
		}
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// writeTables prints fields and tables: capitals above columns, two spaces between, no lines and no wrapping.
func writeTables(w io.Writer, v view, format string) error {
	var out strings.Builder
	widest := 0
	for _, f := range v.fields {
		widest = max(widest, len(f.label))
	}
	for _, f := range v.fields {
		out.WriteString(strings.TrimRight(fmt.Sprintf("%-*s  %s", widest, f.label, f.text), " ") + "\n")
	}
	for _, t := range v.tables {
		if len(t.rows) == 0 && (t.title != "" || len(v.fields) > 0) {
			continue
		}
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		if t.title != "" {
			out.WriteString(t.title + "\n")
		}
		writeTable(&out, t, format)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func writeTable(out *strings.Builder, t table, format string) {
	rows := make([][]string, 1, len(t.rows)+1)
	var picked []int
	for i, c := range t.columns {
		if c.only == "" || c.only == format {
			picked = append(picked, i)
			rows[0] = append(rows[0], c.name)
		}
	}
	for _, cells := range t.rows {
		var row []string
		for _, i := range picked {
			row = append(row, orDash(cells[i]))
		}
		rows = append(rows, row)
	}
	widths := make([]int, len(picked))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%s%s", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

func orDash(cell string) string {
	if cell == "" {
		return "-"
	}
	return cell
}
