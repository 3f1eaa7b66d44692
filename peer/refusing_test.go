package peer

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
)

func TestRefusingDetector(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	now := time.Unix(100, 0)
	r := newRefusing(func() time.Time { return now })
	for i, step := range []struct {
		after time.Duration
		err   error
		want  []cluster.BrokerID
	}{
		{0, refused, nil},
		{99 * time.Millisecond, refused, nil},
		{time.Millisecond, errors.New("timeout"), nil}, // no proof of a dead process
		{0, refused, []cluster.BrokerID{4}},
		{time.Second, refused, nil}, // reported once
		{time.Second, nil, nil},     // it answers
		{time.Second, refused, nil}, // a new outage begins
		{100 * time.Millisecond, refused, []cluster.BrokerID{4}},
	} {
		now = now.Add(step.after)
		r.dialled(4, step.err)
		if got := r.take(); !slices.Equal(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

func TestRefusedDialsAreReported(t *testing.T) {
	a, b := start(t, identity(0, clusterA)), start(t, identity(1, clusterA))
	to := b.endpoint()
	b.Close()
	eventually(t, "the dead broker is reported", func() bool {
		a.Call(withTimeout(t), to, controller.ProbeRequest{})
		return slices.Equal(a.Refusing(), []cluster.BrokerID{1})
	})
}

func TestBrokerOfServerID(t *testing.T) {
	for server, want := range map[string]cluster.BrokerID{
		ServerID(12, directory(1, 2)): 12, "0-x": 0, "": -1, "-1-x": -1, "x-1": -1, "12": -1, "99999999999-x": -1,
	} {
		got, ok := brokerOf(server)
		if got != want || ok != (want >= 0) {
			t.Errorf("%q: %d, %v", server, got, ok)
		}
	}
}
