package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/moldau-log/moldau/client"
)

// positionKind says how a position is counted.
type positionKind int

const (
	atStart positionKind = iota
	atEnd
	afterStart // +n
	beforeEnd  // -n
	atOffset
	atTime // milliseconds
)

// position is a place in a partition, as people write it: start, end, +n, -n, OFFSET, @timestamp.
type position struct {
	kind positionKind
	n    int64
}

func parsePosition(text string, now time.Time) (position, error) {
	bad := fmt.Errorf("%q is not start, end, OFFSET, +n, -n or @TIMESTAMP", text)
	switch text {
	case "start", "earliest", "beginning":
		return position{kind: atStart}, nil
	case "end", "latest":
		return position{kind: atEnd}, nil
	case "":
		return position{}, bad
	}
	if stamp, ok := strings.CutPrefix(text, "@"); ok {
		ms, err := parseTimestamp(stamp, now)
		return position{atTime, ms}, err
	}
	kind, digits := atOffset, text
	switch text[0] {
	case '+':
		kind, digits = afterStart, text[1:]
	case '-':
		kind, digits = beforeEnd, text[1:]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return position{}, bad
	}
	return position{kind, n}, nil
}

// parseTimestamp reads milliseconds since 1970, RFC 3339, or a duration before now with a minus.
func parseTimestamp(text string, now time.Time) (int64, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return ms, nil
	}
	if ago, ok := strings.CutPrefix(text, "-"); ok {
		if d, err := time.ParseDuration(ago); err == nil {
			return now.Add(-d).UnixMilli(), nil
		}
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, fmt.Errorf("%q is not milliseconds since 1970, a time such as 2026-01-31T12:00:00Z, or -1h for an hour ago", "@"+text)
}

// start is the position in the words of the client.
func (p position) start() client.Start {
	switch p.kind {
	case atEnd:
		return client.FromEnd()
	case afterStart:
		return client.FromStartPlus(p.n)
	case beforeEnd:
		return client.FromEndMinus(p.n)
	case atOffset:
		return client.FromOffset(p.n)
	case atTime:
		return client.FromTime(time.UnixMilli(p.n))
	}
	return client.FromStart()
}
