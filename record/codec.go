package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// codecNames are the names in configuration, flags and topic keys, by codec number.
var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// ParseCodec reads a codec by name: none, gzip, snappy, lz4 or zstd. "uncompressed", Kafka's word in compression.type, is none.
func ParseCodec(name string) (Codec, error) {
	for i, known := range codecNames {
		if name == known {
			return Codec(i), nil
		}
	}
	if name == "uncompressed" {
		return CodecNone, nil
	}
	return 0, fmt.Errorf("%w %q (known are none, gzip, snappy, lz4, zstd)", ErrCodec, name)
}

// String is the name that ParseCodec reads.
func (c Codec) String() string {
	if c.Known() {
		return codecNames[c]
	}
	return fmt.Sprintf("codec(%d)", int8(c))
}

// Known reports whether this package can compress and decompress with c.
func (c Codec) Known() bool { return c >= 0 && int(c) < len(codecNames) }

// Sizes of the coders, in bytes.
const (
	// lz4Block is the block size of the frames written: what Kafka's Java client writes.
	lz4Block = lz4.Block64Kb
	// zstdBlock is the most that one block of a zstd frame decodes to, by its specification.
	zstdBlock = 128 << 10
	// zstdMaxRatio bounds how far a zstd frame expands: its densest block makes zstdBlock bytes of 4. A frame that claims more is refused before anything is
	// allocated for it.
	zstdMaxRatio = zstdBlock / 4
	// gzipWindow is about what a gzip reader allocates when it is new.
	gzipWindow = 48 << 10
)

// Pools of coders. A coder is costly to make and keeps no bytes of a batch once it is reset. They, the zstd pair and the buffers of scratch.go are the only
// package state; nothing that a caller can see depends on it.
var (
	gzipReaderPool = sync.Pool{New: func() any { return new(gzip.Reader) }}
	gzipWriterPool = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}
	lz4ReaderPool  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	lz4WriterPool  = sync.Pool{New: newLZ4Writer}

	// zstdDecoder never decodes beyond the capacity of the buffer it is given, which is what bounds it. It is safe for concurrent
	// use and holds one block decoder per processor.
	zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
	})
	// zstdEncoder writes no checksum of its own: the batch has one.
	zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	})
)

// decompress returns the records of a batch in plain form, at most limit bytes. Memory stays below twice the limit plus the coder's
// window, whatever src claims, and the Memory of s counts it before it is allocated. The result aliases src for CodecNone and s otherwise; with a nil s it is fresh memory.
func decompress(s *scratch, codec Codec, src []byte, limit int) ([]byte, error) {
	if codec == CodecNone {
		return src, nil
	}
	if len(src) == 0 {
		// A batch that compaction has emptied: no implementation writes a frame around nothing.
		return src, nil
	}
	if s == nil {
		s = new(scratch)
	}
	limit = min(max(limit, 0), MaxBatchSize)
	var err error
	switch codec {
	case CodecGzip:
		err = s.gunzip(src, limit)
	case CodecSnappy:
		err = s.unsnappy(src, limit)
	case CodecLZ4:
		err = s.unlz4(src, limit)
	case CodecZstd:
		err = s.unzstd(src, limit)
	default:
		return nil, fmt.Errorf("%w %d", ErrCodec, codec)
	}
	s.source.Reset(nil) // a pooled reader keeps a reference to it
	switch {
	case err == nil:
		return s.b, nil
	case errors.Is(err, ErrInvalid):
		return nil, err
	}
	return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, codec, err)
}

// errBound says that the decompressed form does not fit.
func errBound(codec Codec, limit int) error {
	return fmt.Errorf("%w: %s data expands to more than %d bytes", ErrTooLarge, codec, limit)
}

func (s *scratch) gunzip(src []byte, limit int) error {
	s.charge.take(gzipWindow)
	defer s.charge.give(gzipWindow)
	r := gzipReaderPool.Get().(*gzip.Reader)
	defer gzipReaderPool.Put(r)
	s.source.Reset(src)
	if err := r.Reset(&s.source); err != nil {
		return err
	}
	return s.readAll(r, CodecGzip, gzipHint(src), limit)
}

// gzipMaxRatio bounds how far deflate expands, and so what a trailer can be believed.
const gzipMaxRatio = 1032

// gzipHint reads the plain size from the trailer of the last member, with a byte more so that the end is met without growing.
func gzipHint(src []byte) int {
	if len(src) < 4 {
		return 0
	}
	claim := min(int(binary.LittleEndian.Uint32(src[len(src)-4:])), gzipMaxRatio*len(src))
	return min(claim+1, max(scratchKeep, scratchRatio*len(src)))
}

