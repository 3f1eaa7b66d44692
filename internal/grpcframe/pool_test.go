package grpcframe

import "testing"

func TestPool(t *testing.T) {
	p := new(Pool)
	for _, n := range []int{0, 1, 100, 2048, 4096, 4097, 5000, 5120, 5121, 8192, 53800, 65536, 65537, 517000, 1 << 20, 1<<24 - 1, 1 << 24, 1<<24 + 1} {
		b := p.Get(n)
		if len(*b) != n {
			t.Errorf("asked for %d, got %d", n, len(*b))
		}
		if n >= 4096 && n <= maxPooled && cap(*b) > n+n/4+1024 {
			t.Errorf("%d bytes lie in %d", n, cap(*b))
		}
		tier, size := tierOf(n)
		if tier >= 0 && (size < n || tier >= tierCount) {
			t.Errorf("%d bytes in tier %d of %d bytes", n, tier, size)
		}
		if again, _ := tierOf(cap(*b)); tier >= 0 && again != tier {
			t.Errorf("%d bytes come from tier %d and go to %d", n, tier, again)
		}
		p.Put(b)
	}
	odd := make([]byte, 5000)
	p.Put(&odd) // of nobody's tier: must not come back as a larger one
	for range 10 {
		if b := p.Get(5120); cap(*b) < 5120 {
			t.Fatal("a foreign buffer came back")
		}
	}
}

func TestPool_TiersRise(t *testing.T) {
	last, lastSize := -1, 0
	for n := minPooled / 2; n <= maxPooled; n += 512 {
		tier, size := tierOf(n)
		if tier < last || tier > last+1 || size < lastSize || size < n {
			t.Fatalf("%d bytes: tier %d of %d after %d of %d", n, tier, size, last, lastSize)
		}
		last, lastSize = tier, size
	}
	if last != tierCount-1 {
		t.Errorf("last tier is %d of %d", last, tierCount)
	}
}

// The vectors are those of Apache Kafka's own test of the function.
func TestMurmur2_IsJavas(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("%q hashes to %d, want %d", key, got, want)
		}
		if got, p := PartitionOf([]byte(key), 7), (want&0x7fffffff)%7; got != p {
			t.Errorf("%q goes to %d, want %d", key, got, p)
		}
	}
}
