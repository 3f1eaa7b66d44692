package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestUUIDText(t *testing.T) {
	u := UUID{0: 0xff, 15: 1}
	back, err := ParseUUID(u.String())
	if err != nil || back != u || len(u.String()) != 22 {
		t.Errorf("%s: %v %v", u, back, err)
	}
	for _, bad := range []string{"", "short", u.String() + "A", strings.Repeat("*", 22)} {
		if _, err := ParseUUID(bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
	// The text names partition directories: another form would orphan every directory on disk.
	tp := TopicPartition{Topic: UUID{1, 2, 3}, Partition: 7}
	if got := tp.String(); got != "AQIDAAAAAAAAAAAAAAAAAA-7" {
		t.Errorf("directory name %q", got)
	}
}

// Ids that are printed begin with no dash, and are not zero, whatever chance says.
func TestDrawUUID_NoDashAndNotZero(t *testing.T) {
	draws := []byte{0, 0xf8, 0xfb, 0xfc} // all zeros, the first and the last of those that print a dash, and the one behind it
	n := 0
	got := DrawUUID(func(b []byte) (int, error) {
		b[0] = draws[n]
		n++
		return len(b), nil
	})
	if n != len(draws) || got != (UUID{0xfc}) || got.String()[0] != '_' {
		t.Errorf("%v after %d draws", got, n)
	}
	if got := (UUID{0xf8}).String(); got[0] != '-' {
		t.Errorf("%s begins with no dash", got)
	}
}

// Trees are walked in the order of their keys, lists are sorted by Compare: both must be one order.
func TestCompareIsTheOrderOfKeys(t *testing.T) {
	all := []TopicPartition{{id(1), 0}, {id(1), 1}, {id(1), 256}, {id(2), 0}, {UUID{0xff}, 3}}
	for i, a := range all {
		for j, b := range all {
			ka, kb := partitionKey(a), partitionKey(b)
			want := cmp.Compare(i, j)
			if cmp.Compare(a.Compare(b), 0) != want || strings.Compare(string(ka[:]), string(kb[:])) != want {
				t.Errorf("%v against %v: %d", a, b, a.Compare(b))
			}
			if parsePartitionKey(ka[:]) != a {
				t.Errorf("%v does not survive its key", a)
			}
		}
	}
}

func TestEveryCodeHasAName(t *testing.T) {
	seen := map[string]Code{}
	for _, c := range Codes() {
		name := c.String()
		if name == "" || strings.ToUpper(name) != name {
			t.Errorf("code %d has the name %q", c, name)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%d and %d are both %s", other, c, name)
		}
		seen[name] = c
	}
}

func TestRefusalIsAnError(t *testing.T) {
	var err error = fmt.Errorf("broker: create: %w", Refuse(CodeTopicExists, "topic t exists"))
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeTopicExists || e.Leader != NoBroker || e.Error() != "topic t exists" {
		t.Errorf("got %+v", e)
	}
	if got := (&Error{Code: CodeTopicExists}).Error(); got != CodeTopicExists.String() {
		t.Errorf("without a message: %q", got)
	}
}

func TestConfigsKeepTheirOrder(t *testing.T) {
	var c Configs
	for _, k := range []string{"m", "a", "z", "m"} {
		c = c.With(k, k+"1")
	}
	if fmt.Sprint(c) != "[{a a1} {m m1} {z z1}]" {
		t.Errorf("%v", c)
	}
	if v, ok := c.Get("z"); !ok || v != "z1" {
		t.Errorf("z is %q %v", v, ok)
	}
	if d := c.Without("m"); len(d) != 2 || len(c) != 3 {
		t.Errorf("%v from %v", d, c)
	}
}