func (s *scratch) unlz4(src []byte, limit int) error {
	room := lz4Room(src)
	s.charge.take(room)
	defer s.charge.give(room)
	r := lz4ReaderPool.Get().(*lz4.Reader)
	defer lz4ReaderPool.Put(r)
	s.source.Reset(src)
	r.Reset(&s.source)
	return s.readAll(r, CodecLZ4, scratchRatio*len(src), limit)
}

// readAll reads r to its end into s.b, growing it by doubling and never past limit plus the byte that shows an excess.
func (s *scratch) readAll(r io.Reader, codec Codec, hint, limit int) error {
	s.reserve(hint, limit+1)
	for {
		if len(s.b) == cap(s.b) {
			s.grow(limit + 1)
		}
		n, err := r.Read(s.b[len(s.b):min(cap(s.b), limit+1)])
		s.b = s.b[:len(s.b)+n]
		if len(s.b) > limit {
			return errBound(codec, limit)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// unzstd lets the decoder fill the buffer and starts again with a larger one if it is too small. Frames that state their size are
// decoded once, the others at most twice over in total, since the buffer doubles.
//
// The decoder names a lack of room only between blocks; inside one it reports broken data. So an error counts as a lack of room when
// less than a block was left, and the last attempt has a block more room than the limit: what fails there below the limit is broken.
func (s *scratch) unzstd(src []byte, limit int) error {
	decoder, err := zstdDecoder()
	if err != nil {
		return err
	}
	hint := scratchRatio * len(src)
	var head zstd.Header
	if err := head.Decode(src); err == nil && head.HasFCS {
		if head.FrameContentSize > uint64(limit) {
			return errBound(CodecZstd, limit)
		}
		if head.FrameContentSize > uint64(zstdMaxRatio*len(src)) {
			return fmt.Errorf("frame within %d bytes claims to hold %d", len(src), head.FrameContentSize)
		}
		hint = int(head.FrameContentSize)
	}
	most := limit + zstdBlock
	s.reserve(hint, most)
	for {
		room := s.b[:0:min(cap(s.b), most)]
		out, err := decoder.DecodeAll(src, room)
		lacksRoom := errors.Is(err, zstd.ErrDecoderSizeExceeded) || len(out)+zstdBlock > cap(room)
		switch {
		case err != nil && lacksRoom && cap(room) < most:
			s.grow(most)
		case err != nil && lacksRoom, len(out) > limit:
			return errBound(CodecZstd, limit)
		case err != nil:
			return err
		default:
			s.b = out
			return nil
		}
	}
}

// compress appends src to dst in compressed form.
func compress(dst []byte, codec Codec, src []byte) ([]byte, error) {
	switch codec {
	case CodecNone:
		return append(dst, src...), nil
	case CodecGzip:
		w := gzipWriterPool.Get().(*gzip.Writer)
		defer gzipWriterPool.Put(w)
		return compressStream(dst, w, src)
	case CodecSnappy:
		return appendXerial(dst, src), nil
	case CodecLZ4:
		w := lz4WriterPool.Get().(*lz4.Writer)
		defer lz4WriterPool.Put(w)
		return compressStream(dst, w, src)
	case CodecZstd:
		encoder, err := zstdEncoder()
		if err != nil {
			return nil, fmt.Errorf("record: zstd: %w", err)
		}
		return encoder.EncodeAll(src, dst), nil
	}
	return nil, fmt.Errorf("%w %d", ErrCodec, codec)
}

// streamWriter is what the gzip and the lz4 writers have in common.
type streamWriter interface {
	io.WriteCloser
	Reset(io.Writer)
}

func compressStream(dst []byte, w streamWriter, src []byte) ([]byte, error) {
	sink := appendWriter{dst}
	w.Reset(&sink)
	if _, err := w.Write(src); err != nil {
		return nil, fmt.Errorf("record: compress: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("record: compress: %w", err)
	}
	w.Reset(io.Discard) // or the pool would keep the batch alive
	return sink.b, nil
}

// appendWriter is an io.Writer over a slice.
type appendWriter struct{ b []byte }

func (w *appendWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// newLZ4Writer makes a writer of the frames that every Kafka client reads: independent 64 KiB blocks, no checksums of their own.
func newLZ4Writer() any {
	w := lz4.NewWriter(io.Discard)
	if err := w.Apply(lz4.BlockSizeOption(lz4Block), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1)); err != nil {
		panic(err) // these constant options are valid on a new writer
	}
	return w
}
