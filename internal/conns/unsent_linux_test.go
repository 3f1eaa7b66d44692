package conns

import (
	"net"
	"syscall"
	"testing"
)

// A listener does so for every connection that it accepts.
func TestCase108_AListenerBoundsWhatIsUnsent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := Listen(l, Options{Limits: Limits{Whole: 1, Each: 1}}).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*conn).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	if e := raw.Control(func(fd uintptr) { got, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat) }); e != nil || err != nil || got != maxUnsent {
		t.Errorf("%d, %v, %v", got, e, err)
	}
}
