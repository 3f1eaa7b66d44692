package controller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller/codec"
)

// entryChecksum is the length of the CRC32C in front of each command in the Raft log. bbolt checks none of its pages, so without it a flipped bit would be
// applied. It is on disk.
const entryChecksum = 4

var errEntryDamaged = errors.New("its checksum does not match: the Raft log is damaged")

func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// frameEntry puts the checksum in front of an encoded command:
//
//	+----------------+--------------------------+
//	| CRC32C, 4, BE  | command (codec)          |
//	+----------------+--------------------------+
func frameEntry(encoded []byte) []byte {
	entry := make([]byte, entryChecksum, entryChecksum+len(encoded))
	binary.BigEndian.PutUint32(entry, castagnoli(encoded))
	return append(entry, encoded...)
}

// openEntry undoes frameEntry.
func openEntry(entry []byte) ([]byte, error) {
	if len(entry) < entryChecksum || binary.BigEndian.Uint32(entry) != castagnoli(entry[entryChecksum:]) {
		return nil, errEntryDamaged
	}
	return entry[entryChecksum:], nil
}

// checkEntry refuses an entry that is not the one that was stored.
func checkEntry(index uint64, entry *raft.Log) error {
	if err := checkType(entry); err != nil {
		return err
	}
	if entry.Index != index {
		return fmt.Errorf("entry %d says that it is entry %d: the Raft log is damaged", index, entry.Index)
	}
	if entry.Type != raft.LogCommand {
		return nil
	}
	if _, err := openEntry(entry.Data); err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	return nil
}

// checkType refuses an entry of a type that the library does not know: it would panic when it applies it.
func checkType(entry *raft.Log) error {
	switch entry.Type {
	case raft.LogCommand, raft.LogNoop, raft.LogBarrier, raft.LogConfiguration:
		return nil
	}
	return &EntryError{Index: entry.Index, Err: fmt.Errorf("unknown Raft entry type %d", entry.Type)}
}

func encodeCommand(cmd cluster.Command) ([]byte, error) {
	b, err := codec.EncodeCommand(cmd)
	if err != nil {
		return nil, fmt.Errorf("controller: encode %T: %w", cmd, err)
	}
	return b, nil
}

func decodeCommand(b []byte) (cluster.Command, error) {
	cmd, err := codec.DecodeCommand(b)
	if err != nil {
		return nil, fmt.Errorf("controller: decode a command: %w", err)
	}
	return cmd, nil
}
