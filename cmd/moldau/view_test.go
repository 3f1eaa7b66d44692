package main

import (
	"bytes"
	"strings"
	"testing"
)

// sample has what views are made of: fields, a table with a wide column, an empty cell, an empty titled table.
func sample() view {
	type shape struct {
		Topic    string  `json:"topic"`
		Leader   int32   `json:"leader"`
		Replicas []int32 `json:"replicas"`
		Lag      *int64  `json:"lag"`
		Note     string  `json:"note"`
	}
	lag := int64(1) << 60
	return view{
		fields: []field{{"topic", "orders"}, {"min isr", "2"}, {"rack", ""}},
		tables: []table{
			{columns: []column{col("PARTITION"), col("LEADER"), wide("EPOCH"), col("ISR")}, rows: [][]string{{"0", "1", "7", "1,2"}, {"11", "none", "8", ""}}},
			{title: "nothing", columns: []column{col("X")}},
		},
		names: []string{"orders", "payments"},
		value: []shape{{"orders", -1, []int32{}, nil, "a < b & c"}, {"payments", 2, []int32{1, 2}, &lag, "yes"}},
	}
}

// golden is the expected text of sample in every format. Scripts rely on the last four.
var golden = map[string]string{
	formatTable: `
topic    orders
min isr  2
rack

PARTITION  LEADER  ISR
0          1       1,2
11         none    -
`,
	formatWide: `
topic    orders
min isr  2
rack

PARTITION  LEADER  EPOCH  ISR
0          1       7      1,2
11         none    8      -
`,
	formatJSON: `
[
  {
    "topic": "orders",
    "leader": -1,
    "replicas": [],
    "lag": null,
    "note": "a < b & c"
  },
  {
    "topic": "payments",
    "leader": 2,
    "replicas": [
      1,
      2
    ],
    "lag": 1152921504606846976,
    "note": "yes"
  }
]
`,
	formatJSONL: `
{"topic":"orders","leader":-1,"replicas":[],"lag":null,"note":"a < b & c"}
{"topic":"payments","leader":2,"replicas":[1,2],"lag":1152921504606846976,"note":"yes"}
`,
	formatYAML: `
- topic: orders
  leader: -1
  replicas: []
  lag: null
  note: a < b & c
- topic: payments
  leader: 2
  replicas:
    - 1
    - 2
  lag: 1152921504606846976
  note: "yes"
`,
	formatName: `
orders
payments
`,
}

func TestEveryFormat(t *testing.T) {
	for _, format := range formats {
		var out bytes.Buffer
		a := &app{out: &out, output: format}
		if err := a.show(sample()); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		if want := strings.TrimPrefix(golden[format], "\n"); out.String() != want {
			t.Errorf("%s:\n%s\nwant\n%s", format, out.String(), want)
		}
	}
	if err := (&app{output: "xml"}).show(sample()); exitCode(err) != exitUsage {
		t.Errorf("-o xml: %v", err)
	}
}
