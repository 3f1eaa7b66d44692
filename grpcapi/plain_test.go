package grpcapi

import (
	"errors"
	"testing"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
	"github.com/moldau-log/moldau/record"
)

// Case 104: a plain answer holds what one message may hold, however far the batches expand, and says where it goes on. One record that is larger comes alone; one that
// no message holds, by its bytes or by the number of its headers, is refused.
func TestCase104_PlainAnswersAreBounded(t *testing.T) {
	l := &logService{Server: &Server{cfg: Config{MaxMessageBytes: 8 << 20}.withDefaults()}}
	for name, test := range map[string]struct {
		sizes       []int
		headers     int
		from        record.Offset
		limit, want int
		next        int64
		refused     bool
	}{
		"all of it":              {sizes: []int{10, 20, 30}, limit: 100, want: 3, next: 3},
		"as many as were wanted": {sizes: []int{10, 20, 30}, from: 1, limit: 1, want: 1, next: 2},
		"as many as fit":         {sizes: []int{1 << 20, 1 << 20, 1 << 20, 1 << 20}, limit: 100, want: 2, next: 2},
		"a large one alone":      {sizes: []int{4 << 20, 10}, limit: 100, want: 1, next: 1},
		"a large one waits":      {sizes: []int{10, 4 << 20}, limit: 100, want: 1, next: 1},
		"too large":              {sizes: []int{9 << 20}, limit: 100, refused: true},
		"too many headers":       {sizes: []int{10}, headers: 200_000, limit: 100, refused: true},
	} {
		b := record.NewBuilder(record.BuilderOptions{Codec: record.CodecZstd})
		for _, size := range test.sizes {
			b.Append(1, []byte("k"), make([]byte, size), make([]record.Header, test.headers))
		}
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		out := &moldauv1.FetchRecordsResponse{}
		err = l.decodePlain(batch.Bytes(), test.from, test.limit, out, func(int) bool { return true })
		if errors.Is(err, record.ErrTooLarge) != test.refused || err != nil && !test.refused {
			t.Errorf("%s: %v", name, err)
		}
		if len(out.Records) != test.want || out.NextOffset != test.next {
			t.Errorf("%s: %d records, next %d, want %d and %d", name, len(out.Records), out.NextOffset, test.want, test.next)
		}
		if held := l.cfg.Memory.Held(); held != 0 {
			t.Errorf("%s: %d bytes are still counted", name, held)
		}
		for i, r := range out.Records {
			if len(r.Value) != test.sizes[int(test.from)+i] || string(r.Key) != "k" {
				t.Errorf("%s: record %d has a value of %d bytes", name, i, len(r.Value))
			}
		}
	}
}
