package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/moldau-log/moldau/test/soak/rig"
)

// link is one direction.
type link struct{ from, to int }

func (n *nemesis) set(links []link, through bool) error {
	var errs []error
	for _, l := range links {
		errs = append(errs, n.cluster.net.Set(l.from, l.to, through))
	}
	return errors.Join(errs...)
}

// cut cuts links until the end of the fault.
func (n *nemesis) cut(f *fault, links []link) error {
	f.end = func() error { return n.set(links, true) }
	return n.set(links, false)
}

// others are the brokers but one.
func (n *nemesis) others(broker int) []int {
	var out []int
	for _, b := range n.cluster.nodes {
		if b.ID != broker {
			out = append(out, b.ID)
		}
	}
	return out
}

func bothWays(a int, others ...int) []link {
	var out []link
	for _, b := range others {
		out = append(out, link{a, b}, link{b, a})
	}
	return out
}

// partitionFull cuts a broker off from the others; of five, sometimes two together. Clients reach it or not.
func partitionFull(_ context.Context, n *nemesis, f *fault) error {
	side := map[int]bool{f.Targets[0]: true}
	if n.brokers >= 5 && f.Draw&2 == 0 {
		side[n.others(f.Targets[0])[f.Draw>>8%uint64(n.brokers-1)]] = true
	}
	var links []link
	for b := range n.brokers {
		if !side[b] {
			continue
		}
		for _, other := range n.others(b) {
			if !side[other] {
				links = append(links, bothWays(b, other)...)
			}
		}
		if f.Draw&4 == 0 {
			f.detail = "from clients too"
			links = append(links, bothWays(b, rig.Host)...)
		}
	}
	return n.cut(f, links)
}

// partitionOneWay loses what a broker sends to the others, or what they send to it.
func partitionOneWay(_ context.Context, n *nemesis, f *fault) error {
	var links []link
	f.detail = "sends in vain"
	for _, other := range n.others(f.Targets[0]) {
		l := link{f.Targets[0], other}
		if f.Draw%2 == 0 {
			l = link{other, f.Targets[0]}
			f.detail = "hears nothing"
		}
		links = append(links, l)
	}
	return n.cut(f, links)
}

// partitionPartial cuts the link between two brokers, which both reach all others; sometimes in one direction only.
func partitionPartial(_ context.Context, n *nemesis, f *fault) error {
	links := bothWays(f.Targets[0], f.Targets[1])
	if f.Draw%3 == 0 {
		links = links[:1]
		f.detail = "one way"
	}
	return n.cut(f, links)
}

// partitionClients cuts a broker off from the clients, in both directions or one.
func partitionClients(_ context.Context, n *nemesis, f *fault) error {
	links := bothWays(f.Targets[0], rig.Host)
	switch f.Draw % 4 {
	case 0:
		links, f.detail = links[:1], "its answers are lost"
	case 1:
		links, f.detail = links[1:], "requests are lost"
	}
	return n.cut(f, links)
}

// lossyLink cuts and mends a broker's links again and again, each for a moment: packets are lost and come again.
func lossyLink(ctx context.Context, n *nemesis, f *fault) error {
	links := bothWays(f.Targets[0], n.others(f.Targets[0])...)
	random := rand.New(rand.NewPCG(f.Draw, 0))
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() {
		var errs []error
		for through := false; ctx.Err() == nil; through = !through {
			l := links[random.IntN(len(links))]
			errs = append(errs, n.set([]link{l}, through))
			pause(ctx, time.Duration(10+random.IntN(200))*time.Millisecond)
		}
		ended <- errors.Join(errs...)
	}()
	f.end = func() error {
		cancel()
		return errors.Join(<-ended, n.set(links, true))
	}
	return nil
}

// slowNetwork gives a broker a slow line.
func slowNetwork(_ context.Context, n *nemesis, f *fault) error {
	kbit, latency := 200+int(f.Draw%2000), 50+int(f.Draw>>16%400)
	f.detail = fmt.Sprintf("%d kbit/s", kbit)
	f.end = func() error { return n.cluster.net.Slow(f.Targets[0], 0, 0) }
	return n.cluster.net.Slow(f.Targets[0], kbit, latency)
}
