package peer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/replication/fetcher"
	"github.com/moldau-log/moldau/replication/session"
)

// followerStream is the follower's end of a replication stream. Recv belongs to one goroutine, Send to another.
type followerStream struct {
	*link
	peer *Peer
	in   *bufio.Reader
	out  []byte // reused by Send
}

var (
	_ fetcher.FollowerStream = (*followerStream)(nil)
	_ fetcher.Transport      = (*Peer)(nil)
)

// DialReplication opens a stream to a broker. A *RefusedError says that the broker there is not the one meant or is not ready.
func (p *Peer) DialReplication(ctx context.Context, to cluster.BrokerID, self cluster.BrokerEpoch) (fetcher.FollowerStream, error) {
	end, err := p.resolve(to)
	if err != nil {
		return nil, err
	}
	conn, _, err := p.dial(ctx, end, streamReplication, self)
	if err != nil {
		return nil, err
	}
	return p.newFollowerStream(conn), nil
}

func (p *Peer) newFollowerStream(conn net.Conn) *followerStream {
	return &followerStream{
		link: newLink(conn, replicationPingFrame(), p.cfg.timing),
		peer: p,
		in:   bufio.NewReaderSize(&impatient{conn: conn, patience: p.cfg.timing.dead}, downReadBuf),
	}
}

// Send writes frames in one write.
func (s *followerStream) Send(frames []session.Up) error {
	s.out = s.out[:0]
	for _, f := range frames {
		s.out = appendUp(s.out, f)
	}
	if len(s.out) == 0 {
		return nil
	}
	return s.write(net.Buffers{s.out})
}

// Recv returns the leader's next frame. The bytes of a Data come from the pool: give them back with Recycle.
func (s *followerStream) Recv() (session.Down, error) {
	for {
		t, n, err := readHead(s.in)
		if err != nil {
			return nil, err
		}
		if t == frameData {
			return s.data(n)
		}
		if n > maxSmallFrame {
			return nil, fmt.Errorf("%w: %d bytes of type %d", errFrameTooLarge, n, t)
		}
		var body [maxSmallFrame]byte
		if _, err := io.ReadFull(s.in, body[:n]); err != nil {
			return nil, fmt.Errorf("peer: read replication frame: %w", err)
		}
		switch t {
		case replicationPing:
		case frameRefused:
			return decodeRefused(body[:n])
		default:
			return nil, fmt.Errorf("%w: type %d from a leader", errFrameMangled, t)
		}
	}
}

// data reads the rest of a data frame, n bytes.
func (s *followerStream) data(n int) (session.Down, error) {
	if n > s.peer.cfg.MaxData {
		return nil, fmt.Errorf("%w: %d bytes of batches", errFrameTooLarge, n)
	}
	n -= dataHead - replicationHead
	if n < 0 {
		return nil, errFrameMangled
	}
	var head [dataHead - replicationHead]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return nil, fmt.Errorf("peer: read replication frame: %w", err)
	}
	d, err := decodeDataHead(head[:])
	if err != nil || n == 0 {
		return d, err
	}
	if n > s.peer.pool.largest() {
		d.Bytes, err = readGrowing(s.in, n)
	} else {
		d.Bytes = s.peer.pool.get(n)
		_, err = io.ReadFull(s.in, d.Bytes)
	}
	if err != nil {
		s.Recycle(d.Bytes)
		return nil, fmt.Errorf("peer: read replication frame: %w", err)
	}
	s.peer.stats.bytesIn.Add(int64(n))
	return d, nil
}

// Recycle gives a buffer of Recv back.
func (s *followerStream) Recycle(buf []byte) { s.peer.pool.put(buf) }

// Close ends the stream; a Recv in progress returns an error.
func (s *followerStream) Close() error {
	s.close()
	s.peer.drop(s.conn)
	return nil
}
