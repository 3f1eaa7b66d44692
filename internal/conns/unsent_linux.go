package conns

import (
	"net"
	"syscall"
)

const (
	// maxUnsent is what the kernel takes of a connection beyond what the network has taken, in bytes. By itself it takes 4 MiB, and then nothing until a third of that has gone:
	// a slow client would seem to stand still, and what it is asked (keepalive) would reach it late; and all of that is memory that no bound of ours counts.
	maxUnsent = 256 << 10
	// tcpNotSentLowat is TCP_NOTSENT_LOWAT, which package syscall does not name.
	tcpNotSentLowat = 25
)

// BoundUnsent keeps what the kernel takes of a connection of TCP small, so that the client's progress shows. A Listener does it by itself.
func BoundUnsent(c net.Conn) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // a kernel that does not know it goes on as it is
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, maxUnsent)
	})
}
