package check

import (
	"testing"

	"github.com/moldau-log/moldau/internal/history"
)

// TestManyDeletionsOfAGroup: deletions of a group that has nothing to lose leave nothing behind, whatever is under way; and what comes after them is judged as after one.
func TestManyDeletionsOfAGroup(t *testing.T) {
	at := []history.Record{{Topic: "t", Offset: 5, Epoch: history.Unknown}}
	for name, commit := range map[string][]history.Type{"ok": {history.Invoke, history.OK}, "fail": {history.Invoke, history.Fail}, "info": {history.Invoke, history.Info}, "without an end": {history.Invoke}} {
		c := New(Options{})
		now := int64(0)
		add := func(e history.Event) {
			now++
			e.Time = now
			if err := c.Add(&e); err != nil {
				t.Fatal(err)
			}
		}
		fetch := func(o int64) {
			now += 2
			e := history.Event{Client: "n", Op: now, Kind: history.Committed, Group: "g", Type: history.Invoke}
			add(e)
			e.Type, e.Records = history.OK, []history.Record{{Topic: "t", Offset: o, Epoch: history.Unknown}}
			add(e)
		}
		fetch(history.Unknown) // there is a register, and nothing in it
		remove := func() {
			for op := range int64(1000) {
				how := []history.Type{history.OK, history.Fail}[op/3%2]
				for _, typ := range []history.Type{history.Invoke, how} {
					add(history.Event{Client: "a", Op: op + 1, Type: typ, Kind: history.Admin, Action: history.DeleteGroup, Group: "g"})
				}
			}
		}
		remove()
		for _, typ := range commit {
			add(history.Event{Client: "c", Op: 1, Type: typ, Kind: history.Commit, Group: "g", Member: "m", Generation: 1, Records: at})
		}
		remove()
		fetch(history.Unknown)
		for _, reg := range c.groups.registers {
			if len(reg.commits) > 4 {
				t.Errorf("%s: the register has %d commits", name, len(reg.commits))
			}
		}
		fetch(5)
		r := c.Report()
		want := map[string]Kind{"ok": StaleCommit, "fail": PhantomCommit}[name]
		if want == "" && !r.Clean() || want != "" && (r.Total() != 1 || r.Anomalies[0].Kind != want) {
			t.Errorf("%s: judged as\n%s", name, text(t, r))
		}
	}
}
