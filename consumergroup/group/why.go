package group

import (
	"fmt"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// maxWhy bounds the sentences of an explanation.
const maxWhy = 100

// why explains to an operator what the group waits for, one sentence each, the causes before the effects. An empty list is a group in which all
// is well.
func (g *Group) why(env Env) []string {
	w := &explanation{names: map[cluster.TopicID]string{}, env: env, group: g}
	if g.Type() == cluster.GroupClassic {
		w.classic()
		return w.bounded()
	}
	if len(g.state.Members) == 0 {
		return nil
	}
	w.topics()
	for i := range g.state.Members {
		w.member(&g.state.Members[i])
	}
	w.waiting()
	w.idle()
	return w.bounded()
}

// bounded returns what was said, at most maxWhy sentences and the number of the others.
func (w *explanation) bounded() []string {
	if more := len(w.lines) - maxWhy; more > 0 {
		w.lines = append(w.lines[:maxWhy], fmt.Sprintf("and %d more reasons", more))
	}
	return w.lines
}

type explanation struct {
	env   Env
	group *Group
	names map[cluster.TopicID]string
	lines []string
}

func (w *explanation) say(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

// topics names subscriptions to nothing.
func (w *explanation) topics() {
	missing := map[string]bool{}
	for i := range w.group.state.Members {
		m := &w.group.state.Members[i]
		for _, name := range m.Topics {
			if _, ok := w.env.Topics.TopicByName(name); !ok && !missing[name] {
				missing[name] = true
				w.say("topic %s does not exist; member %s subscribes to it", name, m.ID)
			}
		}
	}
}

// member says what holds one member up.
func (w *explanation) member(m *cluster.GroupMember) {
	s := w.group.session(m.ID)
	switch {
	case m.Epoch == EpochStaticLeave:
		w.say("static member %s (%s) is away; its %d partitions wait for it for %s more", m.ID, m.InstanceID, len(m.Assigned), w.left(s.ends))
	case len(m.Revoking) > 0:
		w.say("member %s must give up %s; it is removed if it does not within %s", m.ID, w.list(m.Revoking), w.left(s.releaseBy))
	case m.Epoch != w.group.state.Epoch:
		w.say("member %s is at epoch %d, the group at %d; it moves on with its next heartbeat, or is removed in %s",
			m.ID, m.Epoch, w.group.state.Epoch, w.left(s.ends))
	}
}

// waiting says who waits for whom.
func (w *explanation) waiting() {
	owners := ownership(w.group.state.Members)
	for i := range w.group.state.Members {
		m := &w.group.state.Members[i]
		for _, tp := range m.Target {
			switch holder := owners[tp]; holder {
			case m.ID:
			case "":
				w.say("%s is free and goes to member %s with its next heartbeat", w.name(tp), m.ID)
			default:
				w.say("member %s waits for %s, which member %s still has", m.ID, w.name(tp), holder)
			}
		}
	}
}

// idle names members that are not meant to have anything.
func (w *explanation) idle() {
	idle, partitions := 0, 0
	for i := range w.group.state.Members {
		partitions += len(w.group.state.Members[i].Target)
		if len(w.group.state.Members[i].Target) == 0 {
			idle++
		}
	}
	if idle > 0 {
		w.say("%d of %d members have nothing to read; partitions: %d", idle, len(w.group.state.Members), partitions)
	}
}

func (w *explanation) left(at time.Duration) time.Duration {
	return max(0, at-w.env.Now).Round(100 * time.Millisecond)
}

func (w *explanation) name(tp cluster.TopicPartition) string {
	name, ok := w.names[tp.Topic]
	if !ok {
		name = tp.Topic.String()
		if topic, found := w.env.Topics.Topic(tp.Topic); found {
			name = topic.Name
		}
		w.names[tp.Topic] = name
	}
	return fmt.Sprintf("%s-%d", name, tp.Partition)
}

// list names a few partitions and counts the rest.
func (w *explanation) list(set []cluster.TopicPartition) string {
	const few = 5
	out := ""
	for i, tp := range set[:min(few, len(set))] {
		if i > 0 {
			out += ", "
		}
		out += w.name(tp)
	}
	if more := len(set) - few; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
