package server

import (
	"testing"

	"github.com/moldau-log/moldau/cluster"
)

// open begins a run on a data directory, and ends the one before as a kill would.
func open(t *testing.T, before *directory, path string, run byte) *directory {
	t.Helper()
	if before != nil {
		if err := before.close(); err != nil {
			t.Fatal(err)
		}
	}
	d, err := openDirectory(path, 1, cluster.IncarnationID{run})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.close() })
	return d
}

// A directory that was put back from an old copy says so at every start until one is registered: the first may be killed before it has told the controller.
func TestTheCleanStopIsToldUntilARunIsRegistered(t *testing.T) {
	path := t.TempDir()
	d := open(t, nil, path, 1)
	if d.previous.BrokerEpoch != cluster.NoBrokerEpoch {
		t.Fatalf("a new directory tells of epoch %d", d.previous.BrokerEpoch)
	}
	if err := d.writeCleanStop(7); err != nil {
		t.Fatal(err)
	}
	for run := byte(2); run < 5; run++ {
		d = open(t, d, path, run)
		if d.previous.BrokerEpoch != 7 || len(d.previous.Starts) != int(run)-2 {
			t.Fatalf("run %d: %+v", run, d.previous)
		}
		for i, was := range d.previous.Starts {
			if was != (cluster.IncarnationID{byte(i) + 2}) {
				t.Errorf("run %d: start %d was %s", run, i, was)
			}
		}
		if err := d.writeCleanStop(cluster.NoBrokerEpoch); err != nil { // stopped in order, and never registered
			t.Fatal(err)
		}
	}
	if err := d.dropCleanStop(); err != nil { // registered
		t.Fatal(err)
	}
	if d = open(t, d, path, 6); d.previous.BrokerEpoch != cluster.NoBrokerEpoch {
		t.Fatalf("after an unclean stop: %+v", d.previous)
	}
	if err := d.dropCleanStop(); err != nil {
		t.Fatalf("without a marker: %v", err)
	}
}

// The runs that a marker names are bounded.
func TestACleanStopNamesTheNewestStarts(t *testing.T) {
	path := t.TempDir()
	d := open(t, nil, path, 1)
	if err := d.writeCleanStop(7); err != nil {
		t.Fatal(err)
	}
	for run := range byte(maxStarts + 3) {
		d = open(t, d, path, run+2)
	}
	d = open(t, d, path, 99)
	if n, newest := len(d.previous.Starts), d.previous.Starts[len(d.previous.Starts)-1]; n != maxStarts || newest != (cluster.IncarnationID{maxStarts + 4}) {
		t.Fatalf("%d starts, the newest is %s", n, newest)
	}
}
