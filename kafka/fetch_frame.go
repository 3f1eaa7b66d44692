package kafka

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/budget"
	"github.com/moldau-log/moldau/internal/sendfile"
)

// copiedRange is the length in bytes up to which a range of a segment is copied into the answer. Above it the range goes from the file to the socket: two more
// system calls cost no more than the copy, and no memory is held. BenchmarkFetchAnswer measures it; DESIGN.md has the figures.
const copiedRange = 32 << 10

// firstFlexibleFetch is the first version of Fetch with compact lengths and tags.
const firstFlexibleFetch = 12

// cut is a place in an encoded answer where a range of a segment belongs.
type cut struct {
	at    int // bytes of the answer before it
	topic cluster.TopicID
	slice broker.Slice
}

// fetchFrame encodes a Fetch answer around the records, which stay where they are: kmsg would want them in memory. Everything else is in bytes, cuts say where
// which range belongs, in ascending order. parts are what the broker has
// read for the partitions, in the order of the answer; ranges of up to copyMax bytes are copied.
//
// An error means that a log was truncated meanwhile; a partition's length is promised before its bytes are read, so the connection has to be closed.
func fetchFrame(dst []byte, correlation int32, r *kmsg.FetchResponse, parts []*broker.FetchedPartition, copyMax int) (bytes []byte, cuts []cut, err error) {
	flexible := r.Version >= firstFlexibleFetch
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	if flexible {
		dst = append(dst, 0) // no tags in the header
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.ThrottleMillis))
	if r.Version >= 7 {
		dst = binary.BigEndian.AppendUint16(dst, uint16(r.ErrorCode))
		dst = binary.BigEndian.AppendUint32(dst, uint32(r.SessionID))
	}
	dst = appendCount(dst, len(r.Topics), flexible)
	n := 0
	for i := range r.Topics {
		t := &r.Topics[i]
		if r.Version >= 13 {
			dst = append(dst, t.TopicID[:]...)
		} else {
			dst = appendText(dst, t.Topic, flexible)
		}
		dst = appendCount(dst, len(t.Partitions), flexible)
		for k := range t.Partitions {
			p := &t.Partitions[k]
			dst = appendPartitionHead(dst, p, r.Version)
			if dst, cuts, err = appendRecords(dst, cuts, parts[n], copyMax, flexible); err != nil {
				return nil, nil, err
			}
			n++
			if flexible {
				dst = appendPartitionTags(dst, p)
			}
		}
		if flexible {
			dst = append(dst, 0)
		}
	}
	if flexible {
		dst = appendBrokers(dst, r.Brokers)
	}
	length := len(dst) - 4
	for i := range cuts {
		length += cuts[i].slice.Len()
	}
	binary.BigEndian.PutUint32(dst, uint32(length))
	return dst, cuts, nil
}

// appendPartitionHead writes a partition up to the length of its records.
func appendPartitionHead(dst []byte, p *kmsg.FetchResponseTopicPartition, version int16) []byte {
	flexible := version >= firstFlexibleFetch
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.Partition))
	dst = binary.BigEndian.AppendUint16(dst, uint16(p.ErrorCode))
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.HighWatermark))
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.LastStableOffset))
	if version >= 5 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.LogStartOffset))
	}
	if p.AbortedTransactions == nil {
		dst = appendCount(dst, -1, flexible)
	} else {
		dst = appendCount(dst, len(p.AbortedTransactions), flexible)
	}
	for i := range p.AbortedTransactions {
		a := &p.AbortedTransactions[i]
		dst = binary.BigEndian.AppendUint64(dst, uint64(a.ProducerID))
		dst = binary.BigEndian.AppendUint64(dst, uint64(a.FirstOffset))
		if flexible {
			dst = append(dst, 0)
		}
	}
	if version >= 11 {
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.PreferredReadReplica))
	}
	return dst
}

