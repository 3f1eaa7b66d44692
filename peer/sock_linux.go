package peer

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout closes the connection when sent bytes stay unacknowledged for that long.
func setUserTimeout(tcp *net.TCPConn, after time.Duration) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
	})
}
