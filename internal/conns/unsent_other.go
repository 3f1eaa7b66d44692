//go:build !linux

package conns

import "net"

// BoundUnsent does nothing here.
func BoundUnsent(net.Conn) {}
