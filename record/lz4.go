package record

import "encoding/binary"

// An lz4 frame is
//
//	magic 4 | flags 1 | block size 1 | [content size 8] | [dictionary 4] | header checksum 1 | { length 4 | block | [checksum 4] }... | 0 4 | [checksum 4]
//
// with little-endian numbers; the highest bit of a length says that the block is not compressed. Frames may follow each other.
const (
	lz4Magic          = 0x184d2204
	lz4HeaderSize     = 7 // without what is optional
	lz4FlagDictionary = 1 << 0
	lz4FlagChecksum   = 1 << 2
	lz4FlagSize       = 1 << 3
	lz4FlagBlockSums  = 1 << 4
	lz4Uncompressed   = 1 << 31
	// lz4LeastSize is the number of the smallest block size, 64 KiB. Each number above it is four times as much.
	lz4LeastSize = 4
	// lz4Window is the most that a reader allocates: the largest block of any kind of frame, compressed and plain.
	lz4Window = 2 * (8 << 20)
)

// lz4Room is what a reader allocates for itself for the frames in src: one block compressed, and one plain. It believes the lengths as far as they lead to the end,
// and takes the most where they do not.
func lz4Room(src []byte) int {
	room := 0
	for len(src) > 0 {
		block, size := lz4Frame(src)
		if size == 0 {
			return lz4Window
		}
		room = max(room, 2*block)
		src = src[size:]
	}
	return room
}

// lz4Frame returns the block size of the frame at the start of src, and the frame's own size; 0 if it is none, or not whole.
func lz4Frame(src []byte) (block, size int) {
	if len(src) < lz4HeaderSize || binary.LittleEndian.Uint32(src) != lz4Magic {
		return 0, 0
	}
	flags, number := src[4], int(src[5]>>4)&7
	if number < lz4LeastSize {
		return 0, 0
	}
	optional := func(flag byte, bytes int) int {
		if flags&flag != 0 {
			return bytes
		}
		return 0
	}
	for at := lz4HeaderSize + optional(lz4FlagSize, 8) + optional(lz4FlagDictionary, 4); at+4 <= len(src); {
		length := binary.LittleEndian.Uint32(src[at:])
		at += 4
		if length == 0 {
			if at += optional(lz4FlagChecksum, 4); at > len(src) {
				return 0, 0
			}
			return 64 << 10 << (2 * (number - lz4LeastSize)), at
		}
		at += int(length&^uint32(lz4Uncompressed)) + optional(lz4FlagBlockSums, 4)
	}
	return 0, 0
}
