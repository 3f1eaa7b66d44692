package peer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
	"github.com/moldau-log/moldau/internal/lograte"
)

func TestHelloGolden(t *testing.T) {
	h := hello{
		Min: 1, Max: 2, Stream: streamReplication, Epoch: 77, Expected: "1-x",
		From: Identity{Broker: 3, Directory: cluster.UUID{0xd}, Incarnation: cluster.UUID{0xe}, Cluster: cluster.UUID{0xc}},
	}
	const want = "4d4c4457" + "0045" + "0001" + "0002" + "03" + "0c000000000000000000000000000000" + "00000003" +
		"0d000000000000000000000000000000" + "0e000000000000000000000000000000" + "000000000000004d" + "03312d78"
	if got := hex.EncodeToString(h.encode()); got != want {
		t.Errorf("hello is on the wire\n%s, want\n%s", got, want)
	}
	a := welcome{Refusal: RefusedServer, Version: 1, Reason: "no", From: h.From}
	const wantAnswer = "4d4c4457" + "003a" + "03" + "0001" + "0c000000000000000000000000000000" + "00000003" +
		"0d000000000000000000000000000000" + "0e000000000000000000000000000000" + "026e6f"
	if got := hex.EncodeToString(a.encode()); got != wantAnswer {
		t.Errorf("answer is on the wire\n%s, want\n%s", got, wantAnswer)
	}
}

func TestHelloRoundTripAndUnknownTail(t *testing.T) {
	h := hello{Min: 1, Max: 9, Stream: streamRaft, Epoch: -1, Expected: "0-abc", From: identity(2, clusterA)}
	// A later version appends fields; this one must skip them.
	b := seal(append(h.encode(), 1, 2, 3))
	body, err := readHello(bytes.NewReader(append(b, "stream"...)), make([]byte, helloPrefix+maxHello))
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeHello(body)
	if err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("got %+v, %v, want %+v", got, err, h)
	}
	for n := range len(h.encode()) - helloPrefix {
		if _, err := decodeHello(h.encode()[helloPrefix:][:n]); err == nil {
			t.Errorf("a hello cut to %d bytes is accepted", n)
		}
	}
}

// Case 102 for the peer port: what does not open with a hello is closed, unanswered, and never decoded further.
func TestCase102_StrangersAreClosed(t *testing.T) {
	huge := append([]byte(magic), 0xff, 0xff)
	for name, c := range map[string]struct {
		send string
		log  string
	}{
		"garbage":         {"\xde\xad\xbe\xef\xde\xad\xbe\xef", "not a hello"},
		"TLS":             {"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"},
		"HTTP":            {"GET / HTTP/1.1\r\n\r\n", "HTTP"},
		"HTTP/2":          {"PRI * HTTP/2.0\r\n\r\n", "HTTP"},
		"Kafka":           {"\x00\x00\x00\x20\x00\x12\x00\x00", "Kafka"},
		"length 2^31-1":   {"\x7f\xff\xff\xff", "not a hello"},
		"length -1":       {"\xff\xff\xff\xff\xff\xff", "not a hello"},
		"length 0":        {"\x00\x00\x00\x00\x00\x00", "Kafka"},
		"oversized hello": {string(huge), "longer than its limit"},
		"hello too short": {magic + "\x00\x02\x00\x01", "cut short"},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, identity(0, clusterA))
			conn, err := net.Dial("tcp", n.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.Write([]byte(c.send))
			conn.(*net.TCPConn).CloseWrite()
			if answer := readToEnd(t, conn); len(answer) != 0 {
				t.Errorf("a stranger is answered with %q", answer)
			}
			eventually(t, "the stranger is counted", func() bool { return n.Stats().Strange == 1 && n.Stats().Connections == 0 })
			if got := n.log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, c.log) {
				t.Errorf("log is %q, want one line with %q", got, c.log)
			}
		})
	}
}

// Case 102: a flood of strangers costs a few log lines, and one that says nothing is closed in time.
func TestCase102_FloodAndSilence(t *testing.T) {
	n := start(t, identity(0, clusterA), func(c *Config) { c.timing = quick; c.timing.handshake = 100 * time.Millisecond })
	for range 100 {
		conn, err := net.Dial("tcp", n.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte("garbage!"))
		readToEnd(t, conn)
		conn.Close()
	}
	eventually(t, "all are counted", func() bool { return n.Stats().Strange == 100 })
	if lines := strings.Count(n.log.String(), "\n"); lines > 2*lograte.Lines { // they may take longer than lograte.Every
		t.Errorf("100 strangers in a row wrote %d log lines", lines)
	}
	for _, first := range []string{"", "MLDW", magic + "\x00\x40"} {
		conn, err := net.Dial("tcp", n.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte(first))
		readToEnd(t, conn)
		conn.Close()
	}
}

// dialOutcome tries a stream and returns the refusal.
func dialOutcome(t *testing.T, from *node, to controller.Endpoint, stream streamType, epoch cluster.BrokerEpoch) Refusal {
	t.Helper()
	conn, _, err := from.dial(withTimeout(t), to, stream, epoch)
	if err == nil {
		from.drop(conn)
		return Welcome
	}
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("dial: %v", err)
	}
	if refused.Reason == "" {
		t.Error("a refusal without a reason")
	}
	return refused.Refusal
}

