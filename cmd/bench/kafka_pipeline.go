package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The versions that are spoken by hand: the last ones without compact forms, in which a batch is the end of a request. Apache Kafka 4 and Moldau have both.
const (
	keyProduce, produceVersion = 0, 8
	keyFetch, fetchVersion     = 1, 11
)

// maxAnswer bounds an answer in bytes, so that garbage does not allocate.
const maxAnswer = 1 << 30

// maxWaiting is how many requests of one connection wait for their answers; more wait to be sent.
const maxWaiting = 1024

var errClosed = errors.New("the connection was closed")

// pipeline is a connection on which Produce requests follow each other without waiting for answers, which come in the order of the requests.
//
// Goroutines: one writes, one reads; close waits for both.
type pipeline struct {
	net     net.Conn
	topic   string
	acks    int16
	queue   chan sending  // unbuffered: who was not taken over by the writer learns it from broken
	waiting chan sending  // written, in order
	broken  chan struct{} // closed after err is set
	once    sync.Once
	err     error
	wg      sync.WaitGroup
}

// sending is a batch on its way.
type sending struct {
	partition int32
	batch     []byte
	done      func(error)
}

func dialPipeline(ctx context.Context, address string, s *settings) (*pipeline, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	p := &pipeline{
		net: nc, topic: s.Topic, acks: map[string]int16{"isr": -1, "leader": 1, "none": 0}[s.Acks],
		queue: make(chan sending), waiting: make(chan sending, maxWaiting), broken: make(chan struct{}),
	}
	p.wg.Go(p.write)
	p.wg.Go(p.read)
	return p, nil
}

// send hands a batch to the writer. It waits while one is being written.
func (p *pipeline) send(partition int32, batch []byte, done func(error)) error {
	select {
	case p.queue <- sending{partition, batch, done}:
		return nil
	case <-p.broken:
		return p.err
	}
}

func (p *pipeline) close() {
	p.fail(errClosed)
	p.wg.Wait()
}

func (p *pipeline) fail(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.broken)
		p.net.Close()
	})
}

func (p *pipeline) write() {
	defer close(p.waiting)
	var head []byte
	for correlation := int32(0); ; correlation++ {
		var s sending
		select {
		case s = <-p.queue:
		case <-p.broken:
			return
		}
		if p.acks != 0 {
			p.waiting <- s // the reader takes them until the end
		}
		head = appendProduceHead(head[:0], correlation, p.topic, p.acks, s.partition, len(s.batch))
		request := net.Buffers{head, s.batch}
		_, err := request.WriteTo(p.net)
		if err != nil {
			p.fail(err)
		}
		if p.acks == 0 {
			s.done(err)
		}
	}
}

// read gives every batch that was written its answer. After a failure all that wait get its error.
func (p *pipeline) read() {
	in := bufio.NewReader(p.net)
	var buf []byte
	if p.acks == 0 { // nothing comes, but the end
		_, err := in.Peek(1)
		p.fail(errors.Join(io.ErrUnexpectedEOF, err))
	}
	for s := range p.waiting {
		var err error
		select {
		case <-p.broken:
			err = p.err
		default:
			if buf, err = readAnswer(in, buf); err != nil {
				p.fail(err)
				err = p.err // closed by us, or what came first
			} else {
				err = produceError(buf)
			}
		}
		s.done(err)
	}
}

// appendHeader begins a request: length, key, version, correlation and client id. The length is that of a request of n bytes more.
func appendHeader(b []byte, key, version int16, correlation int32, n int) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(2+2+4+2+len(clientID)+n))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = binary.BigEndian.AppendUint16(b, uint16(len(clientID)))
	return append(b, clientID...)
}

// appendProduceHead is everything of a request for one partition that comes before its batch of n bytes:
//
//	header | transactional id: int16 -1 | acks int16 | timeout ms int32 | topics int32 1 | name string | partitions int32 1 | partition int32 | n int32 | batch
func appendProduceHead(b []byte, correlation int32, topic string, acks int16, partition int32, n int) []byte {
	b = appendHeader(b, keyProduce, produceVersion, correlation, 2+2+4+4+2+len(topic)+4+4+4+n)
	b = append(b, 0xff, 0xff)
	b = binary.BigEndian.AppendUint16(b, uint16(acks))
	b = binary.BigEndian.AppendUint32(b, uint32(settle.Milliseconds()))
	b = append(b, 0, 0, 0, 1)
	b = binary.BigEndian.AppendUint16(b, uint16(len(topic)))
	b = append(b, topic...)
	b = append(b, 0, 0, 0, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(partition))
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// readAnswer reads one answer into buf, which may grow, without its length.
func readAnswer(in *bufio.Reader, buf []byte) ([]byte, error) {
	head, err := in.Peek(4)
	if err != nil {
		return buf, err
	}
	n := int(binary.BigEndian.Uint32(head))
	if n < 4 || n > maxAnswer {
		return buf, fmt.Errorf("an answer of %d bytes", n)
	}
	_, _ = in.Discard(4) // just peeked
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	_, err = io.ReadFull(in, buf)
	return buf, err
}

func produceError(answer []byte) error {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = produceVersion
	if err := resp.ReadFrom(answer[4:]); err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, part := range t.Partitions {
			err := kerr.ErrorForCode(part.ErrorCode)
			if err != nil && part.ErrorMessage != nil {
				return fmt.Errorf("%w: %s", err, *part.ErrorMessage)
			}
			return err
		}
	}
	return errors.New("an answer without a partition")
}
