package sendfile

import (
	"io"
	"net"
	"os"
)

// Range is a stretch of bytes that can be written to a socket.
type Range interface {
	Len() int
	WriteTo(w io.Writer) (int64, error)
}

// Filed is a Range that lies in a file.
type Filed interface {
	// File returns the descriptor and the position in it; false when there is none to send from.
	File() (f *os.File, position int64, ok bool)
	// Intact is asked after the send: an error means that the file was cut meanwhile, so that what went out may not be what was promised.
	Intact() error
}

// SendRange writes a range straight from its file where that can be done, and by copies where not. An error, of the range or of the socket, leaves the connection
// good for nothing but closing: some of the bytes may be out. Short is io.ErrUnexpectedEOF. moved, if not nil, is told how many bytes the socket has taken, each time
// that it takes some.
func SendRange(to net.Conn, r Range, moved func(n int)) error {
	if moved == nil {
		moved = func(int) {}
	}
	if in, ok := r.(Filed); ok {
		if f, position, ok := in.File(); ok {
			done, err := Send(to, f, position, r.Len(), moved)
			if done && err == nil {
				err = in.Intact()
			}
			if done {
				return err
			}
		}
	}
	n, err := r.WriteTo(to)
	moved(int(n))
	if err == nil && n != int64(r.Len()) {
		return io.ErrUnexpectedEOF
	}
	return err
}
