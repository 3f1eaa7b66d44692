package kafka

import (
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/cluster"
)

func TestGateway_IsReadFromTheKernelsTable(t *testing.T) {
	const table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
		"eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n" +
		"eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
	if got := gatewayIn(strings.NewReader(table)); !got.Equal(net.IPv4(172, 17, 0, 1)) {
		t.Errorf("gateway %v", got)
	}
	for _, none := range []string{"", "Iface\tDestination\tGateway\n", "eth0\t00000000\txyz\n"} {
		if got := gatewayIn(strings.NewReader(none)); got != nil {
			t.Errorf("%q has the gateway %v", none, got)
		}
	}
}

// A client that comes through the container's gateway is told localhost: the published port is there. Others are told the address that they have reached.
func TestEndpoint_ThroughTheContainersGateway(t *testing.T) {
	for gateway, want := range map[string]string{"127.0.0.1": "localhost", "172.17.0.1": "127.0.0.1"} {
		d := openDoor(t, Config{AutoAdvertise: true})
		d.s.gateway = net.ParseIP(gateway)
		if host, port := d.dial().whereIs(0); host != want || port != int32(d.port()) {
			t.Errorf("with the gateway %s broker 0 is at %s:%d, want %s:%d", gateway, host, port, want, d.port())
		}
	}
}

// whereIs asks by Metadata, DescribeCluster and FindCoordinator where a broker is; all must say the same.
func (c *client) whereIs(id int32) (host string, port int32) {
	c.t.Helper()
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = 9
	c.send(meta)
	_, resp := c.answer(meta)
	for _, b := range resp.(*kmsg.MetadataResponse).Brokers {
		if b.NodeID == id {
			host, port = b.Host, b.Port
		}
	}
	describe := kmsg.NewPtrDescribeClusterRequest()
	describe.EndpointType = endpointBrokers
	c.send(describe)
	_, resp = c.answer(describe)
	for _, b := range resp.(*kmsg.DescribeClusterResponse).Brokers {
		if b.NodeID == id && (b.Host != host || b.Port != port) {
			c.t.Errorf("Metadata says %s:%d, DescribeCluster %s:%d", host, port, b.Host, b.Port)
		}
	}
	return host, port
}

func (d *door) port() int {
	_, port, _ := net.SplitHostPort(d.addr)
	n, _ := net.LookupPort("tcp", port)
	return n
}

// serveAs opens one more listener of the door.
func (d *door) serveAs(as Listener) *client {
	d.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.s.ServeListener(as, l) }()
	d.t.Cleanup(func() { // before the door stops: its own listener goes first
		l.Close()
		<-served
	})
	elsewhere := *d
	elsewhere.addr = l.Addr().String()
	return elsewhere.dial()
}

// Who comes through a named listener is told the addresses that brokers have registered under its name, and nothing of brokers that have none there.
func TestEndpoint_NamedListenersHaveAddressesOfTheirOwn(t *testing.T) {
	f := newFullBroker()
	tx := f.Image().Txn()
	tx.PutBroker(&cluster.Broker{ID: 1, Listeners: []cluster.Listener{
		{Name: ListenerName(""), Host: "broker.example", Port: 9093}, {Name: ListenerName("inside"), Host: "10.0.0.1", Port: 19093},
	}})
	f.image.Store(tx.Commit(2))
	d := openDoorOf(t, Config{}, f.fakeBroker, f, fakeGroups{})
	first, inside := d.dial(), d.serveAs(Listener{Name: ListenerName("inside")})
	if host, port := first.whereIs(1); host != "broker.example" || port != 9093 {
		t.Errorf("the first listener says %s:%d", host, port)
	}
	if host, port := inside.whereIs(1); host != "10.0.0.1" || port != 19093 {
		t.Errorf("the inner listener says %s:%d", host, port)
	}
	if host, _ := inside.whereIs(0); host != "" {
		t.Errorf("a broker without that listener is at %s", host)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	inside.send(find)
	_, resp := inside.answer(find)
	if r := resp.(*kmsg.FindCoordinatorResponse); r.Host != "10.0.0.1" || r.Port != 19093 {
		t.Errorf("the coordinator is at %s:%d", r.Host, r.Port)
	}
}
