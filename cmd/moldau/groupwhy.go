package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/moldau-log/moldau/client"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// whyShape is `moldau group why`.
type whyShape struct {
	Group   string   `json:"group"`
	State   string   `json:"state"`
	Epoch   int32    `json:"epoch"`
	Reasons []string `json:"reasons"`
}

func newGroupWhy(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "why GROUP",
		Short: "Explain the state of a group: who waits for whom, and which partitions nobody reads",
		Args:  cobra.ExactArgs(1),
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			groups, err := describeGroups(ctx, c, args)
			if err != nil {
				return err
			}
			s := explainGroup(groups[0], time.Now())
			v := view{fields: []field{{"group", s.Group}, {"state", s.State}, {"epoch", number(s.Epoch)}}, names: []string{s.Group}, value: s}
			for _, r := range s.Reasons {
				v.fields = append(v.fields, field{"why", r})
			}
			return a.show(v)
		}),
	}
}

// explainGroup puts a description into sentences, the most important first.
func explainGroup(g *moldauv1.GroupDescription, now time.Time) whyShape {
	s := whyShape{Group: g.GetGroup(), State: g.GetState(), Epoch: g.GetEpoch(), Reasons: []string{}}
	say := func(format string, args ...any) { s.Reasons = append(s.Reasons, fmt.Sprintf(format, args...)) }
	if len(g.GetMembers()) == 0 {
		say("no member has joined; committed offsets stay until they expire")
	}
	wanted := map[topicPartitionID][]string{} // who waits for a partition
	for _, m := range g.GetMembers() {
		for _, tp := range missing(m.GetTarget(), m.GetAssigned()) {
			wanted[tp] = append(wanted[tp], m.GetMemberId())
		}
	}
	for _, m := range g.GetMembers() {
		explainMember(g, m, wanted, say)
	}
	for _, o := range g.GetOffsets() {
		if lag := o.GetLag(); lag > 0 && o.GetMemberId() == "" {
			say("partition %d of %s: nobody reads it, %d records wait", o.GetPartition(), o.GetTopic(), lag)
		} else if lag > 0 && o.GetCommittedMs() > 0 {
			if idle := now.Sub(time.UnixMilli(o.GetCommittedMs())); idle > time.Minute {
				say("partition %d of %s: %d records wait and member %s has not committed for %v", o.GetPartition(), o.GetTopic(), lag, o.GetMemberId(), idle.Round(time.Second))
			}
		}
	}
	if len(s.Reasons) == 0 {
		say("every member has what the group wants it to have; one that is silent counts as a member until its session timeout is over")
	}
	return s
}

// explainMember says what a member has still to do.
func explainMember(g *moldauv1.GroupDescription, m *moldauv1.MemberDescription, wanted map[topicPartitionID][]string, say func(string, ...any)) {
	for _, tp := range partitionIDs(m.GetRevoking()) {
		say("member %s (%s at %s) must give up partition %d of %s%s", m.GetMemberId(), m.GetClientId(), m.GetClientHost(), tp.Partition, tp.Topic, waiting(wanted[tp]))
	}
	if m.GetMemberEpoch() < g.GetEpoch() && g.GetType() == moldauv1.GroupType_GROUP_TYPE_NATIVE {
		say("member %s (%s at %s) is at epoch %d, the group at %d: it has not confirmed its assignment", m.GetMemberId(), m.GetClientId(), m.GetClientHost(), m.GetMemberEpoch(), g.GetEpoch())
	}
	if len(m.GetAssigned()) == 0 && len(m.GetTarget()) == 0 {
		say("member %s (%s at %s) has no partition: there are not enough for all members, or its topics %v do not exist", m.GetMemberId(), m.GetClientId(), m.GetClientHost(), m.GetTopics())
	}
}

func waiting(members []string) string {
	if len(members) == 0 {
		return ""
	}
	return fmt.Sprintf("; member %s waits for it", members[0])
}

// missing lists what is in want and not in have.
func missing(want, have []*moldauv1.TopicPartition) []topicPartitionID {
	has := map[topicPartitionID]bool{}
	for _, tp := range partitionIDs(have) {
		has[tp] = true
	}
	var out []topicPartitionID
	for _, tp := range partitionIDs(want) {
		if !has[tp] {
			out = append(out, tp)
		}
	}
	return out
}
