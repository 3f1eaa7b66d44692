package consumergroup

import (
	"sync"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup/coordinator"
)

// watchers are the doors' streams that want to know when a member has news.
type watchers struct {
	sync.Mutex
	byMember map[coordinator.Watched]map[chan struct{}]struct{}
}

// Watch returns a channel that gets a value when a heartbeat of the member would tell it something new, when the member was removed, or when
// this broker stops coordinating the group: the caller then sends a heartbeat with Poll, and passes on what it gets. One value may stand for
// several changes, and may come without any. stop must be called.
func (c *Coordinator) Watch(group, member string) (wake <-chan struct{}, stop func()) {
	key := coordinator.Watched{Group: group, Member: member}
	ch := make(chan struct{}, 1)
	c.watchers.add(key, ch)
	return ch, func() { c.watchers.remove(key, ch) }
}

func (w *watchers) add(key coordinator.Watched, ch chan struct{}) {
	w.Lock()
	defer w.Unlock()
	if w.byMember == nil {
		w.byMember = map[coordinator.Watched]map[chan struct{}]struct{}{}
	}
	if w.byMember[key] == nil {
		w.byMember[key] = map[chan struct{}]struct{}{}
	}
	w.byMember[key][ch] = struct{}{}
}

func (w *watchers) remove(key coordinator.Watched, ch chan struct{}) {
	w.Lock()
	defer w.Unlock()
	delete(w.byMember[key], ch)
	if len(w.byMember[key]) == 0 {
		delete(w.byMember, key)
	}
}

// wake pokes the watchers of members, and all watchers of groups in shards that moved.
func (w *watchers) wake(members []coordinator.Watched, moved []cluster.ShardID) {
	if len(members) == 0 && len(moved) == 0 {
		return
	}
	var in [cluster.ShardCount]bool
	for _, id := range moved {
		in[id] = true
	}
	w.Lock()
	defer w.Unlock()
	for _, key := range members {
		for ch := range w.byMember[key] {
			poke(ch)
		}
	}
	if len(moved) == 0 {
		return
	}
	for key, chans := range w.byMember {
		if in[cluster.ShardOf(key.Group)] {
			for ch := range chans {
				poke(ch)
			}
		}
	}
}
