package sendfile

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pair is both ends of a loopback connection.
func pair(t testing.TB) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Close()
		c.Close()
	})
	return a.(*net.TCPConn), c.(*net.TCPConn)
}

func fileOf(t testing.TB, n int) (*os.File, []byte) {
	t.Helper()
	content := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(content)
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return f, content
}

// A range larger than the sockets comes whole to a reader that is slower than the sender, and the file's own offset stays where it was.
func TestSend_TheRangeAndNothingElse(t *testing.T) {
	f, content := fileOf(t, 8<<20)
	if _, err := f.Seek(17, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	near, far := pair(t)
	_ = far.SetReadBuffer(64 << 10)
	const from, n = 4097, 7<<20 + 3
	got := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(far)
		got <- all
	}()
	if done, err := Send(near, f, from, n, func(int) {}); !done || err != nil {
		t.Fatalf("%v, %v", done, err)
	}
	if done, err := Send(near, f, 0, 0, func(int) {}); !done || err != nil {
		t.Errorf("nothing: %v, %v", done, err)
	}
	near.Close()
	if all := <-got; !bytes.Equal(all, content[from:from+n]) {
		t.Errorf("%d bytes came, want %d", len(all), n)
	}
	if at, _ := f.Seek(0, io.SeekCurrent); at != 17 {
		t.Errorf("the file's offset is %d", at)
	}
}

func TestSend_AFileThatIsTooShort(t *testing.T) {
	f, _ := fileOf(t, 1000)
	near, far := pair(t)
	go func() { _, _ = io.Copy(io.Discard, far) }()
	if done, err := Send(near, f, 500, 501, func(int) {}); !done || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, %v", done, err)
	}
}

func TestSend_ItsDeadlineAndTheDeathOfTheReader(t *testing.T) {
	f, content := fileOf(t, 8<<20)
	near, far := pair(t)
	_ = far.SetReadBuffer(64 << 10)
	_ = near.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	if done, err := Send(near, f, 0, len(content), func(int) {}); !done || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nobody reads: %v, %v", done, err)
	}
	near, far = pair(t)
	_ = far.SetLinger(0)
	far.Close()
	if done, err := Send(near, f, 0, len(content), func(int) {}); !done || err == nil {
		t.Errorf("the reader is dead: %v, %v", done, err)
	}
}

// What is no TCP socket is left to the caller, with nothing sent.
func TestSend_OtherConnectionsAreLeftToTheCaller(t *testing.T) {
	f, _ := fileOf(t, 100)
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if done, err := Send(a, f, 0, 100, func(int) {}); done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
}
