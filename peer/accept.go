package peer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// accept takes connections until the listener closes.
func (p *Peer) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			if p.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			p.cfg.Log.Warn("peer port cannot accept", "err", err)
			select {
			case <-time.After(acceptPause):
			case <-p.ctx.Done():
				return
			}
			continue
		}
		select {
		case p.pending <- struct{}{}:
			p.wg.Go(func() { p.serve(conn) })
		default:
			// Strangers hold every slot; a broker dials again, and the slots empty within the handshake time.
			p.stats.refused.Add(1)
			conn.Close()
		}
	}
}

// serve runs one accepted connection from its hello to its end.
func (p *Peer) serve(conn net.Conn) {
	tune(conn, p.cfg.timing.dead)
	if p.cfg.ServerTLS != nil {
		conn = tls.Server(conn, p.cfg.ServerTLS)
	}
	if !p.track(conn) {
		conn.Close()
		<-p.pending
		return
	}
	h, err := p.greet(conn)
	<-p.pending
	if err != nil {
		p.logRefusal(conn, err)
		p.drop(conn)
		return
	}
	p.stats.accepted.Add(1)
	switch h.Stream {
	case streamRaft:
		// The Raft transport owns the connection from here.
		p.handOver(conn)
		return
	case streamControl, streamForward:
		p.serveRequests(conn, h)
	case streamReplication:
		p.serveReplication(conn, h)
	}
	p.drop(conn)
}

// greet reads and answers the hello. Whatever it refuses is an error.
func (p *Peer) greet(conn net.Conn) (hello, error) {
	conn.SetDeadline(time.Now().Add(p.cfg.timing.handshake))
	var scratch [helloPrefix + maxHello]byte
	body, err := readHello(conn, scratch[:])
	if err != nil {
		return hello{}, err
	}
	h, err := decodeHello(body)
	if err != nil {
		return hello{}, err
	}
	self := p.cfg.Self()
	refusal, reason := p.judge(h, self)
	answer := welcome{Refusal: refusal, Version: min(h.Max, maxVersion), From: self, Reason: reason}
	if _, err := conn.Write(answer.encode()); err != nil {
		return hello{}, fmt.Errorf("peer: answer hello: %w", err)
	}
	if refusal != Welcome {
		return hello{}, &RefusedError{Refusal: refusal, Address: conn.RemoteAddr().String(), Reason: reason}
	}
	conn.SetDeadline(time.Time{})
	return h, nil
}

// judge decides about a hello that was read.
func (p *Peer) judge(h hello, self Identity) (Refusal, string) {
	if h.Min > maxVersion || h.Max < minVersion {
		return RefusedVersion, fmt.Sprintf("versions %d to %d are offered, %d to %d are known", h.Min, h.Max, minVersion, maxVersion)
	}
	if h.Stream < streamRaft || h.Stream > streamForward {
		return RefusedStream, h.Stream.String()
	}
	if refusal, reason := verdict(h.Stream, h.From, self, h.Expected); refusal != Welcome {
		return refusal, reason
	}
	if h.Stream == streamReplication && h.Epoch == cluster.NoBrokerEpoch {
		return RefusedBrokerEpoch, "the follower is not registered"
	}
	if !p.serves(h.Stream) {
		return RefusedNotReady, h.Stream.String() + " is not served now"
	}
	return Welcome, ""
}

// serves reports whether somebody takes streams of that type now.
func (p *Peer) serves(t streamType) bool {
	h := p.handlers.Load()
	switch t {
	case streamRaft:
		l := p.raft.Load()
		return l != nil && l.ready.Load()
	case streamControl:
		return h.Control != nil
	case streamReplication:
		return h.Replication != nil
	case streamForward:
		return h.Forward != nil
	}
	return false
}

// logRefusal says why a connection was closed.
func (p *Peer) logRefusal(conn net.Conn, err error) {
	var stranger *notHelloError
	if errors.As(err, &stranger) || errors.Is(err, errHelloLength) || errors.Is(err, errShort) {
		p.stats.strange.Add(1)
		p.cfg.Log.Warn("peer port closed a connection that is not of a broker", "remote", conn.RemoteAddr().String(), "err", err)
		return
	}
	p.stats.refused.Add(1)
	var refused *RefusedError
	if errors.As(err, &refused) && refused.Refusal != RefusedNotReady {
		p.cfg.Log.Warn("peer port refused a broker", "remote", refused.Address, "refusal", refused.Refusal.String(), "reason", refused.Reason)
	}
}
