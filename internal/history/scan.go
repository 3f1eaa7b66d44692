package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// maxDepth bounds the nesting of what is skipped.
const maxDepth = 32

// scanner reads JSON of one line in place. It accepts nothing that encoding/json refuses; what it is for is that a history of ten million lines is read in
// seconds. The first error stays, and everything after it reads as empty.
type scanner struct {
	text []byte
	at   int
	err  error
	// unquoted holds the last string that had escapes.
	unquoted []byte
}

func (s *scanner) reset(text []byte) { *s = scanner{text: text, unquoted: s.unquoted[:0]} }

func (s *scanner) fail(want string) {
	if s.err != nil {
		return
	}
	s.err = fmt.Errorf("byte %d: want %s", s.at, want)
	if s.at >= len(s.text) {
		s.err = fmt.Errorf("the line ends where %s should be", want)
	}
}

// object reads a whole object and calls member at each value, which it has to consume.
func (s *scanner) object(member func(key []byte)) error {
	s.nested(member)
	return s.err
}

func (s *scanner) nested(member func(key []byte)) {
	s.list('{', '}', func() {
		key := s.str()
		if s.token(':', "':'") {
			member(key)
		}
	})
}

func (s *scanner) array(element func()) { s.list('[', ']', element) }

// list reads what is between two brackets, separated by commas.
func (s *scanner) list(open, end byte, element func()) {
	if !s.token(open, "'"+string(open)+"'") {
		return
	}
	if s.space(); s.at < len(s.text) && s.text[s.at] == end {
		s.at++
		return
	}
	for s.err == nil {
		element()
		s.space()
		switch {
		case s.err != nil:
		case s.at < len(s.text) && s.text[s.at] == ',':
			s.at++
		case s.at < len(s.text) && s.text[s.at] == end:
			s.at++
			return
		default:
			s.fail("',' or '" + string(end) + "'")
		}
	}
}

func (s *scanner) space() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t' || s.text[s.at] == '\r' || s.text[s.at] == '\n') {
		s.at++
	}
}

// token consumes one byte.
func (s *scanner) token(c byte, name string) bool {
	s.space()
	if s.err == nil && s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	s.fail(name)
	return false
}

// str reads a string; the result is valid until the next one.
func (s *scanner) str() []byte {
	if !s.token('"', "a string") {
		return nil
	}
	start := s.at
	for plainSoFar := true; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"' && plainSoFar:
			s.at++
			return s.text[start : s.at-1]
		case c == '"':
			s.at++
			return s.unquote(s.text[start-1 : s.at])
		case c == '\\':
			plainSoFar = false
			s.at++
		case c < ' ':
			s.fail("no control character")
			return nil
		case c >= 0x80:
			plainSoFar = false // encoding/json repairs what is not UTF-8
		}
	}
	s.at = len(s.text)
	s.fail("'\"'")
	return nil
}

func (s *scanner) unquote(quoted []byte) []byte {
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		s.fail("valid escapes")
		return nil
	}
	s.unquoted = append(s.unquoted[:0], text...)
	return s.unquoted
}

// integer reads a whole number between two bounds.
func (s *scanner) integer(low, high int64) int64 {
	s.space()
	start := s.at
	negative := s.at < len(s.text) && s.text[s.at] == '-'
	if negative {
		s.at++
	}
	digits := s.at
	var n uint64
	for ; s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9'; s.at++ {
		d := uint64(s.text[s.at] - '0')
		if n > (math.MaxUint64-d)/10 {
			s.fail("a smaller number")
			return 0
		}
		n = n*10 + d
	}
	v, err := signed(n, negative)
	fraction := s.at < len(s.text) && (s.text[s.at] == '.' || s.text[s.at] == 'e' || s.text[s.at] == 'E')
	bad := fraction || s.at == digits || s.text[digits] == '0' && s.at > digits+1 || err != nil || v < low || v > high
	if s.err != nil || bad {
		s.at = start
		s.fail(fmt.Sprintf("a whole number from %d to %d", low, high))
		return 0
	}
	return v
}

var errRange = errors.New("out of range")

func signed(n uint64, negative bool) (int64, error) {
	switch {
	case negative && n == 1<<63:
		return math.MinInt64, nil
	case n > math.MaxInt64:
		return 0, errRange
	case negative:
		return -int64(n), nil
	}
	return int64(n), nil
}

func (s *scanner) boolean() bool {
	s.space()
	for _, word := range []string{"true", "false"} {
		if rest := s.text[s.at:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
			s.at += len(word)
			return word == "true"
		}
	}
	s.fail("true or false")
	return false
}

// skip consumes any value.
func (s *scanner) skip(depth int) {
	if s.space(); depth > maxDepth || s.at >= len(s.text) {
		s.fail("a value that is not nested so deeply")
		return
	}
	switch s.text[s.at] {
	case '{':
		s.nested(func([]byte) { s.skip(depth + 1) })
	case '[':
		s.array(func() { s.skip(depth + 1) })
	case '"':
		s.str()
	default:
		start := s.at
		for s.at < len(s.text) && !isDelimiter(s.text[s.at]) {
			s.at++
		}
		if !json.Valid(s.text[start:s.at]) {
			s.at = start
			s.fail("a value")
		}
	}
}

func isDelimiter(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\t' || c == '\r' || c == '\n'
}
