package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
)

// dial connects to a peer port and exchanges hellos. The connection is tracked; whoever gets it ends it with drop. It takes at most
// the handshake time to connect and as much for the hellos, and less if ctx ends.
func (p *Peer) dial(ctx context.Context, to controller.Endpoint, t streamType, epoch cluster.BrokerEpoch) (net.Conn, welcome, error) {
	conn, err := p.connect(ctx, to)
	if err != nil {
		p.stats.dialFailed.Add(1)
		return nil, welcome{}, err
	}
	if !p.track(conn) {
		conn.Close()
		return nil, welcome{}, fmt.Errorf("peer: dial %s: %w", to.Address, net.ErrClosed)
	}
	// A hello that hangs ends with ctx too.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	answer, err := p.introduce(conn, to, t, epoch)
	if err == nil && !stop() {
		err = fmt.Errorf("peer: dial %s: %w", to.Address, context.Cause(ctx))
	}
	if err != nil {
		stop()
		p.drop(conn)
		p.dialRefused(err)
		return nil, welcome{}, err
	}
	p.stats.dialled.Add(1)
	return conn, answer, nil
}

// connect opens the connection itself and tells the detector of refusals about the outcome.
func (p *Peer) connect(ctx context.Context, to controller.Endpoint) (net.Conn, error) {
	d := net.Dialer{Timeout: p.cfg.timing.handshake}
	conn, err := d.DialContext(ctx, "tcp", to.Address)
	if broker, known := brokerOf(to.Server); known {
		p.refusing.dialled(broker, err)
	}
	if err != nil {
		return nil, fmt.Errorf("peer: dial %s: %w", to.Address, err)
	}
	tune(conn, p.cfg.timing.dead)
	if p.cfg.ClientTLS == nil {
		return conn, nil
	}
	cfg := p.cfg.ClientTLS.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(to.Address)
	}
	return tls.Client(conn, cfg), nil
}

// introduce says hello and judges the answer: both ends check both identities.
func (p *Peer) introduce(conn net.Conn, to controller.Endpoint, t streamType, epoch cluster.BrokerEpoch) (welcome, error) {
	self := p.cfg.Self()
	conn.SetDeadline(time.Now().Add(p.cfg.timing.handshake))
	h := hello{Min: minVersion, Max: maxVersion, Stream: t, From: self, Epoch: epoch, Expected: to.Server}
	if _, err := conn.Write(h.encode()); err != nil {
		return welcome{}, fmt.Errorf("peer: dial %s: send hello: %w", to.Address, err)
	}
	var scratch [helloPrefix + maxHello]byte
	body, err := readHello(conn, scratch[:])
	if err != nil {
		return welcome{}, fmt.Errorf("peer: dial %s: %w", to.Address, err)
	}
	answer, err := decodeWelcome(body)
	if err != nil {
		return welcome{}, fmt.Errorf("peer: dial %s: %w", to.Address, err)
	}
	refusal, reason := answer.Refusal, answer.Reason
	if refusal == Welcome {
		refusal, reason = verdict(t, self, answer.From, to.Server)
	}
	if refusal == Welcome && (answer.Version < minVersion || answer.Version > maxVersion) {
		refusal, reason = RefusedVersion, fmt.Sprintf("the answer chose version %d", answer.Version)
	}
	if refusal != Welcome {
		return welcome{}, &RefusedError{Refusal: refusal, Address: to.Address, Reason: reason}
	}
	conn.SetDeadline(time.Time{})
	return answer, nil
}

// dialRefused counts a failed introduction, and logs the refusals that do not pass by themselves.
func (p *Peer) dialRefused(err error) {
	p.stats.dialFailed.Add(1)
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return
	}
	p.stats.refused.Add(1)
	if refused.Refusal == RefusedNotReady {
		return
	}
	p.cfg.Log.Warn("peer is not who was dialled or refuses us", "address", refused.Address, "refusal", refused.Refusal.String(), "reason", refused.Reason)
}
