package assignor

// assignRange cuts each topic into runs, one per subscriber, in the order of members; the first ones get one more where it does not divide.
func (p *plan) assignRange() {
	for t, subscribers := range p.subscribers {
		n := len(subscribers)
		if n == 0 {
			continue
		}
		partitions := len(p.owner[t])
		next := 0
		for i, m := range subscribers {
			size := partitions / n
			if i < partitions%n {
				size++
			}
			for range size {
				p.give(t, next, m)
				next++
			}
		}
	}
}
