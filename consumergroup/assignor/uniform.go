package assignor

import "slices"

// assignEven is the common case: all members subscribe to the same topics. Everybody gets total/members, and total%members of them one more.
// The ones that have more than the share keep the extra one, so that the fewest partitions move: exactly what is above somebody's quota.
func (p *plan) assignEven() {
	total := 0
	for t, subscribers := range p.subscribers {
		if len(subscribers) > 0 {
			total += len(p.owner[t])
		}
	}
	share, extra := total/len(p.members), total%len(p.members)
	quota := p.quotas(share, extra)

	// From the end, so that members keep the lowest numbers: that is what people expect to see.
	var free [][2]int
	for t, subscribers := range slices.Backward(p.subscribers) {
		if len(subscribers) == 0 {
			continue
		}
		for partition, m := range slices.Backward(p.owner[t]) {
			if m != nobody && p.load[m] <= quota[m] {
				continue
			}
			if m != nobody {
				p.load[m]--
				p.owner[t][partition] = nobody
			}
			free = append(free, [2]int{t, partition})
		}
	}
	slices.Reverse(free)
	// Dealing one at a time spreads each topic over the members, which dealing by the handful would not.
	m := 0
	for _, f := range free {
		for p.load[m] >= quota[m] {
			m = (m + 1) % len(p.members)
		}
		p.give(f[0], f[1], m)
		m = (m + 1) % len(p.members)
	}
}

// quotas says how many partitions each member may have. The extra ones go first to members that have more than the share now.
func (p *plan) quotas(share, extra int) []int {
	quota := make([]int, len(p.members))
	for m := range quota {
		quota[m] = share
		if extra > 0 && p.load[m] > share {
			quota[m]++
			extra--
		}
	}
	for m := range quota {
		if extra > 0 && quota[m] == share {
			quota[m]++
			extra--
		}
	}
	return quota
}

// assignMixed serves members with different subscriptions: free partitions go to the least loaded subscriber, then partitions move, one at a
// time, from a member to one that has at least two fewer. Each move lowers the sum of squared loads, so it ends; then no two members that
// could exchange a partition differ by more than one.
func (p *plan) assignMixed() {
	for t, owners := range p.owner {
		if len(p.subscribers[t]) == 0 {
			continue
		}
		for partition, m := range owners {
			if m == nobody {
				p.give(t, partition, p.leastLoaded(t))
			}
		}
	}
	for p.balanceOnce() {
	}
}

// balanceOnce goes once over all partitions and moves those whose topic has a subscriber with at least two fewer than the owner.
func (p *plan) balanceOnce() (moved bool) {
	for t, owners := range p.owner {
		if len(p.subscribers[t]) < 2 {
			continue
		}
		least := p.leastLoaded(t)
		for partition, m := range owners {
			if p.load[m] > p.load[least]+1 {
				p.give(t, partition, least)
				least = p.leastLoaded(t)
				moved = true
			}
		}
	}
	return moved
}

// leastLoaded returns the first subscriber of the topic with the fewest partitions.
func (p *plan) leastLoaded(t int) int {
	least := p.subscribers[t][0]
	for _, m := range p.subscribers[t] {
		if p.load[m] < p.load[least] {
			least = m
		}
	}
	return least
}
