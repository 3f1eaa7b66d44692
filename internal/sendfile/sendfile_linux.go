package sendfile

import (
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Send sends n bytes of a file from a position to a socket without bringing them into this process. It reads at an explicit offset: the descriptor is shared by
// every reader of its segment, and its own offset is nobody's. Short is io.ErrUnexpectedEOF: the file was truncated. The connection's write deadline bounds it. It
// reports false, with nothing sent, for connections that are no plain TCP sockets.
func Send(conn net.Conn, f *os.File, position int64, n int, moved func(n int)) (bool, error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return false, nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false, nil
	}
	in := int(f.Fd())
	var failed error
	err = raw.Write(func(out uintptr) bool {
		for n > 0 {
			sent, err := unix.Sendfile(int(out), in, &position, n)
			switch {
			case err == unix.EAGAIN:
				return false // the runtime waits until the socket takes more
			case err == unix.EINTR:
				continue
			case err != nil:
				failed = os.NewSyscallError("sendfile", err)
				return true
			case sent == 0:
				failed = io.ErrUnexpectedEOF
				return true
			}
			n -= sent
			moved(sent)
		}
		return true
	})
	if failed != nil {
		err = failed
	}
	return true, err
}
