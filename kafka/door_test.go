package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

func apiVersionsRequest(version int16) *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "test", "1.0"
	return req
}

func TestApiVersions_ListsTheTable(t *testing.T) {
	c := openDoor(t, Config{}).dial()
	for version := range int16(5) {
		req := apiVersionsRequest(version)
		id := c.send(req)
		correlation, resp := c.answer(req)
		got := resp.(*kmsg.ApiVersionsResponse)
		if correlation != id || got.ErrorCode != errNone || len(got.ApiKeys) != len(table()) {
			t.Errorf("version %d: correlation %d, error %d, %d keys", version, correlation, got.ErrorCode, len(got.ApiKeys))
		}
	}
}

func TestApiVersions_AVersionAboveOursIsAnsweredInTheOldestForm(t *testing.T) {
	c := openDoor(t, Config{}).dial()
	req := apiVersionsRequest(4)
	req.Version = 4
	f := kmsg.NewRequestFormatter().AppendRequest(nil, req, 7)
	binary.BigEndian.PutUint16(f[6:], 99)
	if _, err := c.Write(f); err != nil {
		t.Fatal(err)
	}
	correlation, body := c.frame()
	resp := kmsg.NewPtrApiVersionsResponse()
	if err := resp.ReadFrom(body); err != nil || correlation != 7 || resp.ErrorCode != errUnsupportedVersion {
		t.Fatalf("correlation %d, error %d, %v", correlation, resp.ErrorCode, err)
	}
	if len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != keyApiVersions || resp.ApiKeys[0].MaxVersion != 4 {
		t.Errorf("the client is told %+v", resp.ApiKeys)
	}
	c.send(apiVersionsRequest(0))
	c.frame() // the connection goes on
}

func TestApiVersions_AStrangeSoftwareNameIsRefused(t *testing.T) {
	c := openDoor(t, Config{}).dial()
	req := apiVersionsRequest(3)
	req.ClientSoftwareName = "evil\nname"
	c.send(req)
	if _, resp := c.answer(req); resp.(*kmsg.ApiVersionsResponse).ErrorCode != errInvalidRequest {
		t.Errorf("answered with %+v", resp)
	}
}

func TestCase106_WhatIsNotOfferedClosesTheConnectionWithOneLine(t *testing.T) {
	d := openDoor(t, Config{})
	for name, req := range map[string]kmsg.Request{
		"unknown key": kmsg.NewPtrAlterReplicaLogDirsRequest(),
		"old version": &kmsg.ProduceRequest{Version: 2},
		"new version": &kmsg.MetadataRequest{Version: 14},
	} {
		c := d.dial()
		c.send(req)
		c.closed()
		if !strings.Contains(d.log.String(), kmsg.NameForKey(req.Key())) {
			t.Errorf("%s: the log says nothing:\n%s", name, d.log)
		}
	}
	if lines := strings.Count(d.log.String(), "\n"); lines != 3 {
		t.Errorf("%d lines for 3 connections:\n%s", lines, d.log)
	}
}

// Lengths that nobody means, and foreign protocols (case 109 too).
func TestCase102_ForeignProtocolsAreNamed(t *testing.T) {
	for first, want := range map[string]string{
		"\x16\x03\x01\x02\x00\x01":                         "TLS",
		"GET /metrics HTTP/1.1\r\n":                        "HTTP on the Kafka port",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n":                     "HTTP/2",
		"\x00\x00\x00\x08\x00\x12\x00\x03\x00\x00\x00\x01": "8 bytes, too short",
		"\xff\xff\xff\xff":                                 "no Kafka request",
		"\x00\x00\x00\x00":                                 "no Kafka request",
		"\x7f\xff\xff\xff":                                 "no Kafka request",
		"\x00\x20\x00\x00":                                 "max-request-bytes",
	} {
		d := openDoor(t, Config{MaxRequestBytes: 1 << 20})
		c := d.dial()
		if _, err := c.Write([]byte(first)); err != nil {
			t.Fatal(err)
		}
		c.closed()
		if log := d.log.String(); !strings.Contains(log, want) || strings.Count(log, "\n") != 1 {
			t.Errorf("%q is logged as:\n%s", first, log)
		}
	}
}

