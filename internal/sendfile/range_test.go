package sendfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
)

// stretch is a range of a file; lacking says how many of its bytes a copy does not find.
type stretch struct {
	f       *os.File
	at      int64
	n       int
	lacking int
}

func (s stretch) Len() int { return s.n }
func (s stretch) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, io.NewSectionReader(s.f, s.at, int64(s.n-s.lacking)))
}

// filedStretch also tells its file, and whether it was cut.
type filedStretch struct {
	stretch
	cut error
}

func (s filedStretch) File() (*os.File, int64, bool) { return s.f, s.at, true }
func (s filedStretch) Intact() error                 { return s.cut }

// A range goes out from its file or by copies, and is asked afterwards whether it was what it promised.
func TestSendRange(t *testing.T) {
	f, content := fileOf(t, 1<<20)
	errCut := errors.New("cut")
	for _, c := range []struct {
		name  string
		r     Range
		err   error
		bytes []byte
	}{
		{"by copies", stretch{f: f, at: 100, n: 5000}, nil, content[100:5100]},
		{"by copies that come up short", stretch{f: f, at: 100, n: 5000, lacking: 1}, io.ErrUnexpectedEOF, content[100:5099]},
		{"from its file", filedStretch{stretch{f: f, at: 100, n: 5000, lacking: 5000}, nil}, nil, content[100:5100]},
		{"from a file that was cut", filedStretch{stretch{f: f, at: 100, n: 5000}, errCut}, errCut, content[100:5100]},
	} {
		t.Run(c.name, func(t *testing.T) {
			near, far := pair(t)
			got := make(chan []byte, 1)
			go func() {
				all, _ := io.ReadAll(far)
				got <- all
			}()
			moved := 0
			if err := SendRange(near, c.r, func(n int) { moved += n }); !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
			if moved != len(c.bytes) {
				t.Errorf("%d bytes are said to have moved, want %d", moved, len(c.bytes))
			}
			near.Close()
			if all := <-got; !bytes.Equal(all, c.bytes) {
				t.Errorf("%d bytes came, want %d", len(all), len(c.bytes))
			}
		})
	}
}
