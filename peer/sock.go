package peer

import (
	"net"
	"time"
)

// tune sets what a connection between brokers wants: small frames go out at once (Go's default), and a host that vanished is noticed by the kernel as well,
// also under a stream whose own pings are stuck behind unacknowledged data. Errors are ignored: without these options the pings remain.
func tune(conn net.Conn, deadAfter time.Duration) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3})
	setUserTimeout(tcp, deadAfter)
}