func TestConn_AMalformedBodyClosesTheConnection(t *testing.T) {
	d := openDoor(t, Config{})
	c := d.dial()
	f := kmsg.NewRequestFormatter().AppendRequest(nil, &kmsg.MetadataRequest{Version: 1}, 1)
	binary.BigEndian.PutUint32(f[len(f)-4:], 1<<30) // a list of a thousand million topics
	if _, err := c.Write(f); err != nil {
		t.Fatal(err)
	}
	c.closed()
	if !strings.Contains(d.log.String(), "malformed") {
		t.Errorf("logged:\n%s", d.log)
	}
}

func TestConn_APanicEndsItsConnectionOnly(t *testing.T) {
	d := openDoor(t, Config{})
	c, other := d.dial(), d.dial()
	req := kmsg.NewPtrInitProducerIDRequest() // the fake broker has no producer ids
	c.send(req)
	c.closed()
	if !strings.Contains(d.log.String(), "panic") {
		t.Errorf("logged:\n%s", d.log)
	}
	other.send(apiVersionsRequest(0))
	other.frame()
}

// What a Produce request has taken of what all share comes back when it panics, before its batch is with the broker or there (case 108).
func TestCase108_APanicInProduceGivesEverythingBack(t *testing.T) {
	for _, topic := range []string{"t", "not there"} {
		d := openDoor(t, Config{})
		d.broker.onTopic = func() { panic("while a name is looked up") }
		d.broker.onProduce = func() { panic("in the broker") }
		c := d.dial()
		req := produceRequest(t, strings.Repeat("x", 100_000), -1)
		req.Topics[0].Topic = topic
		c.send(req)
		c.closed()
		if log := d.log.String(); strings.Count(log, "panicked") != 1 {
			t.Errorf("logged:\n%s", log)
		}
		waitFor(t, "the release of everything", func() bool { return d.s.held.Held() == 0 })
	}
}

// What an answer to Fetch has taken belongs to its slot at once, whatever comes of the answer (case 108).
func TestCase108_APanicInAFetchAnswerGivesEverythingBack(t *testing.T) {
	d := openDoor(t, Config{})
	c, s := newConn(d.s, Listener{}, nil), &slot{version: 13, free: func() {}}
	resp := kmsg.NewPtrFetchResponse()
	resp.Topics = []kmsg.FetchResponseTopic{{Partitions: make([]kmsg.FetchResponseTopicPartition, 2)}}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("an answer of two partitions is made of one")
			}
		}()
		_ = c.frameFetch(t.Context(), s, resp, []*broker.FetchedPartition{{Slice: storedLog(t, 1)(0)}})
	}()
	if d.s.fetched.Held() == 0 {
		t.Error("the answer has taken nothing")
	}
	s.unshare()
	if n := d.s.fetched.Held(); n != 0 {
		t.Errorf("%d bytes are held when the slot has ended", n)
	}
}

func TestConn_TooManyFromOneAddressAreClosed(t *testing.T) {
	d := openDoor(t, Config{MaxConnectionsPerAddress: 1})
	first := d.dial()
	first.send(apiVersionsRequest(0))
	first.frame()
	d.dial().closed()
}

// max.connections and max.connections.per.ip are read from the metadata at every connection.
func TestConn_DynamicLimitsCount(t *testing.T) {
	for _, key := range []string{"max.connections", "max.connections.per.ip"} {
		f := newFakeBroker()
		tx := f.Image().Txn()
		tx.PutConfigs(cluster.ConfigResource{Kind: cluster.ConfigClusterDefault}, cluster.Configs{{Key: key, Value: "1"}})
		f.image.Store(tx.Commit(2))
		d := openDoorOf(t, Config{}, f, f, nil)
		first := d.dial()
		first.send(apiVersionsRequest(0))
		first.frame()
		d.dial().closed()
		first.send(apiVersionsRequest(0))
		first.frame()
	}
}

