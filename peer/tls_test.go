package peer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
	"github.com/moldau-log/moldau/replication/fetcher"
)

// mutualTLS returns an edit that gives both directions one self-signed certificate and demands it from the other end.
func mutualTLS(t *testing.T) func(*Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	certs := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	return func(c *Config) {
		c.ServerTLS = &tls.Config{Certificates: certs, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
		c.ClientTLS = &tls.Config{Certificates: certs, RootCAs: pool}
	}
}

// Every stream works unchanged inside TLS; there a large range is copied instead of sent from its file.
func TestStreamsInsideTLS(t *testing.T) {
	secure := mutualTLS(t)
	t.Run("ranges", func(t *testing.T) {
		rangesArrive(t, func(f *os.File, at int64, n int) fetcher.Range {
			return mappedRange{fileRange{f: f, at: at, n: n}}
		}, secure)
	})
	t.Run("control", func(t *testing.T) {
		a, b := start(t, identity(0, clusterA), secure), start(t, identity(1, clusterA), secure)
		b.serveAll()
		if _, err := a.Call(withTimeout(t), b.endpoint(), controller.ProbeRequest{}); err != nil {
			t.Error(err)
		}
		plain := start(t, identity(2, clusterA))
		if _, err := plain.Call(withTimeout(t), b.endpoint(), controller.ProbeRequest{}); err == nil {
			t.Error("a broker without TLS is served on a TLS port")
		}
	})
	t.Run("TLS to a plain port", func(t *testing.T) {
		a, b := start(t, identity(0, clusterA), secure), start(t, identity(1, clusterA))
		b.serveAll()
		if _, err := a.Call(withTimeout(t), b.endpoint(), controller.ProbeRequest{}); err == nil {
			t.Error("a broker with TLS is served on a plain port")
		}
		eventually(t, "the log says TLS", func() bool { return strings.Contains(b.log.String(), "TLS") })
	})
}

// Case 102: connections that say nothing are bounded in number, and the bound is free again when they are gone.
func TestCase102_PendingConnectionsAreBounded(t *testing.T) {
	a, b := start(t, identity(0, clusterA)), start(t, identity(1, clusterA))
	b.serveAll()
	var silent []net.Conn
	defer func() {
		for _, c := range silent {
			c.Close()
		}
	}()
	for range maxPending {
		c, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	eventually(t, "all slots are taken", func() bool { return len(b.pending) == maxPending })
	over, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	readToEnd(t, over)
	for _, c := range silent {
		c.Close()
	}
	eventually(t, "a broker gets in again", func() bool {
		_, err := a.Call(withTimeout(t), b.endpoint(), controller.ProbeRequest{})
		return err == nil
	})
}

// Requests that one connection has running are bounded; more of them wait in the socket and are served later.
func TestServedRequestsAreBounded(t *testing.T) {
	a, b := start(t, identity(0, clusterA)), start(t, identity(1, clusterA))
	a.knows(b)
	release := make(chan struct{})
	entered := make(chan struct{}, maxCalling)
	b.SetHandlers(Handlers{Forward: func(context.Context, cluster.BrokerID, uint8, []byte) ([]byte, error) {
		entered <- struct{}{}
		<-release
		return nil, nil
	}})
	const calls = maxServing + 20
	done := make(chan error, calls)
	for range calls {
		go func() {
			_, err := a.Forward(context.Background(), 1, 1, nil)
			done <- err
		}()
	}
	for range maxServing {
		within(t, "a request to run", entered)
	}
	select {
	case <-entered:
		t.Errorf("more than %d requests run", maxServing)
	default:
	}
	close(release)
	for range calls {
		if err := within(t, "an answer", done); err != nil {
			t.Error(err)
		}
	}
}

func TestBudgetLetsOneInHoweverLarge(t *testing.T) {
	b := newBudget(2, 100)
	ctx := withTimeout(t)
	if !b.take(ctx, 1000) {
		t.Fatal("the only request is kept out")
	}
	blocked, cancel := context.WithCancel(ctx)
	cancel()
	if b.take(blocked, 1) {
		t.Error("a second one is let in beside one that takes all")
	}
	b.give(1000)
	if !b.take(ctx, 60) || !b.take(ctx, 40) {
		t.Error("two that fit are kept out")
	}
	if b.take(blocked, 0) {
		t.Error("a third of two is let in")
	}
}
