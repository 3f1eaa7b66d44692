package conns

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
)

func TestWithin(t *testing.T) {
	for _, test := range []struct {
		have        Limits
		descriptors int
		want        Limits
	}{
		{Limits{10000, 4000}, math.MaxInt, Limits{10000, 4000}},
		{Limits{10000, 4000}, 1 << 20, Limits{10000, 4000}},
		{Limits{10000, 4000}, 20000, Limits{5000, 2500}},
		{Limits{10000, 4000}, 3000, Limits{750, 375}},
		{Limits{10000, 100}, 3000, Limits{750, 100}},
		{Limits{500, 100}, 3000, Limits{500, 100}},
		{Limits{10000, 4000}, 0, Limits{8, 4}},
	} {
		if got := test.have.Within(test.descriptors, ClientShare); got != test.want {
			t.Errorf("%+v within %d: %+v, want %+v", test.have, test.descriptors, got, test.want)
		}
	}
	if n := Descriptors(); n < 64 {
		t.Errorf("%d descriptors", n)
	}
}

// script is a listener that gives what it is told to.
type script struct {
	next   []any // an address, or an error
	closed []string
}

func (s *script) Accept() (net.Conn, error) {
	if len(s.next) == 0 {
		return nil, net.ErrClosed
	}
	next := s.next[0]
	s.next = s.next[1:]
	if err, failed := next.(error); failed {
		return nil, err
	}
	return &from{s: s, address: next.(string)}, nil
}

func (s *script) Close() error   { return nil }
func (s *script) Addr() net.Addr { return nil }

type from struct {
	net.Conn
	s       *script
	address string
}

func (f *from) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(strings.Split(f.address, ":")[0]), Port: 1}
}
func (f *from) Close() error { f.s.closed = append(f.s.closed, f.address); return nil }

func TestCase107_AListenerTakesSoManyAndSoManyOfOneAddress(t *testing.T) {
	s := &script{next: []any{"10.0.0.1", "10.0.0.1", "10.0.0.1:third", "10.0.0.2", "10.0.0.3:fourth", "10.0.0.3"}}
	refused, open := map[string]int{}, 0
	l := Listen(s, Options{Limits: Limits{Whole: 3, Each: 2}, Refused: func(r string) { refused[r]++ }, Changed: func(by int) { open += by }})
	var conns []net.Conn
	for range 3 {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	s.next = s.next[:1]
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a fourth is taken: %v", err)
	}
	if refused[OfAddress] != 1 || refused[TooMany] != 1 || open != 3 || strings.Join(s.closed, " ") != "10.0.0.1:third 10.0.0.3:fourth" {
		t.Errorf("refused %v, %d open, closed %v", refused, open, s.closed)
	}
	for range 2 { // counted out once
		conns[0].Close()
	}
	s.next = []any{"10.0.0.1", "10.0.0.1"}
	if _, err := l.Accept(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) || open != 3 {
		t.Errorf("%d are open, %v", open, err)
	}
}

// TestCase107_AcceptsThatFail: they are told, with a pause between them, and the listener goes on.
func TestCase107_AcceptsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{next: []any{syscall.EMFILE, syscall.EMFILE, "10.0.0.1", io.ErrUnexpectedEOF}}
		var text strings.Builder
		l := Listen(s, Options{Limits: Limits{Whole: 3, Each: 2}, Log: slog.New(slog.NewTextHandler(&text, nil))})
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(text.String(), "a connection could not be accepted"); got != 2 || !strings.Contains(text.String(), syscall.EMFILE.Error()) {
			t.Errorf("%d lines: %s", got, text.String())
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Accept(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after its end: %v", err)
		}
	})
}