func TestConn_IdleConnectionsAreClosedQuietly(t *testing.T) {
	d := openDoor(t, Config{IdleTimeout: 20 * time.Millisecond})
	d.dial().closed()
	if d.log.String() != "" {
		t.Errorf("logged:\n%s", d.log)
	}
}

// A client that has begun a request and does not go on holds its place for FrameTimeout, not for the idle time, and no more memory than it has sent (cases 102, 107).
func TestCase107_ASlowRequestTimesOut(t *testing.T) {
	for name, begun := range map[string][]byte{
		"in the length": {0, 0},
		"in the body":   {0x06, 0x00, 0x00, 0x00, 1, 2, 3}, // 96 MiB are announced
	} {
		d := openDoor(t, Config{FrameTimeout: 30 * time.Millisecond})
		c := d.dial()
		if _, err := c.Write(begun); err != nil {
			t.Fatal(err)
		}
		c.closed()
		if held := d.s.held.Held(); held != 0 {
			t.Errorf("%s: %d bytes are still held", name, held)
		}
	}
}

// The bytes of a batch stay as they are until the broker gives them up, whatever the connection reads meanwhile.
func TestProduce_ABufferIsNotReusedInFlight(t *testing.T) {
	d := openDoor(t, Config{})
	c := d.dial()
	const n = 20
	var want [][]byte
	for i := range n {
		req := produceRequest(t, strings.Repeat(string(rune('a'+i)), 3000), -1)
		want = append(want, req.Topics[0].Partitions[0].Records)
		c.send(req)
		<-d.broker.came
		if i%2 == 1 { // every second one is given up at once, and its buffer may be taken for the next
			d.broker.batch(i).req.Release()
		}
	}
	for i := range n {
		p := d.broker.batch(i)
		if i%2 == 0 && !bytes.Equal(p.req.Batch, want[i]) {
			t.Errorf("batch %d has changed", i)
		}
		p.done(broker.ProduceResult{BaseOffset: record.Offset(i)})
	}
	for range n {
		c.frame()
	}
}

// Two batches are with the broker at once; the second is acknowledged first; the answers still come in the order of the requests, and a Metadata request waits
// until both are appended, not until they are acknowledged.
func TestProduce_OverlapsAndAnswersInOrder(t *testing.T) {
	d := openDoor(t, Config{})
	c := d.dial()
	first, second := produceRequest(t, "one", -1), produceRequest(t, "two", -1)
	id1, id2 := c.send(first), c.send(second)
	<-d.broker.came
	<-d.broker.came
	one, two := d.broker.batch(0), d.broker.batch(1)
	two.req.Release()
	two.done(broker.ProduceResult{BaseOffset: 8, LogAppendMs: -1})
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = 5
	id3 := c.send(meta)
	one.req.Release()
	one.done(broker.ProduceResult{BaseOffset: 7, LogAppendMs: -1})
	for i, want := range []int32{id1, id2} {
		correlation, resp := c.answer(first)
		if offset := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].BaseOffset; correlation != want || offset != int64(7+i) {
			t.Errorf("answer %d is of request %d, offset %d", i, correlation, offset)
		}
	}
	if correlation, _ := c.answer(meta); correlation != id3 {
		t.Errorf("the last answer is of request %d", correlation)
	}
}

