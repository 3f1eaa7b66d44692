package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

func TestCodec_NamesRoundTrip(t *testing.T) {
	for _, codec := range allCodecs {
		if got, err := ParseCodec(codec.String()); err != nil || got != codec || !codec.Known() {
			t.Errorf("%s: %v, %v", codec, got, err)
		}
	}
	if got, err := ParseCodec("uncompressed"); err != nil || got != CodecNone {
		t.Errorf("uncompressed: %v, %v", got, err)
	}
	for _, name := range []string{"", "GZIP", "brotli", "codec(5)"} {
		if _, err := ParseCodec(name); !errors.Is(err, ErrCodec) {
			t.Errorf("%q: error %v", name, err)
		}
	}
	if Codec(5).Known() || Codec(-1).Known() || Codec(5).String() != "codec(5)" {
		t.Error("codec 5 is taken for a known one")
	}
}

func TestRoundTrip_EveryCodec(t *testing.T) {
	for _, codec := range allCodecs {
		for _, shape := range []struct{ n, size int }{{1, 0}, {1, 100}, {500, 100}, {3, 300_000}} {
			records := sample(shape.n, shape.size)
			records[0].Headers = []Header{{"trace", []byte("1")}, {"", []byte{}}, {"null", nil}}
			b := build(t, BuilderOptions{Codec: codec}, records...)
			if b.Codec() != codec {
				t.Fatalf("%s: header says %s", codec, b.Codec())
			}
			if err := b.Validate(Limits{MaxDecompressed: testLimit}); err != nil {
				t.Errorf("%s %v: Validate: %v", codec, shape, err)
			}
			got, err := decodeAll(b, testLimit)
			if err != nil || len(got) != len(records) {
				t.Errorf("%s %v: %d records, error %v", codec, shape, len(got), err)
				continue
			}
			for i := range got {
				if !sameRecord(got[i], records[i]) {
					t.Errorf("%s %v: record %d differs", codec, shape, i)
				}
			}
			if codec != CodecNone && shape.n > 1 && b.Size() > shape.n*shape.size*9/10 {
				t.Errorf("%s %v: %d bytes: not compressed", codec, shape, b.Size())
			}
		}
	}
}

// plainRecords is the records part of a batch of n records, uncompressed.
func plainRecords(t testing.TB, n int) []byte {
	return bytes.Clone(build(t, BuilderOptions{}, sample(n, 100)...).payload())
}

// Other clients compress in other ways than we do; all of them are read.
func TestDecompress_ReadsWhatOtherClientsWrite(t *testing.T) {
	plain := plainRecords(t, 2000)
	stream := func(newWriter func(io.Writer) io.WriteCloser) []byte {
		var sink bytes.Buffer
		w := newWriter(&sink)
		for part := plain; len(part) > 0; part = part[min(len(part), 1000):] {
			if _, err := w.Write(part[:min(len(part), 1000)]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return sink.Bytes()
	}
	half := len(plain) / 2
	for name, test := range map[string]struct {
		codec   Codec
		payload []byte
	}{
		"raw snappy": {CodecSnappy, snappy.Encode(nil, plain)},
		"xerial in one block": {CodecSnappy, append(binary.BigEndian.AppendUint32(unhex(t, "82534e4150505900 00000001 00000001"),
			uint32(len(snappy.Encode(nil, plain)))), snappy.Encode(nil, plain)...)},
		"gzip best": {CodecGzip, stream(func(w io.Writer) io.WriteCloser { z, _ := gzip.NewWriterLevel(w, 9); return z })},
		"gzip in two members": {CodecGzip, func() []byte {
			a, _ := compress(nil, CodecGzip, plain[:half])
			b, _ := compress(a, CodecGzip, plain[half:])
			return b
		}()},
		"lz4 of 4 MiB blocks with checksums": {CodecLZ4, stream(func(w io.Writer) io.WriteCloser {
			z := lz4.NewWriter(w)
			if err := z.Apply(lz4.BlockSizeOption(lz4.Block4Mb), lz4.ChecksumOption(true), lz4.BlockChecksumOption(true), lz4.SizeOption(uint64(len(plain)))); err != nil {
				t.Fatal(err)
			}
			return z
		})},
		"zstd of unknown size, with checksum": {CodecZstd, stream(func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z })},
		"zstd of a wide window": {CodecZstd, stream(func(w io.Writer) io.WriteCloser {
			z, _ := zstd.NewWriter(w, zstd.WithWindowSize(64<<20), zstd.WithEncoderLevel(zstd.SpeedBestCompression))
			return z
		})},
		"zstd in two frames": {CodecZstd, func() []byte {
			a, _ := compress(nil, CodecZstd, plain[:half])
			b, _ := compress(a, CodecZstd, plain[half:])
			return b
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Parse(wrap(test.payload, test.codec, 2000))
			if err != nil {
				t.Fatal(err)
			}
			copy(b.b[posMaxTimestamp:], bytes.Repeat([]byte{0}, 8))
			b.seal()
			if err := b.Validate(Limits{MaxDecompressed: testLimit}); err != nil {
				t.Errorf("Validate: %v", err)
			}
			if got, err := decodeAll(b, len(plain)); err != nil || len(got) != 2000 {
				t.Errorf("%d records, error %v", len(got), err)
			}
			if _, err := decodeAll(b, len(plain)-1); !errors.Is(err, ErrTooLarge) {
				t.Errorf("one byte below the size: error %v", err)
			}
		})
	}
}

// bomb compresses size zero bytes without holding them.
func bomb(t testing.TB, codec Codec, size int) []byte {
	chunk := make([]byte, 1<<20)
	if codec == CodecSnappy { // many small blocks in the framed form
		out := unhex(t, "82534e4150505900 00000001 00000001")
		block := snappy.Encode(nil, chunk)
		for range size / len(chunk) {
			out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
		}
		return out
	}
	var sink bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case CodecGzip:
		w, _ = gzip.NewWriterLevel(&sink, gzip.BestCompression)
	case CodecLZ4:
		w = lz4.NewWriter(&sink)
	case CodecZstd:
		w, _ = zstd.NewWriter(&sink)
	}
	for range size / len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return sink.Bytes()
}

