package codec

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/moldau-log/moldau/cluster"
	metadatav1 "github.com/moldau-log/moldau/proto/moldau/metadata/v1"
	"github.com/moldau-log/moldau/record"
)

// A snapshot:
//
//	+-----------------+---------+ then per record +---------------+----------------+------------------+
//	| magic "MOLDAUMS"| version |                 | length uint32 | crc32c uint32  | protobuf message |
//	+-----------------+---------+                 +---------------+----------------+------------------+
//	  8 bytes           1 byte                      big-endian      of the message
const snapshotMagic = "MOLDAUMS"

// maxSnapshotRecord bounds one record on reading, so that damage cannot ask for all memory. The largest record is the state of one group.
const maxSnapshotRecord = 64 << 20

// WriteSnapshot writes the records of a snapshot.
func WriteSnapshot(w io.Writer, records iter.Seq[cluster.SnapshotRecord]) error {
	out := bufio.NewWriterSize(w, 64<<10)
	_, _ = out.WriteString(snapshotMagic)
	_ = out.WriteByte(version) // a bufio.Writer keeps its first error for Flush
	var buf []byte
	for rec := range records {
		m, err := snapshotToProto(rec)
		if err != nil {
			return err
		}
		buf, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(buf[:0], m)
		if err != nil {
			return fmt.Errorf("controller/codec: encode snapshot: %w", err)
		}
		var head [8]byte
		binary.BigEndian.PutUint32(head[:], uint32(len(buf)))
		binary.BigEndian.PutUint32(head[4:], crc32.Checksum(buf, castagnoli()))
		_, _ = out.Write(head[:])
		if _, err := out.Write(buf); err != nil {
			return fmt.Errorf("controller/codec: write snapshot: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("controller/codec: write snapshot: %w", err)
	}
	return nil
}

// ReadSnapshot reads the records of a snapshot. The first error ends the sequence: ErrUnknownCommand, ErrMalformed, or one of the reader. Whether the list is
// whole is for the caller to judge (state.Restore demands the end mark).
func ReadSnapshot(r io.Reader) iter.Seq2[cluster.SnapshotRecord, error] {
	return func(yield func(cluster.SnapshotRecord, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		if err := readMagic(in); err != nil {
			yield(nil, err)
			return
		}
		for {
			rec, err := readRecord(in)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

func readMagic(in io.Reader) error {
	var head [len(snapshotMagic) + 1]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return cut(err)
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return fmt.Errorf("%w: not a metadata snapshot", ErrMalformed)
	}
	if v := head[len(snapshotMagic)]; v != version {
		return fmt.Errorf("%w (snapshot version %d, this one knows %d)", ErrUnknownCommand, v, version)
	}
	return nil
}

// readRecord reads one record; io.EOF at a record's border is the end.
func readRecord(in io.Reader) (cluster.SnapshotRecord, error) {
	var head [8]byte
	if n, err := io.ReadFull(in, head[:]); err != nil {
		if n == 0 && errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, cut(err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxSnapshotRecord {
		return nil, fmt.Errorf("%w: a snapshot record of %d bytes", ErrMalformed, size)
	}
	buf := make([]byte, size)
	if _, err := io.ReadFull(in, buf); err != nil {
		return nil, cut(err)
	}
	if crc32.Checksum(buf, castagnoli()) != binary.BigEndian.Uint32(head[4:]) {
		return nil, fmt.Errorf("%w: a snapshot record fails its checksum", ErrMalformed)
	}
	var m metadatav1.SnapshotRecord
	if err := unmarshal(buf, &m); err != nil {
		return nil, err
	}
	d := decoder{}
	rec := d.snapshot(&m)
	return rec, d.err
}

// cut tells a snapshot that is too short from a reader that failed.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the snapshot is cut off", ErrMalformed)
	}
	return fmt.Errorf("controller/codec: read snapshot: %w", err)
}

// castagnoli returns the table of CRC32C; the standard library makes it once.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func snapshotToProto(rec cluster.SnapshotRecord) (*metadatav1.SnapshotRecord, error) {
	m := &metadatav1.SnapshotRecord{}
	switch r := rec.(type) {
	case cluster.SnapshotHeader:
		m.Record = &metadatav1.SnapshotRecord_Header{Header: &metadatav1.SnapshotHeader{Index: r.Index, Cluster: uuidBytes(r.Cluster), CreatedMs: r.CreatedMs,
			FeatureLevel: r.FeatureLevel, NextProducerId: int64(r.NextProducerID), Shards: mapTo(r.Shards[:], shardToProto)}}
	case cluster.SnapshotBroker:
		m.Record = &metadatav1.SnapshotRecord_Broker{Broker: brokerToProto(r.Broker)}
	case cluster.SnapshotTopic:
		m.Record = &metadatav1.SnapshotRecord_Topic{Topic: topicToProto(r.Topic)}
	case cluster.SnapshotPartition:
		m.Record = &metadatav1.SnapshotRecord_Partition{Partition: &metadatav1.SnapshotPartition{Key: tpToProto(r.Key), Partition: partitionToProto(r.Partition)}}
	case cluster.SnapshotConfigs:
		m.Record = &metadatav1.SnapshotRecord_Configs{Configs: &metadatav1.SnapshotConfigs{Resource: resourceToProto(r.Resource), Configs: configsToProto(r.Configs)}}
	case cluster.SnapshotTombstone:
		m.Record = &metadatav1.SnapshotRecord_Tombstone{Tombstone: tombstoneToProto(r.Tombstone)}
	case cluster.SnapshotGroup:
		m.Record = &metadatav1.SnapshotRecord_Group{Group: groupStateToProto(r.Group)}
	case cluster.SnapshotOffsets:
		m.Record = &metadatav1.SnapshotRecord_Offsets{Offsets: &metadatav1.SnapshotOffsets{Group: text(r.Group), Topic: uuidBytes(r.Topic),
			Offsets: mapTo(r.Offsets, func(o cluster.PartitionOffset) *metadatav1.PartitionOffset {
				return &metadatav1.PartitionOffset{Partition: o.Partition, Committed: committedToProto(o.Committed)}
			})}}
	case cluster.SnapshotEnd:
		m.Record = &metadatav1.SnapshotRecord_End{End: &metadatav1.SnapshotEnd{Records: r.Records}}
	default:
		return nil, fmt.Errorf("controller/codec: no bytes for snapshot record %T", rec)
	}
	return m, nil
}

func (d *decoder) snapshot(m *metadatav1.SnapshotRecord) cluster.SnapshotRecord {
	switch r := m.GetRecord().(type) {
	case *metadatav1.SnapshotRecord_Header:
		return d.header(r.Header)
	case *metadatav1.SnapshotRecord_Broker:
		b := d.broker(r.Broker)
		return cluster.SnapshotBroker{Broker: &b}
	case *metadatav1.SnapshotRecord_Topic:
		return cluster.SnapshotTopic{Topic: d.topic(r.Topic)}
	case *metadatav1.SnapshotRecord_Partition:
		return cluster.SnapshotPartition{Key: d.tp(r.Partition.GetKey()), Partition: d.partition(r.Partition.GetPartition())}
	case *metadatav1.SnapshotRecord_Configs:
		return cluster.SnapshotConfigs{Resource: d.resource(r.Configs.GetResource()), Configs: configs(r.Configs.GetConfigs())}
	case *metadatav1.SnapshotRecord_Tombstone:
		return cluster.SnapshotTombstone{Tombstone: d.tombstone(r.Tombstone)}
	case *metadatav1.SnapshotRecord_Group:
		return cluster.SnapshotGroup{Group: d.groupState(r.Group)}
	case *metadatav1.SnapshotRecord_Offsets:
		return cluster.SnapshotOffsets{Group: string(r.Offsets.GetGroup()), Topic: d.uuid(r.Offsets.GetTopic()),
			Offsets: mapTo(r.Offsets.GetOffsets(), func(o *metadatav1.PartitionOffset) cluster.PartitionOffset {
				return cluster.PartitionOffset{Partition: o.GetPartition(), Committed: committed(o.GetCommitted())}
			})}
	case *metadatav1.SnapshotRecord_End:
		return cluster.SnapshotEnd{Records: r.End.GetRecords()}
	}
	d.unknown("a snapshot record")
	return nil
}

func (d *decoder) header(m *metadatav1.SnapshotHeader) cluster.SnapshotHeader {
	h := cluster.SnapshotHeader{Index: m.GetIndex(), Cluster: d.uuid(m.GetCluster()), CreatedMs: m.GetCreatedMs(), FeatureLevel: m.GetFeatureLevel(),
		NextProducerID: record.ProducerID(m.GetNextProducerId())}
	if len(m.GetShards()) != len(h.Shards) {
		d.fail("%d shards", len(m.GetShards()))
		return h
	}
	for i, s := range m.GetShards() {
		h.Shards[i] = shard(s)
	}
	return h
}
