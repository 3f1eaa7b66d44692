package main

import (
	"os"
	"strconv"
	"testing"

	"github.com/moldau-log/moldau/config"
	"github.com/moldau-log/moldau/moldautest"
)

// TestColdDrain reads what it has taken out of the page cache.
func TestColdDrain(t *testing.T) {
	var data string
	b := moldautest.Start(t, func(c *config.Config) { data = c.Data })
	bench(t, b.GRPC, "produce", "--count", "20000", "--size", "500")
	r := bench(t, b.GRPC, "consume", "--cold", "--broker-data", data, "--broker-pids", strconv.Itoa(os.Getpid()))
	if r.Consume.Records != 20000 || r.Cold == nil || r.Cold.Files < 6 || r.Cold.Bytes < 20000*500 {
		t.Errorf("%+v %+v", r.Consume, r.Cold)
	}
}
