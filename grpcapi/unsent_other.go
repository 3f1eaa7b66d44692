//go:build !linux

package grpcapi

import "net"

func boundUnsent(net.Conn) {}
