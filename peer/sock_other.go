//go:build !linux

package peer

import (
	"net"
	"time"
)

// setUserTimeout does nothing: the pings of each stream notice a dead peer alone.
func setUserTimeout(*net.TCPConn, time.Duration) {}