// appendRecords writes the length of a partition's records, and the records or the place where they belong. They are empty, never null: some clients trip
// over null.
func appendRecords(dst []byte, cuts []cut, p *broker.FetchedPartition, copyMax int, flexible bool) ([]byte, []cut, error) {
	s := p.Slice
	if s == nil {
		return appendCount(dst, 0, flexible), cuts, nil
	}
	dst = appendCount(dst, s.Len(), flexible)
	if s.Len() > copyMax {
		return dst, append(cuts, cut{at: len(dst), topic: p.Topic, slice: *s}), nil
	}
	dst, err := s.AppendTo(dst)
	return dst, cuts, err
}

// Tags of a partition: 0 is where histories part, 1 who leads. Both have a fixed size. Tag 2, a snapshot, is for followers of the metadata log.
func appendPartitionTags(dst []byte, p *kmsg.FetchResponseTopicPartition) []byte {
	diverged := p.DivergingEpoch.Epoch != -1 || p.DivergingEpoch.EndOffset != -1
	led := p.CurrentLeader.LeaderID != -1 || p.CurrentLeader.LeaderEpoch != -1
	count := byte(0)
	if diverged {
		count++
	}
	if led {
		count++
	}
	dst = append(dst, count)
	if diverged {
		dst = append(dst, 0, 4+8+1)
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.DivergingEpoch.Epoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.DivergingEpoch.EndOffset))
		dst = append(dst, 0)
	}
	if led {
		dst = append(dst, 1, 4+4+1)
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.CurrentLeader.LeaderID))
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.CurrentLeader.LeaderEpoch))
		dst = append(dst, 0)
	}
	return dst
}

// appendBrokers writes the tags of the whole answer: 0 is the addresses of leaders.
func appendBrokers(dst []byte, brokers []kmsg.FetchResponseBroker) []byte {
	if len(brokers) == 0 {
		return append(dst, 0)
	}
	body := appendCount(nil, len(brokers), true)
	for i := range brokers {
		b := &brokers[i]
		body = binary.BigEndian.AppendUint32(body, uint32(b.NodeID))
		body = appendText(body, b.Host, true)
		body = binary.BigEndian.AppendUint32(body, uint32(b.Port))
		if b.Rack == nil {
			body = append(body, 0)
		} else {
			body = appendText(body, *b.Rack, true)
		}
		body = append(body, 0)
	}
	dst = append(dst, 1, 0)
	dst = binary.AppendUvarint(dst, uint64(len(body)))
	return append(dst, body...)
}

// appendCount writes the length of a list or of bytes; -1 is null.
func appendCount(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(dst, uint64(n+1))
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

func appendText(dst []byte, s string, flexible bool) []byte {
	if flexible {
		dst = binary.AppendUvarint(dst, uint64(len(s)+1))
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	}
	return append(dst, s...)
}

// sendFetch writes an encoded answer and its ranges, and tells slow what the client has taken. A client may take its time over ranges, up to the idle time: they hold a
// file open and no memory.
func (c *conn) sendFetch(out *bufio.Writer, s *slot, slow *budget.Holder) error {
	sent := 0
	for i := range s.cuts {
		x := &s.cuts[i]
		if err := writePieces(out, s.encoded[sent:x.at], slow); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		sent = x.at
		_ = c.net.SetWriteDeadline(time.Now().Add(c.s.cfg.IdleTimeout))
		if err := sendfile.SendRange(c.net, x.slice, slow.Moved); err != nil {
			return fmt.Errorf("kafka: send records: %w", err)
		}
		c.s.broker.CountFetched(x.topic, x.slice.Len())
	}
	err := writePieces(out, s.encoded[sent:], slow)
	if err == nil && s.copied != nil {
		s.copied()
	}
	return err
}

// writePiece is how many bytes are written at once: progress shows between two writes.
const writePiece = 256 << 10

func writePieces(out *bufio.Writer, b []byte, slow *budget.Holder) error {
	for len(b) > 0 {
		n, err := out.Write(b[:min(len(b), writePiece)])
		if err != nil {
			return err
		}
		slow.Moved(n)
		b = b[n:]
	}
	return nil
}
