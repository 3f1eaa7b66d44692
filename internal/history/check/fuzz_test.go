package check

import (
	"strings"
	"testing"
)

// FuzzMerge: whatever the files hold, a history is judged or refused, and judged the same way again.
func FuzzMerge(f *testing.F) {
	for seed := range uint64(8) { // short, because the fuzzer shortens what it finds, byte by byte
		var text []byte
		events := generate(seed, 10)
		for _, e := range events[seed : seed+4] {
			text = e.AppendJSON(text)
		}
		half := len(text) / 2
		f.Add(string(text), "")
		f.Add(string(text[:half]), string(text[half:]))
	}
	f.Add(`{"t":1,"client":"c","op":1,"type":"ok","kind":"poll","topic":"t","records":[{"p":0,"o":9223372036854775807,"v":"x"}]}`, "")
	f.Fuzz(func(t *testing.T, one, two string) {
		var reports [2]string
		for i := range reports {
			c := New(Options{Limit: 2, MaxGap: 1, MaxRecovery: 1})
			if err := c.Merge([]Source{NewSource("one", strings.NewReader(one)), NewSource("two", strings.NewReader(two))}); err != nil {
				reports[i] = err.Error()
				continue
			}
			reports[i] = text(t, c.Report())
		}
		if reports[0] != reports[1] {
			t.Fatalf("judged as\n%s\nand as\n%s", reports[0], reports[1])
		}
	})
}