// Case 45: brokers of different clusters refuse each other on every stream type. A zero cluster id passes on Raft and control streams only.
func TestCase45_WrongClusterIsRefused(t *testing.T) {
	for _, c := range []struct {
		name     string
		dialler  cluster.ClusterID
		acceptor cluster.ClusterID
		stream   streamType
		want     Refusal
	}{
		{"same, raft", clusterA, clusterA, streamRaft, Welcome},
		{"same, replication", clusterA, clusterA, streamReplication, Welcome},
		{"same, forward", clusterA, clusterA, streamForward, Welcome},
		{"other, raft", clusterB, clusterA, streamRaft, RefusedCluster},
		{"other, control", clusterB, clusterA, streamControl, RefusedCluster},
		{"other, replication", clusterB, clusterA, streamReplication, RefusedCluster},
		{"other, forward", clusterB, clusterA, streamForward, RefusedCluster},
		{"from empty, raft", cluster.UUID{}, clusterA, streamRaft, Welcome},
		{"from empty, control", cluster.UUID{}, clusterA, streamControl, Welcome},
		{"from empty, replication", cluster.UUID{}, clusterA, streamReplication, RefusedCluster},
		{"from empty, forward", cluster.UUID{}, clusterA, streamForward, RefusedCluster},
		{"to empty, raft", clusterA, cluster.UUID{}, streamRaft, Welcome},
		{"to empty, replication", clusterA, cluster.UUID{}, streamReplication, RefusedCluster},
		{"both empty, raft", cluster.UUID{}, cluster.UUID{}, streamRaft, Welcome},
		{"both empty, forward", cluster.UUID{}, cluster.UUID{}, streamForward, RefusedCluster},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := start(t, identity(0, c.dialler)), start(t, identity(1, c.acceptor))
			b.serveAll()
			if got := dialOutcome(t, a, b.endpoint(), c.stream, 5); got != c.want {
				t.Errorf("outcome is %q, want %q", got, c.want)
			}
		})
	}
}

// Case 45, the other side: a dialler does not believe an acceptor that welcomes everybody.
func TestCase45_DiallerChecksToo(t *testing.T) {
	for name, c := range map[string]struct {
		answer welcome
		want   Refusal
	}{
		"wrong cluster": {welcome{Version: 1, From: identity(1, clusterB)}, RefusedCluster},
		"wrong server":  {welcome{Version: 1, From: identity(2, clusterA)}, RefusedServer},
		"wrong version": {welcome{Version: 9, From: identity(1, clusterA)}, RefusedVersion},
		"fine":          {welcome{Version: 1, From: identity(1, clusterA)}, Welcome},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				readHello(conn, make([]byte, helloPrefix+maxHello))
				conn.Write(c.answer.encode())
			}()
			a := start(t, identity(0, clusterA))
			to := controller.Endpoint{Address: l.Addr().String(), Server: identity(1, clusterA).Server()}
			if got := dialOutcome(t, a, to, streamForward, cluster.NoBrokerEpoch); got != c.want {
				t.Errorf("outcome is %q, want %q", got, c.want)
			}
		})
	}
}

// Case 141: a wiped broker is another server, and does not answer for the old one, whatever the stream.
func TestCase141_WipedBrokerIsAnotherServer(t *testing.T) {
	a, b := start(t, identity(0, clusterA)), start(t, identity(1, cluster.UUID{}))
	b.serveAll()
	old := controller.Endpoint{Address: b.Addr().String(), Server: ServerID(1, directory(1, 9))}
	for _, stream := range []streamType{streamRaft, streamControl, streamReplication, streamForward} {
		if got := dialOutcome(t, a, old, stream, 5); got != RefusedServer {
			t.Errorf("%s: outcome is %q, want %q", stream, got, RefusedServer)
		}
	}
	unnamed := controller.Endpoint{Address: b.Addr().String()}
	if got := dialOutcome(t, a, unnamed, streamRaft, 5); got != RefusedServer {
		t.Errorf("a raft stream that names no server: %q", got)
	}
	if got := dialOutcome(t, a, unnamed, streamControl, 5); got != Welcome {
		t.Errorf("a probe that names no server: %q", got)
	}
}

func TestHelloRefusals(t *testing.T) {
	a, b := start(t, identity(0, clusterA)), start(t, identity(1, clusterA))
	for _, stream := range []streamType{streamRaft, streamControl, streamReplication, streamForward} {
		if got := dialOutcome(t, a, b.endpoint(), stream, 5); got != RefusedNotReady {
			t.Errorf("%s without handler: %q", stream, got)
		}
	}
	b.serveAll()
	if got := dialOutcome(t, a, b.endpoint(), streamReplication, cluster.NoBrokerEpoch); got != RefusedBrokerEpoch {
		t.Errorf("unregistered follower: %q", got)
	}
	if got := dialOutcome(t, a, b.endpoint(), 9, 5); got != RefusedStream {
		t.Errorf("unknown stream type: %q", got)
	}
	for _, versions := range [][2]uint16{{2, 5}, {0, 0}} {
		h := hello{Min: versions[0], Max: versions[1], Stream: streamForward, From: identity(0, clusterA), Expected: b.identity().Server()}
		if got, _ := b.judge(h, b.identity()); got != RefusedVersion {
			t.Errorf("versions %v: %q", versions, got)
		}
	}
	h := hello{Min: 1, Max: 7, Stream: streamForward, From: identity(0, clusterA), Expected: b.identity().Server()}
	if got, _ := b.judge(h, b.identity()); got != Welcome {
		t.Errorf("a newer dialler that still speaks version 1: %q", got)
	}
}

func FuzzHello(f *testing.F) {
	f.Add(hello{Min: 1, Max: 1, Stream: streamRaft, From: identity(0, clusterA), Expected: "1-x"}.encode())
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		body, err := readHello(bytes.NewReader(b), make([]byte, helloPrefix+maxHello))
		if err != nil {
			return
		}
		if h, err := decodeHello(body); err == nil {
			again, err := decodeHello(h.encode()[helloPrefix:])
			if err != nil || again != h {
				t.Errorf("%+v reads back as %+v, %v", h, again, err)
			}
		}
	})
}