// allocated is how many bytes f allocates, garbage included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Case 104: a small batch that expands without end is refused at the bound, and memory for it is not allocated. All allocations count,
// also those that became garbage, so the margin holds two buffers that double up to the bound and the decoders' own windows.
func TestCase104_DecompressionBombIsRefusedAtTheBound(t *testing.T) {
	const limit, expanded, margin = 1 << 20, 128 << 20, 16 << 20
	lying := map[string]struct {
		codec   Codec
		payload []byte
	}{
		"raw snappy that claims 4 GiB":    {CodecSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0}},
		"raw snappy that claims 1 MiB":    {CodecSnappy, append(binary.AppendUvarint(nil, 1<<20), 0, 0, 0)},
		"zstd that claims 1 GiB":          {CodecZstd, unhex(t, "28b52ffd a0 00000040 010000")},
		"zstd with a 1 GiB window":        {CodecZstd, unhex(t, "28b52ffd 00 a0 010000")},
		"gzip whose trailer claims 4 GiB": {CodecGzip, unhex(t, "1f8b0800000000000000 030000000000 ffffffff")},
		"xerial block of 2 GiB":           {CodecSnappy, unhex(t, "82534e4150505900 00000001 00000001 7fffffff 00")},
		"lz4 that claims 1 GiB content":   {CodecLZ4, unhex(t, "04224d18 6870 0000004000000000 00 00000000")},
	}
	for _, codec := range allCodecs[1:] {
		lying["real "+codec.String()] = struct {
			codec   Codec
			payload []byte
		}{codec, bomb(t, codec, expanded)}
	}
	for name, test := range lying {
		t.Run(name, func(t *testing.T) {
			b, err := Parse(wrap(test.payload, test.codec, 1))
			if err != nil {
				t.Fatal(err)
			}
			real := len(test.payload) > 100
			var validated, iterated error
			used := allocated(func() {
				validated = b.Validate(Limits{MaxDecompressed: limit})
				_, iterated = decodeAll(b, limit)
			})
			for _, err := range []error{validated, iterated} {
				if !errors.Is(err, ErrInvalid) || real && !errors.Is(err, ErrTooLarge) {
					t.Errorf("error %v", err)
				}
			}
			if used > margin {
				t.Errorf("allocated %d MiB for a bound of %d MiB", used>>20, limit>>20)
			}
		})
	}
}

