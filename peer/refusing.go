package peer

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// refusalGap is how far apart two refused connections must be before a process counts as dead. One alone may be a restart of the listener.
const refusalGap = 100 * time.Millisecond

// maxRefusing bounds the brokers that the detector remembers; beyond it new ones are not noticed until others answer.
const maxRefusing = 4096

// refusing finds brokers whose port refuses connections: the host lives, the process does not, so nobody needs to wait for a session to end.
type refusing struct {
	now func() time.Time

	mu      sync.Mutex // guards outages
	outages map[cluster.BrokerID]*outage
}

// outage is a broker that has refused since it last answered.
type outage struct {
	first time.Time // first refusal
	dead  bool      // refused again, at least refusalGap later
	taken bool      // has been reported
}

func newRefusing(now func() time.Time) *refusing {
	return &refusing{now: now, outages: make(map[cluster.BrokerID]*outage)}
}

// dialled takes the outcome of a connection attempt. Only a refusal counts: a timeout may be the network's fault.
func (r *refusing) dialled(to cluster.BrokerID, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.outages, to)
		return
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return
	}
	o := r.outages[to]
	if o == nil {
		if len(r.outages) < maxRefusing {
			r.outages[to] = &outage{first: r.now()}
		}
		return
	}
	if r.now().Sub(o.first) >= refusalGap {
		o.dead = true
	}
}

// take returns the dead ones that have not been returned before, in order.
func (r *refusing) take() []cluster.BrokerID {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []cluster.BrokerID
	for id, o := range r.outages {
		if o.dead && !o.taken {
			o.taken = true
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}
