package record

import "testing"

// benchRecords is the batch shape of the performance targets: 500 records of 100 bytes.
var benchRecords = sample(500, 100)

func BenchmarkBuild(b *testing.B) {
	for _, codec := range allCodecs {
		b.Run(codec.String(), func(b *testing.B) {
			builder := NewBuilder(BuilderOptions{Codec: codec})
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				builder.Reset(BuilderOptions{Codec: codec})
				for i := range benchRecords {
					builder.Append(benchRecords[i].Timestamp, benchRecords[i].Key, benchRecords[i].Value, nil)
				}
				batch, err := builder.BuildInto(buf)
				if err != nil {
					b.Fatal(err)
				}
				buf = batch.Bytes()
			}
			b.SetBytes(int64(builder.Size()))
		})
	}
}

func BenchmarkVerifyCRC(b *testing.B) {
	batch := build(b, BuilderOptions{}, benchRecords...)
	b.SetBytes(int64(batch.Size()))
	b.ReportAllocs()
	for b.Loop() {
		if err := batch.VerifyCRC(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, codec := range allCodecs {
		b.Run(codec.String(), func(b *testing.B) {
			batch := build(b, BuilderOptions{Codec: codec}, benchRecords...)
			b.ReportAllocs()
			for b.Loop() {
				if err := batch.Validate(Limits{MaxDecompressed: testLimit}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkIterate(b *testing.B) {
	for _, codec := range allCodecs {
		b.Run(codec.String(), func(b *testing.B) {
			batch := build(b, BuilderOptions{Codec: codec}, benchRecords...)
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for it := batch.Records(testLimit); it.Next(); n++ {
					if it.Record().Value == nil {
						b.Fatal("null value")
					}
				}
				if n != len(benchRecords) {
					b.Fatal(n)
				}
			}
		})
	}
}
