package kafka

import (
	"bufio"
	"encoding/hex"
	"io"
	"net"
	"os"
	"strings"

	"github.com/moldau-log/moldau/cluster"
)

// listenerName is the name under which brokers register the address of their first Kafka listener; others are registered as "kafka/" and their name.
const listenerName = "kafka"

// Listener says through which door a client has come.
type Listener struct {
	// Name is under which brokers register its addresses, see ListenerName.
	Name string
	// Auto answers with the address that the client has reached this broker by, instead of the registered one.
	Auto bool
}

// ListenerName is the name under which a broker registers the address of a named Kafka listener; the empty one is the listener that every broker has.
func ListenerName(name string) string {
	if name == "" {
		return listenerName
	}
	return listenerName + "/" + name
}

// endpoint is where a client finds a broker. A broker that was told no address answers for itself with the one that the client has reached it by, so that it
// is found behind any name; and with localhost when the client comes through the container's gateway, which is the machine that published the port.
func (c *conn) endpoint(b *cluster.Broker) (host string, port int32, ok bool) {
	l, ok := b.Listener(c.listener.Name)
	if !ok {
		return "", 0, false
	}
	if !c.listener.Auto || b.ID != c.s.broker.ID() {
		return l.Host, l.Port, true
	}
	local, isTCP := c.net.LocalAddr().(*net.TCPAddr)
	if !isTCP {
		return l.Host, l.Port, true
	}
	if remote, isTCP := c.net.RemoteAddr().(*net.TCPAddr); isTCP && c.s.gateway != nil && remote.IP.Equal(c.s.gateway) {
		return "localhost", int32(local.Port), true
	}
	return local.IP.String(), int32(local.Port), true
}

// broker finds a broker that the client can be sent to: alive, and registered with an address of the listener that the client has come through.
func (c *conn) broker(img *cluster.Image, id cluster.BrokerID) (*cluster.Broker, bool) {
	b, ok := img.Broker(id)
	if !ok || b.Fenced {
		return nil, false
	}
	_, ok = b.Listener(c.listener.Name)
	return b, ok
}

// defaultGateway reads the kernel's routing table; nil when there is none to read.
func defaultGateway() net.IP {
	f, err := os.Open("/proc/net/route")
	if err != nil {
		return nil
	}
	defer f.Close()
	return gatewayIn(f)
}

// gatewayIn finds the default gateway in a table of the form of /proc/net/route.
func gatewayIn(table io.Reader) net.IP {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		// Interface, destination, gateway ...: addresses are hexadecimal in the byte order of the machine, here little-endian.
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || fields[1] != "00000000" {
			continue
		}
		raw, err := hex.DecodeString(fields[2])
		if err == nil && len(raw) == net.IPv4len {
			return net.IPv4(raw[3], raw[2], raw[1], raw[0])
		}
	}
	return nil
}