func TestProduce_ARefusalNamesTheLeaderAndItsAddress(t *testing.T) {
	d := openDoor(t, Config{})
	c := d.dial()
	req := produceRequest(t, "v", 1)
	req.Version = 10
	c.send(req)
	<-d.broker.came
	d.broker.batch(0).done(broker.ProduceResult{Code: cluster.CodeNotLeader, BaseOffset: -1, Leader: 1, LeaderEpoch: 3})
	_, resp := c.answer(req)
	got := resp.(*kmsg.ProduceResponse)
	p := got.Topics[0].Partitions[0]
	if p.ErrorCode != errNotLeaderOrFollower || p.CurrentLeader.LeaderID != 1 || p.CurrentLeader.LeaderEpoch != 3 {
		t.Errorf("partition: %+v", p)
	}
	if len(got.Brokers) != 1 || got.Brokers[0].Host != "broker.example" || got.Brokers[0].Port != 9093 {
		t.Errorf("brokers: %+v", got.Brokers)
	}
}

// TestProduce_OldVersionsNameNoLeader: the tags are there from version 9 on, and clients look at them from 10 on.
func TestProduce_OldVersionsNameNoLeader(t *testing.T) {
	d := openDoor(t, Config{})
	c := d.dial()
	req := produceRequest(t, "v", -1)
	req.Version = 9
	c.send(req)
	<-d.broker.came
	d.broker.batch(0).done(broker.ProduceResult{Code: cluster.CodeNotLeader, Leader: 1, LeaderEpoch: 3})
	_, resp := c.answer(req)
	got := resp.(*kmsg.ProduceResponse)
	if p := got.Topics[0].Partitions[0]; p.ErrorCode != errNotLeaderOrFollower || p.CurrentLeader.LeaderID != -1 || len(got.Brokers) != 0 {
		t.Errorf("partition %+v, brokers %+v", p, got.Brokers)
	}
}

func TestProduce_BadBatchesNeverReachTheBroker(t *testing.T) {
	for name, x := range map[string]struct {
		spoil func(*kmsg.ProduceRequest)
		want  int16
	}{
		"null": {func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Records = nil }, errInvalidRecord},
		"half": {func(r *kmsg.ProduceRequest) {
			p := &r.Topics[0].Partitions[0]
			p.Records = p.Records[:len(p.Records)-1]
		}, errInvalidRecord},
		"magic 1": {func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Records[16] = 1 }, errInvalidRecord},
		"zstd before version 7": {func(r *kmsg.ProduceRequest) {
			b := record.NewBuilder(record.BuilderOptions{Codec: record.CodecZstd})
			b.Append(1, nil, []byte("v"), nil)
			batch, _ := b.Build()
			r.Version, r.Topics[0].Partitions[0].Records = 6, batch.Bytes()
		}, errUnsupportedCompression},
		"a zero id": {func(r *kmsg.ProduceRequest) { r.Version = 13 }, errUnknownTopicID},
		"checksum":  {func(r *kmsg.ProduceRequest) { b := r.Topics[0].Partitions[0].Records; b[len(b)-1] ^= 1 }, errCorruptMessage},
		"two batches": {func(r *kmsg.ProduceRequest) {
			p := &r.Topics[0].Partitions[0]
			p.Records = append(p.Records, p.Records...)
		}, errInvalidRecord},
		"acks":          {func(r *kmsg.ProduceRequest) { r.Acks = 2 }, errInvalidRequiredAcks},
		"name":          {func(r *kmsg.ProduceRequest) { r.Topics[0].Topic = "a/b" }, errInvalidTopic},
		"transactional": {func(r *kmsg.ProduceRequest) { r.TransactionID = kmsg.StringPtr("x") }, errTransactionalID},
	} {
		d := openDoor(t, Config{})
		c := d.dial()
		req := produceRequest(t, "value", -1)
		x.spoil(req)
		c.send(req)
		_, resp := c.answer(req)
		if got := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; got != x.want || len(d.broker.produced) != 0 {
			t.Errorf("%s: error %d, want %d; %d batches went through", name, got, x.want, len(d.broker.produced))
		}
	}
}

func TestProduce_WithoutAcksARefusalClosesTheConnection(t *testing.T) {
	d := openDoor(t, Config{})
	c := d.dial()
	c.send(produceRequest(t, "v", 0))
	<-d.broker.came
	d.broker.batch(0).done(broker.ProduceResult{Code: cluster.CodeNotLeader, Leader: 1})
	c.closed()
}

