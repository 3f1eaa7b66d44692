package server

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/config"
)

// listeners are the ports of a broker, all open before anything else starts, so that a port in use is found at once.
type listeners struct {
	peer, kafka, grpc, http net.Listener
	named                   []named
}

// named is a Kafka listener beside the first one.
type named struct {
	config.NamedListener
	net.Listener
}

func listen(cfg config.Config) (l listeners, err error) {
	for _, p := range []struct {
		name string
		addr string
		into *net.Listener
	}{{"peer", cfg.Peer.Addr, &l.peer}, {"kafka", cfg.Kafka.Addr, &l.kafka}, {"grpc", cfg.GRPC.Addr, &l.grpc}, {"http", cfg.HTTP.Addr, &l.http}} {
		*p.into, err = net.Listen("tcp", p.addr)
		if err != nil {
			l.close()
			return listeners{}, fmt.Errorf("server: listen on %s for %s: %w; choose another with --%s-addr", p.addr, p.name, err, p.name)
		}
	}
	doors, err := cfg.NamedListeners()
	for _, d := range doors {
		var bound net.Listener
		if bound, err = net.Listen("tcp", d.Addr); err != nil {
			err = fmt.Errorf("server: listen on %s for the Kafka listener %s: %w; choose another in listeners", d.Addr, d.Name, err)
			break
		}
		l.named = append(l.named, named{d, bound})
	}
	if err != nil {
		l.close()
		return listeners{}, err
	}
	return l, nil
}

func (l listeners) close() {
	for _, x := range []net.Listener{l.peer, l.kafka, l.grpc, l.http} {
		if x != nil {
			x.Close()
		}
	}
	for _, x := range l.named {
		x.Close()
	}
}

// advertised gives the address under which others reach a door: what was configured, or the listening address, with the host's name where it listens on
// all interfaces.
func advertised(d config.Door, l net.Listener) string {
	if d.Advertise != "" {
		return d.Advertise
	}
	bound := l.Addr().(*net.TCPAddr)
	host := bound.IP.String()
	if bound.IP.IsUnspecified() {
		host = "localhost"
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(bound.Port))
}

func registeredListener(name, address string) (cluster.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return cluster.Listener{}, fmt.Errorf("server: advertised address %q: %w", address, err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return cluster.Listener{}, fmt.Errorf("server: advertised address %q: %w", address, err)
	}
	return cluster.Listener{Name: name, Host: host, Port: int32(n)}, nil
}
