package e2e

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What no client library sends today, as bytes on a connection.

// rawKafka is a connection to one broker.
type rawKafka struct {
	t *testing.T
	net.Conn
}

func dialKafka(t *testing.T, b *Broker) *rawKafka {
	t.Helper()
	conn, err := net.DialTimeout("tcp", b.Kafka, Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(Patience)) // a connection that is closed says so when it is used
	return &rawKafka{t, conn}
}

// ask sends a frame and gives the body of the answer, behind its correlation id.
func (r *rawKafka) ask(frame []byte) []byte {
	r.t.Helper()
	if _, err := r.Write(frame); err != nil {
		r.t.Fatal(err)
	}
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		r.t.Fatal(err)
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r, answer); err != nil {
		r.t.Fatal(err)
	}
	if got := binary.BigEndian.Uint32(answer); got != 1 { // as kafkaFrame numbers
		r.t.Fatalf("correlation id %d", got)
	}
	return answer[4:]
}

// apiVersions asks in the oldest form, and fails the test unless the answer has every API.
func (r *rawKafka) apiVersions() {
	r.t.Helper()
	resp := kmsg.NewPtrApiVersionsResponse()
	if err := resp.ReadFrom(r.ask(kafkaFrame(&kmsg.ApiVersionsRequest{}))); err != nil || resp.ErrorCode != 0 || len(resp.ApiKeys) < 30 {
		r.t.Errorf("ApiVersions: %v, %v, %d keys", err, kerr.ErrorForCode(resp.ErrorCode), len(resp.ApiKeys))
	}
}

// newApiVersions: kop 176. ApiVersions of a version that does not exist yet is answered in the oldest form with what the broker has, and the connection goes on.
func newApiVersions(t *testing.T, c *Cluster) {
	r := dialKafka(t, c.Brokers[0])
	frame := kafkaFrame(&kmsg.ApiVersionsRequest{Version: 3, ClientSoftwareName: "tomorrow", ClientSoftwareVersion: "99"})
	binary.BigEndian.PutUint16(frame[6:], 99)
	resp := kmsg.NewPtrApiVersionsResponse()
	if err := resp.ReadFrom(r.ask(frame)); err != nil || resp.ErrorCode != kerr.UnsupportedVersion.Code {
		t.Errorf("version 99: %v, %v", err, kerr.ErrorForCode(resp.ErrorCode))
	}
	known := resp.ApiKeys
	if len(known) != 1 || known[0].ApiKey != kmsg.ApiVersions.Int16() || known[0].MinVersion != 0 || known[0].MaxVersion < 3 {
		t.Fatalf("the answer has %+v", known)
	}
	resp.Version = min(known[0].MaxVersion, 4) // the client tries the newest of both
	frame = kafkaFrame(&kmsg.ApiVersionsRequest{Version: resp.Version, ClientSoftwareName: "tomorrow", ClientSoftwareVersion: "99"})
	if err := resp.ReadFrom(r.ask(frame)); err != nil || resp.ErrorCode != 0 || len(resp.ApiKeys) < 30 {
		t.Errorf("the second try: %v, %v, %d keys", err, kerr.ErrorForCode(resp.ErrorCode), len(resp.ApiKeys))
	}
	meta := kmsg.NewPtrMetadataResponse()
	meta.Version = 4
	if err := meta.ReadFrom(r.ask(kafkaFrame(&kmsg.MetadataRequest{Version: 4}))); err != nil || len(meta.Brokers) != len(c.Brokers) {
		t.Errorf("metadata: %v, %d brokers", err, len(meta.Brokers))
	}
}

// oldMessages is a message set of one message of the formats before batches, with the checksum that it has to have.
func oldMessages(magic byte) []byte {
	body := []byte{magic, 0}
	if magic == 1 {
		body = binary.BigEndian.AppendUint64(body, uint64(time.Now().UnixMilli()))
	}
	body = append(body, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 3, 'o', 'l', 'd') // no key
	set := binary.BigEndian.AppendUint32(make([]byte, 8), uint32(4+len(body)))
	return append(binary.BigEndian.AppendUint32(set, crc32.ChecksumIEEE(body)), body...)
}

// oldMessageSets: redpanda 3067. Message sets of formats 0 and 1 are refused by every version that has a way to say so, nothing of them is stored, and the connection
// goes on. Versions 0 to 2, which are for those formats, are refused by closing the connection, as Apache Kafka 4 does.
func oldMessageSets(t *testing.T, c *Cluster) {
	ctx := kafkaContext(t)
	client := kafkaClient(t, c)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, 3, nil, "old-messages"); err != nil {
		t.Fatal(err)
	}
	produceKafka(ctx, t, client, "old-messages", "new", 1)
	meta, err := admin.Metadata(ctx, "old-messages")
	if err != nil {
		t.Fatal(err)
	}
	leader := meta.Topics["old-messages"].Partitions[0].Leader
	request := func(version int16, magic byte) *kmsg.ProduceRequest {
		req := kmsg.NewPtrProduceRequest()
		req.Version, req.Acks, req.TimeoutMillis = version, -1, 5000
		topic, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
		topic.Topic, p.Records = "old-messages", oldMessages(magic)
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
		return req
	}
	for _, magic := range []byte{0, 1} {
		r := dialKafka(t, c.Brokers[leader])
		for version := int16(3); version <= 8; version++ {
			resp := kmsg.NewPtrProduceResponse()
			resp.Version = version
			if err := resp.ReadFrom(r.ask(kafkaFrame(request(version, magic)))); err != nil {
				t.Fatal(err)
			}
			if p := resp.Topics[0].Partitions[0]; p.ErrorCode != kerr.InvalidRecord.Code || p.BaseOffset != -1 {
				t.Errorf("version %d, format %d: %v at %d", version, magic, kerr.ErrorForCode(p.ErrorCode), p.BaseOffset)
			}
		}
		r.apiVersions()
		old := dialKafka(t, c.Brokers[leader])
		if _, err := old.Write(kafkaFrame(request(2, magic))); err != nil {
			t.Fatal(err)
		}
		if n, err := old.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("version 2, format %d: %d bytes, %v", magic, n, err)
		}
	}
	ends, err := admin.ListEndOffsets(ctx, "old-messages")
	if end, _ := ends.Lookup("old-messages", 0); err != nil || end.Err != nil || end.Offset != 1 {
		t.Errorf("the log ends at %d (%v, %v), want the 1 of the new format", end.Offset, err, end.Err)
	}
}