func TestFetch_EndsWhenTheClientGoes(t *testing.T) {
	d := openDoor(t, Config{})
	started, ended := make(chan struct{}), make(chan struct{})
	d.broker.onFetch = func(ctx context.Context, req broker.FetchRequest) []broker.FetchedPartition {
		close(started)
		<-ctx.Done()
		close(ended)
		return make([]broker.FetchedPartition, len(req.Partitions))
	}
	c := d.dial()
	c.send(&kmsg.FetchRequest{Version: 11, ReplicaID: -1, MaxWaitMillis: 60_000, MinBytes: 1})
	<-started
	c.Close()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the fetch waits for a client that is gone")
	}
}

func TestMetadata_NamesAndIDs(t *testing.T) {
	d := openDoor(t, Config{})
	c := d.dial()
	for version := range int16(14) {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = version
		if version == 0 {
			req.Topics = []kmsg.MetadataRequestTopic{}
		}
		c.send(req)
		_, resp := c.answer(req)
		got := resp.(*kmsg.MetadataResponse)
		if len(got.Topics) != 1 || *got.Topics[0].Topic != "t" || got.Topics[0].Partitions[0].Leader != 1 || len(got.Brokers) != 2 {
			t.Errorf("version %d: %+v", version, got)
		}
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	req.Topics = []kmsg.MetadataRequestTopic{{TopicID: [16]byte{9}}, {TopicID: [16]byte{8}}, {Topic: kmsg.StringPtr("nope")}}
	c.send(req)
	_, resp := c.answer(req)
	got := resp.(*kmsg.MetadataResponse).Topics
	if *got[0].Topic != "t" || got[1].ErrorCode != errUnknownTopicID || got[2].ErrorCode != errUnknownTopicOrPartition {
		t.Errorf("by id: %+v", got)
	}
}

func TestEndpoint_AutoAnswersWithTheAddressThatWasReached(t *testing.T) {
	d := openDoor(t, Config{AutoAdvertise: true})
	d.s.gateway = nil
	c := d.dial()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	c.send(req)
	_, resp := c.answer(req)
	for _, b := range resp.(*kmsg.MetadataResponse).Brokers {
		if own := b.Host == "127.0.0.1"; own != (b.NodeID == 0) {
			t.Errorf("broker %d is at %s:%d", b.NodeID, b.Host, b.Port)
		}
	}
}

// A consumer of a deleted topic must not bring it back, as the broker would for a name.
func TestFetch_NeverAsksForATopicByName(t *testing.T) {
	d := openDoor(t, Config{})
	asked := make(chan broker.FetchRequest, 1)
	d.broker.onFetch = func(_ context.Context, req broker.FetchRequest) []broker.FetchedPartition {
		asked <- req
		out := make([]broker.FetchedPartition, len(req.Partitions))
		for i, p := range req.Partitions {
			if _, ok := d.broker.Image().Topic(p.Topic.ID); !ok {
				out[i].Code = cluster.CodeUnknownTopic
			}
		}
		return out
	}
	c := d.dial()
	req := &kmsg.FetchRequest{Version: 11, ReplicaID: -1}
	for _, name := range []string{"t", "gone"} {
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic, topic.Partitions = name, []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}
		req.Topics = append(req.Topics, topic)
	}
	c.send(req)
	for _, p := range (<-asked).Partitions {
		if p.Topic.Name != "" || p.Topic.ID.IsZero() {
			t.Errorf("the broker is asked for %+v", p.Topic)
		}
	}
	_, resp := c.answer(req)
	topics := resp.(*kmsg.FetchResponse).Topics
	if topics[0].Partitions[0].ErrorCode != errNone || topics[1].Partitions[0].ErrorCode != errUnknownTopicOrPartition {
		t.Errorf("answered with %+v", topics)
	}
}
