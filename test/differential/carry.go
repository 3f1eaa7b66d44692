package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// counts are what runs against several clusters have in common: the last one judges all.
type counts struct {
	Requests, Fields, Intended, Open, Faults int
	Hits                                     map[string]int // of the rows of the list, by their text
}

// resume reads the counts of the runs before, and gives the rows their hits.
func resume(file string, rows []*row) (counts, error) {
	var c counts
	if file == "" {
		return c, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	for _, r := range rows {
		r.hits = c.Hits[r.text]
	}
	return c, nil
}

func (c *counts) add(r *runner, intended, open int) {
	c.Requests += r.requests
	c.Fields += r.fields
	c.Intended += intended
	c.Open += open
	c.Faults += len(r.faults)
}

// write keeps the counts for the run that follows.
func (c *counts) write(file string, rows []*row) error {
	if file == "" {
		return nil
	}
	c.Hits = map[string]int{}
	for _, r := range rows {
		c.Hits[r.text] = r.hits
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
