package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// library are the capabilities that every client library has to have, in the order of the table. What else a client lists goes into a second table.
var library = []string{
	"produce-none", "produce-gzip", "produce-snappy", "produce-lz4", "produce-zstd", "consume", "group", "admin", "seek-time", "headers", "nulls", "big", "idempotent", "broker-kill",
}

// table collects the cells.
type table struct {
	known   map[[2]string]string // (client, capability): why it fails
	clients []string             // in the order in which they ran
	cells   []result
}

func (t *table) add(r result) {
	if !slices.Contains(t.clients, r.client) {
		t.clients = append(t.clients, r.client)
	}
	t.cells = append(t.cells, r)
}

// word is a cell's text.
func (r result) word() string {
	switch {
	case r.pass:
		return "pass"
	case r.na:
		return "n/a: " + r.text
	}
	return "FAIL: " + r.text
}

// short is a cell's text where there is a footnote for the reason.
func (r result) short() string {
	word, _, _ := strings.Cut(r.word(), ":")
	return word
}

// bad counts the cells that failed and are not known to.
func (t *table) bad() int {
	n := 0
	for _, r := range t.cells {
		if _, ok := t.known[[2]string{r.client, r.capability}]; !r.pass && !r.na && !ok {
			n++
		}
	}
	return n
}

func (t *table) cell(client, capability string) (result, bool) {
	i := slices.IndexFunc(t.cells, func(r result) bool { return r.client == client && r.capability == capability })
	if i < 0 {
		return result{}, false
	}
	return t.cells[i], true
}

// markdown is the matrix of the libraries, then the cells of other capabilities, then the reasons.
func (t *table) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| client | %s |\n|---|%s\n", strings.Join(library, " | "), strings.Repeat("---|", len(library)))
	for _, client := range t.clients {
		var row []string
		for _, capability := range library {
			word := ""
			if r, ok := t.cell(client, capability); ok {
				word = r.short()
			}
			row = append(row, word)
		}
		if strings.Join(row, "") != "" {
			fmt.Fprintf(&b, "| %s | %s |\n", client, strings.Join(row, " | "))
		}
	}
	t.others(&b)
	t.reasons(&b)
	return b.String()
}

func (t *table) others(b *strings.Builder) {
	head := "\n| client | capability | result |\n|---|---|---|\n"
	for _, r := range t.cells {
		if slices.Contains(library, r.capability) {
			continue
		}
		fmt.Fprintf(b, "%s| %s | %s | %s |\n", head, r.client, r.capability, r.short())
		head = ""
	}
}

func (t *table) reasons(b *strings.Builder) {
	blank := "\n"
	for _, r := range t.cells {
		if r.pass {
			continue
		}
		fmt.Fprintf(b, "%s- %s, %s: %s", blank, r.client, r.capability, r.word())
		if why, ok := t.known[[2]string{r.client, r.capability}]; ok {
			fmt.Fprintf(b, " (known: %s)", why)
		}
		b.WriteByte('\n')
		blank = ""
	}
}

// readKnown reads lines of client, capability and reason; # begins a comment.
func readKnown(path string) (map[[2]string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	known := map[[2]string]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 3 {
			return nil, fmt.Errorf("%s: %q is not client, capability, reason", path, strings.TrimSpace(line))
		}
		known[[2]string{words[0], words[1]}] = strings.Join(words[2:], " ")
	}
	return known, nil
}
