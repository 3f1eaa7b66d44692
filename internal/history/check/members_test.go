package check

import (
	"strconv"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/internal/history"
)

// ofLines judges one file of lines that leave out t, client and op: each is the next moment, and of client c unless it says otherwise.
func ofLines(t *testing.T, lines ...string) (*Report, error) {
	t.Helper()
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(`{"t":` + strconv.Itoa(i+1) + `,"client":"c",` + strings.ReplaceAll(line, "'", `"`) + "}\n")
	}
	c := New(Options{})
	if err := c.Merge([]Source{NewSource("f", strings.NewReader(b.String()))}); err != nil {
		return nil, err
	}
	return c.Report(), nil
}

// TestForgottenMembersAreRefused: an event that does not say what it is about would be judged by nothing, and its check pass.
func TestForgottenMembersAreRefused(t *testing.T) {
	at := `'records':[{'p':0,'o':5}]`
	in := `'topic':'t',` + at
	for line, want := range map[string]string{
		`'type':'ok','kind':'poll',` + at:                                              "record 0: topic is missing",
		`'type':'invoke','kind':'commit','group':'g',` + at:                            "record 0: topic is missing",
		`'type':'ok','kind':'seek',` + at:                                              "record 0: topic is missing",
		`'type':'ok','kind':'seek','topic':'t','records':[{'p':-1,'o':5}]`:             "record 0: p is -1",
		`'type':'ok','kind':'assign','group':'g',` + at:                                "record 0: topic is missing",
		`'type':'ok','kind':'admin','action':'log-start',` + at:                        "record 0: topic is missing",
		`'type':'ok','kind':'admin','action':'relaxed',` + at:                          "record 0: topic is missing",
		`'type':'ok','kind':'admin','action':'relaxed'`:                                "topic is missing",
		`'type':'ok','kind':'admin','action':'unclean',` + at:                          "record 0: topic is missing",
		`'type':'ok','kind':'admin','action':'drained','broker':1,` + at:               "record 0: topic is missing",
		`'type':'invoke','kind':'admin','action':'delete-records',` + at:               "record 0: topic is missing",
		`'type':'ok','kind':'admin','action':'delete-records',` + at:                   "record 0: topic is missing",
		`'type':'invoke','kind':'admin','action':'delete-topic'`:                       "topic is missing",
		`'type':'info','kind':'admin','action':'delete-topic'`:                         "topic is missing",
		`'type':'ok','kind':'admin','action':'create-topic'`:                           "topic is missing",
		`'type':'ok','kind':'replica','broker':1,` + at:                                "record 0: topic is missing",
		`'type':'ok','kind':'assign',` + in:                                            "group is missing",
		`'type':'ok','kind':'join'`:                                                    "group is missing",
		`'type':'invoke','kind':'commit',` + in:                                        "group is missing",
		`'type':'invoke','kind':'admin','action':'delete-group'`:                       "group is missing",
		`'type':'info','kind':'admin','action':'delete-group'`:                         "group is missing",
		`'type':'ok','kind':'replica',` + in:                                           "broker is missing",
		`'type':'ok','kind':'admin','action':'drained',` + in:                          "broker is missing",
		`'type':'ok','kind':'poll','action':'drain',` + in:                             "broker is missing",
		`'type':'ok','kind':'admin'`:                                                   "action is missing",
		`'type':'ok','kind':'poll','topic':'t','records':[{'p':0,'v':'x'}]`:            "record 0 has no place",
		`'type':'ok','kind':'admin','action':'drained','broker':1,'records':[{'p':0}]`: "record 0: o is missing",
	} {
		if _, err := ofLines(t, `'type':'info','kind':'poll'`, line); err == nil || !strings.Contains(err.Error(), "f:2: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	for _, kind := range []string{"latest", "committed"} {
		lines := []string{`'op':1,'type':'invoke','kind':'` + kind + `'`, `'op':1,'type':'ok','kind':'` + kind + `','group':'g',` + at}
		if _, err := ofLines(t, lines...); err == nil || !strings.Contains(err.Error(), "record 0: topic is missing") {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := ofLines(t, `'op':1,'type':'invoke','kind':'committed'`, `'op':1,'type':'ok','kind':'committed',`+in); err == nil || !strings.Contains(err.Error(), "f:2: check: client c, op 1, committed ok at 2: group is missing") {
		t.Errorf("committed: %v", err)
	}
}

// TestCompletionsMayLeaveOutWhatTheirInvokesSaid: a completion without it is judged as one with it.
func TestCompletionsMayLeaveOutWhatTheirInvokesSaid(t *testing.T) {
	v := `'v':'` + history.Value{Client: "c", Seq: 1}.String() + `'`
	lines := []string{
		`'op':1,'type':'invoke','kind':'send','topic':'t','records':[{'p':0,` + v + `}]`,
		`'op':1,'type':'ok','kind':'send','records':[{'p':0,'o':0}]`,
		`'op':2,'type':'invoke','kind':'admin','action':'drained','broker':0,'topic':'t'`,
		`'op':3,'type':'invoke','kind':'poll','action':'drain','broker':0,'topic':'t'`,
		`'op':3,'type':'ok','kind':'poll','records':[{'p':0,'o':0,` + v + `}]`,
		`'op':2,'type':'ok','kind':'admin','records':[{'p':0,'o':1}]`,
		`'op':4,'type':'invoke','kind':'admin','action':'delete-group','group':'g'`,
		`'op':4,'type':'ok','kind':'admin'`,
		`'op':5,'type':'invoke','kind':'assign','group':'g','member':'m','generation':1,'topic':'t'`,
		`'op':5,'type':'ok','kind':'assign','records':[{'p':0,'o':0}]`,
		`'op':6,'type':'ok','kind':'assign','client':'d','topic':'t','group':'g','member':'n','generation':1,'records':[{'p':0,'o':0}]`,
	}
	for i, other := range lines[:10] { // whoever owns, and drained, is known
		r, err := ofLines(t, lines[:i+1]...)
		if err != nil {
			t.Fatalf("%s: %v", other, err)
		}
		if !r.Clean() || i > 5 && len(r.Notes) > 1 {
			t.Errorf("%s:\n%s", other, text(t, r))
		}
	}
	r, err := ofLines(t, lines...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Total() != 1 || r.Anomalies[0].Kind != TwoOwners {
		t.Errorf("judged as\n%s", text(t, r))
	}
	seen := 0
	for _, check := range r.Checks {
		if check.Kind == Unseen {
			seen = int(check.Checked)
		}
	}
	if seen != 1 {
		t.Errorf("%d drains were asked for the value, want 1", seen)
	}
	for broker, want := range map[string]string{"": "broker is missing", "'broker':0,": "", "'broker':3,": ""} {
		for _, action := range []string{"", "'action':'drained',"} {
			_, err := ofLines(t, `'op':2,'type':'invoke','kind':'admin','action':'drained','topic':'t'`, `'op':2,'type':'ok','kind':'admin',`+action+broker+`'records':[{'p':0,'o':1}]`)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("a drain whose completion says %s%s: %v, want %q", action, broker, err, want)
			}
		}
		_, err := ofLines(t, `'op':3,'type':'invoke','kind':'poll','action':'drain','topic':'t'`, `'op':3,'type':'ok','kind':'poll',`+broker+`'records':[]`)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a poll of a drain whose completion says %s: %v, want %q", broker, err, want)
		}
	}
	if _, err := ofLines(t, lines[2], `'op':2,'type':'ok','kind':'admin','records':[{'p':0}]`); err == nil || !strings.Contains(err.Error(), "o is missing") {
		t.Errorf("a drain without its end: %v", err)
	}
}

// TestACompletionOfAnotherActionIsRefused: what began as one operation cannot end as another.
func TestACompletionOfAnotherActionIsRefused(t *testing.T) {
	create, forget := `'kind':'admin','action':'create-topic','topic':'t'`, `'kind':'admin','action':'delete-group','group':'g'`
	for _, c := range [][2]string{{create, forget}, {forget, create}} {
		for _, outcome := range []string{"ok", "fail", "info"} {
			_, err := ofLines(t, `'op':1,'type':'invoke',`+c[0], `'op':1,'type':'`+outcome+`',`+c[1])
			if err == nil || !strings.Contains(err.Error(), "f:2: ") || !strings.Contains(err.Error(), "it began as "+c[0][len(`'kind':'admin','action':'`):][:12]) {
				t.Errorf("%s after %s, %s: %v", c[1], c[0], outcome, err)
			}
		}
	}
	if _, err := ofLines(t, `'op':1,'type':'invoke',`+forget, `'op':1,'type':'info','kind':'admin'`); err != nil {
		t.Errorf("a completion without its action: %v", err)
	}
}
