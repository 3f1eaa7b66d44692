package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// statement is one line of a script, with the lines of its block.
type statement struct {
	where string // file:line
	verb  string // "step", "let", "of", "in", "ready", "wait"
	name  string
	words []string // what comes behind the name, not yet substituted
	body  string   // JSON of a step, text of a let
	block []statement
}

// load reads every script, in the order of the names of the files.
func load(dir, only string) ([]statement, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var out []statement
	for _, file := range files {
		if base := filepath.Base(file); !strings.HasPrefix(base, "00") && !strings.Contains(base, only) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		p := parser{lines: joined(string(text)), file: filepath.Base(file)}
		statements, err := p.block(false)
		if err != nil {
			return nil, err
		}
		out = append(out, statements...)
	}
	return out, nil
}

// line is a statement's text and the number of its first line.
type line struct {
	text   string
	number int
}

// joined drops comments and empty lines, and appends continuations to their line.
func joined(text string) []line {
	var out []line
	number := 0
	for raw := range strings.Lines(text) {
		number++
		trimmed := strings.TrimSpace(raw)
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
		case strings.HasPrefix(raw, " ") || strings.HasPrefix(raw, "\t"):
			if len(out) > 0 {
				out[len(out)-1].text += " " + trimmed
			}
		default:
			out = append(out, line{trimmed, number})
		}
	}
	return out
}

type parser struct {
	lines []line
	file  string
}

func (p *parser) block(inner bool) ([]statement, error) {
	var out []statement
	for len(p.lines) > 0 {
		l := p.lines[0]
		p.lines = p.lines[1:]
		if l.text == "end" {
			if !inner {
				return nil, fmt.Errorf("%s:%d: an end without a for", p.file, l.number)
			}
			return out, nil
		}
		s, err := parse(l.text)
		s.where = p.file + ":" + strconv.Itoa(l.number)
		if err == nil && (s.verb == "of" || s.verb == "in") {
			s.block, err = p.block(true)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", s.where, l.text, err)
		}
		out = append(out, s)
	}
	if inner {
		return nil, fmt.Errorf("%s: a for without an end", p.file)
	}
	return out, nil
}

func parse(text string) (statement, error) {
	words := strings.Fields(text)
	switch words[0] {
	case "let":
		if len(words) < 3 {
			return statement{}, fmt.Errorf("want: let NAME TEXT")
		}
		return statement{verb: "let", name: words[1], body: strings.TrimSpace(text[strings.Index(text, words[1])+len(words[1]):])}, nil
	case "for":
		if len(words) < 4 || (words[2] != "of" && words[2] != "in") {
			return statement{}, fmt.Errorf("want: for NAME of KEY, or for NAME in WORD...")
		}
		return statement{verb: words[2], name: words[1], words: words[3:]}, nil
	case "ready":
		if len(words) != 3 {
			return statement{}, fmt.Errorf("want: ready TOPIC PARTITIONS")
		}
		return statement{verb: "ready", name: words[1], words: words[2:]}, nil
	case "wait":
		if len(words) != 2 {
			return statement{}, fmt.Errorf("want: wait STEP")
		}
		return statement{verb: "wait", name: words[1]}, nil
	}
	head, body, ok := strings.Cut(text, " {")
	words = strings.Fields(head)
	if !ok || len(words) < 3 {
		return statement{}, fmt.Errorf("want: STEP KEY VERSIONS [DIRECTIVE...] {JSON}")
	}
	if _, err := newDirectives(words[3:]); err != nil {
		return statement{}, err
	}
	return statement{verb: "step", name: words[0], words: words[1:], body: "{" + body}, nil
}

// directives say how a step is sent and what is done with its answer.
type directives struct {
	save                  [][2]string // variable, path
	untilPath, untilValue string
	untilNot              bool
	async, silent, closed bool
	as                    int16 // -1: as asked
	on                    string
	tail                  []byte // what the request ends with instead
	broker                string // a place in the list of addresses, or !PLACE for the next one; empty for the first
}

func newDirectives(words []string) (directives, error) {
	d := directives{as: -1}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "save":
			variable, path, ok := strings.Cut(value, ":")
			if !ok {
				return d, fmt.Errorf("want save=NAME:PATH")
			}
			d.save = append(d.save, [2]string{variable, path})
		case "until":
			at := strings.LastIndex(value, "=")
			if at < 1 {
				return d, fmt.Errorf("want until=PATH=VALUE")
			}
			d.untilPath, d.untilValue = value[:at], value[at+1:]
			d.untilPath, d.untilNot = strings.CutSuffix(d.untilPath, "!")
		case "async":
			d.async = true
		case "silent":
			d.silent = true
		case "closed":
			d.closed = true
		case "as":
			n, err := strconv.ParseInt(value, 10, 16)
			if err != nil {
				return d, err
			}
			d.as = int16(n)
		case "on":
			d.on = value
		case "broker":
			d.broker = value
		case "tail":
			var err error
			if d.tail, err = hex.DecodeString(value); err != nil {
				return d, fmt.Errorf("want tail=HEX: %w", err)
			}
		default:
			return d, fmt.Errorf("no directive %q", word)
		}
	}
	return d, nil
}

// span is the versions that VERSIONS names, of those that both sides offer.
func span(text string, offered [2]int16) (from, to int16, err error) {
	number := func(s string) int16 {
		n, e := strconv.ParseInt(s, 10, 16)
		if e != nil {
			err = fmt.Errorf("versions %q: %w", text, e)
		}
		return int16(n)
	}
	if text == "*" {
		return offered[0], offered[1], nil
	}
	if near, ok := strings.CutPrefix(text, "~"); ok {
		n := min(max(number(near), offered[0]), offered[1])
		return n, n, err
	}
	if low, ok := strings.CutSuffix(text, "+"); ok {
		return max(number(low), offered[0]), offered[1], err
	}
	if low, high, ok := strings.Cut(text, "-"); ok {
		return max(number(low), offered[0]), min(number(high), offered[1]), err
	}
	n := number(text)
	return n, n, err
}
