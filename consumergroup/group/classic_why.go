package group

// classic explains what a classic group waits for.
func (w *explanation) classic() {
	g := w.group
	c := g.classic
	switch g.classicState() {
	case StatePreparing:
		w.say("the next generation begins when all members have joined, or in %s", w.left(c.joinBy))
		if len(c.pending) > 0 {
			w.say("%d members were given an id and have not joined with it", len(c.pending))
		}
		for _, p := range c.roster {
			if !p.joined {
				w.say("member %s has not joined again", p.m.ID)
			}
		}
	case StateCompleting:
		w.say("generation %d waits for the assignment by its leader %s", g.state.Epoch, g.state.Leader)
		fallthrough
	case StateStable:
		for _, p := range c.roster {
			if p.toSync {
				w.say("member %s has not asked for its assignment; it is removed if it does not within %s", p.m.ID, w.left(c.syncBy))
			}
		}
	}
}