// grows is by how much the heap is larger at its peak while f runs, in bytes. What the heap has had from the system before does not count.
func grows(f func()) int64 {
	var before, after runtime.MemStats
	debug.FreeOSMemory()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.HeapSys) - int64(before.HeapSys)
}

// Case 104: what a batch claims costs nothing before it is shown, even where the bound is large.
func TestCase104_AClaimAllocatesNothing(t *testing.T) {
	const limit, margin = 256 << 20, 6 << 20
	for name, test := range map[string]struct {
		codec   Codec
		payload []byte
	}{
		"zstd of 11 bytes that claims 268,000,000": {CodecZstd, unhex(t, "28b52ffd a0 c053f90f 010000")},
		"gzip whose trailer claims 256 MiB":        {CodecGzip, append(unhex(t, "1f8b0800000000000000"), append(bytes.Repeat([]byte{0xff}, 300<<10), 0xff, 0xff, 0xff, 0x0f)...)},
		"raw snappy that claims 200 MiB":           {CodecSnappy, append(binary.AppendUvarint(nil, 200<<20), 0, 0, 0)},
	} {
		b, err := Parse(wrap(test.payload, test.codec, 1))
		if err != nil {
			t.Fatal(err)
		}
		used := allocated(func() { err = b.Validate(Limits{MaxDecompressed: limit}) })
		if !errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: error %v", name, err)
		}
		if used > margin {
			t.Errorf("%s: allocated %d MiB", name, used>>20)
		}
	}
}

func TestDecompress_RefusesBrokenData(t *testing.T) {
	plain := plainRecords(t, 50)
	for _, codec := range allCodecs[1:] {
		whole, err := compress(nil, codec, plain)
		if err != nil {
			t.Fatal(err)
		}
		for name, payload := range map[string][]byte{
			"cut":     whole[:len(whole)/2],
			"garbage": []byte("this is no compressed data at all"),
			"other": func() []byte {
				other, _ := compress(nil, allCodecs[1+int(codec)%4], plain)
				return other
			}(),
		} {
			if _, err := decompress(nil, codec, payload, testLimit); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s, %s: error %v", codec, name, err)
			}
		}
		if _, err := decompress(nil, codec, whole, 0); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s with bound 0: error %v", codec, err)
		}
	}
	if _, err := decompress(nil, 6, plain, testLimit); !errors.Is(err, ErrCodec) {
		t.Errorf("codec 6: error %v", err)
	}
	for name, frame := range map[string]string{
		"header cut":  "82534e4150505900 00000001 0000",
		"length cut":  "82534e4150505900 00000001 00000001 0000",
		"block cut":   "82534e4150505900 00000001 00000001 00000009 00",
		"block empty": "82534e4150505900 00000001 00000001 00000000",
	} {
		if _, err := decompress(nil, CodecSnappy, unhex(t, frame), testLimit); !errors.Is(err, ErrInvalid) {
			t.Errorf("xerial, %s: error %v", name, err)
		}
	}
}

// A pooled coder that has met bad data serves the next batch.
func TestDecompress_RecoversAfterBadData(t *testing.T) {
	plain := plainRecords(t, 50)
	for _, codec := range allCodecs[1:] {
		whole, err := compress(nil, codec, plain)
		if err != nil {
			t.Fatal(err)
		}
		s := new(scratch)
		for range 5 {
			if _, err := decompress(s, codec, whole[:len(whole)-5], testLimit); err == nil {
				t.Errorf("%s: cut data passed", codec)
			}
			if got, err := decompress(s, codec, whole, testLimit); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%s: after bad data: %d bytes, error %v", codec, len(got), err)
			}
		}
	}
}

// The coders are pooled or shared: batches of all codecs are made and read at once.
func TestCodec_ConcurrentUse(t *testing.T) {
	records := sample(200, 50)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for round := range 10 {
				codec := allCodecs[(worker+round)%len(allCodecs)]
				b := build(t, BuilderOptions{Codec: codec}, records[:1+worker*round]...)
				if err := b.Validate(Limits{MaxDecompressed: testLimit}); err != nil {
					t.Errorf("%s: %v", codec, err)
				}
				got, err := decodeAll(b, testLimit)
				if err != nil || len(got) != 1+worker*round || !sameRecord(got[worker*round], records[worker*round]) {
					t.Errorf("%s: %d records, error %v", codec, len(got), err)
				}
			}
		})
	}
	wg.Wait()
}
