package group

import (
	"fmt"
	"time"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/internal/planted"
	"github.com/moldau-log/moldau/record"
)

// maxExpired bounds the records of one look for expired offsets; the next look finds the rest.
const maxExpired = 4096

// offsetBytes is about what a committed offset takes in the log, without its strings.
const offsetBytes = 72

// commit stores offsets for a member of the present epoch, or for nobody while the group is empty.
func (g *Group) commit(env Env, c Commit) Output {
	if err := cluster.ParseGroupID(g.name); err != nil {
		return refuse(cluster.CodeInvalidGroup, err.Error())
	}
	if c.Epoch < 0 && (c.MemberID == "" || !g.occupied()) { // for nobody, whatever the name: Kafka takes it while there are no members
		if g.occupied() {
			return refuse(cluster.CodeUnknownMember, "group "+g.name+" has members: only they may commit")
		}
	} else if g.Type() == cluster.GroupClassic {
		if out := g.classicCommit(env, c); out.Reply.Code != cluster.CodeNone {
			return out
		}
	} else if out := g.checkEpoch(c.MemberID, c.InstanceID, c.Epoch); out.Reply.Code != cluster.CodeNone {
		return out
	}
	return g.store(env, c.Offsets, stored{marks: g.Type() == cluster.GroupClassic || c.Epoch < 0, number: c.number()})
}

// number is what orders this commit among those of its member; nothing does for one without a member or a number.
func (c Commit) number() cluster.CommitNumber {
	if c.MemberID == "" || c.Epoch < 0 || c.Sequence <= 0 {
		return cluster.CommitNumber{}
	}
	return cluster.CommitNumber{Committer: cluster.CommitterOf(c.MemberID, c.Epoch), Sequence: c.Sequence}
}

// checkEpoch says whether a member may act for the group now.
func (g *Group) checkEpoch(id, instanceID string, epoch int32) Output {
	if out := g.checkMember(id, instanceID); out.Reply.Code != cluster.CodeNone {
		return out
	}
	if m := g.member(id); (m.Epoch != epoch || epoch < 0) && !planted.On(planted.OldGenerationCommits) {
		return refuse(cluster.CodeFencedMemberEpoch, fmt.Sprintf("member %s is at epoch %d of group %s, not %d", id, m.Epoch, g.name, epoch))
	}
	return Output{}
}

// stored is how offsets are to be stored.
type stored struct {
	// marks lets numbers below 0 be stored too: Kafka does, and kafkajs commits -1 and -2 for "begin at the end" and "begin at the start" and looks for them later.
	marks  bool
	number cluster.CommitNumber
}

// store makes the records of checked offsets. Each partition is accepted or refused alone.
func (g *Group) store(env Env, offsets []CommitOffset, as stored) Output {
	size := 0
	for _, o := range offsets {
		size += offsetBytes + len(g.name) + min(len(o.Metadata), g.config.MaxOffsetMetadata)
	}
	if size > g.config.MaxStateBytes {
		return refuse(cluster.CodeTooLarge,
			fmt.Sprintf("a commit of %d bytes, at most %d are allowed; commit fewer partitions at a time", size, g.config.MaxStateBytes))
	}
	out := Output{Reply: Reply{Codes: make([]cluster.Code, len(offsets))}}
	for i, o := range offsets {
		topic, ok := env.Topics.Topic(o.Partition.Topic)
		switch {
		case !ok || o.Partition.Partition < 0 || o.Partition.Partition >= topic.Partitions:
			out.Reply.Codes[i] = cluster.CodeUnknownTopic
		case o.Offset < 0 && !as.marks:
			out.Reply.Codes[i] = cluster.CodeInvalidRequest
		case len(o.Metadata) > g.config.MaxOffsetMetadata:
			out.Reply.Codes[i] = cluster.CodeOffsetMetadataTooLarge
		case g.superseded(o.Partition, as.number):
			out.Reply.Codes[i] = cluster.CodeOutOfOrderSequence
		default:
			out.Records = append(out.Records, cluster.OffsetCommitted{Group: g.name, Partition: o.Partition, Committed: cluster.CommittedOffset{
				Offset: record.Offset(o.Offset), LeaderEpoch: record.LeaderEpoch(o.LeaderEpoch), Metadata: o.Metadata, CommittedMs: env.NowMs,
				Number: as.number,
			}})
		}
	}
	return out
}

// superseded says whether a later commit of the same member and epoch is stored for a partition. The earlier one's client has given it up: it was on the way all the while.
// The number stored is enough to know: another member's commits, or another epoch's, are kept off by the epoch.
func (g *Group) superseded(tp cluster.TopicPartition, number cluster.CommitNumber) bool {
	have, ok := g.offsets.get(tp)
	return ok && number.Before(have.Number)
}

// reset overwrites offsets for an operator.
func (g *Group) reset(env Env, r Reset) Output {
	if err := cluster.ParseGroupID(g.name); err != nil {
		return refuse(cluster.CodeInvalidGroup, err.Error())
	}
	if n := g.Members(); n > 0 {
		return refuse(cluster.CodeGroupNotEmpty, fmt.Sprintf("group %s has %d members; stop them before resetting its offsets", g.name, n))
	}
	return g.store(env, r.Offsets, stored{})
}

// fetch reads committed offsets. A group that does not exist has none.
func (g *Group) fetch(f FetchOffsets) Output {
	if f.MemberID != "" && f.Epoch >= 0 && g.Type() != cluster.GroupClassic { // Kafka checks no generation here
		if out := g.checkEpoch(f.MemberID, "", f.Epoch); out.Reply.Code != cluster.CodeNone {
			return out
		}
	}
	if f.Partitions == nil {
		return Output{Reply: Reply{Offsets: g.allOffsets()}}
	}
	out := make([]FetchedOffset, len(f.Partitions))
	for i, tp := range f.Partitions {
		committed, ok := g.offsets.get(tp)
		out[i] = FetchedOffset{Partition: tp, Found: ok, Committed: committed}
	}
	return Output{Reply: Reply{Offsets: out}}
}

// allOffsets returns everything committed, by partition.
func (g *Group) allOffsets() []FetchedOffset {
	keys := g.offsets.keys()
	out := make([]FetchedOffset, 0, len(keys))
	for _, tp := range keys {
		committed, _ := g.offsets.get(tp)
		out = append(out, FetchedOffset{Partition: tp, Found: true, Committed: committed})
	}
	return out
}

// delete removes the group.
func (g *Group) delete() Output {
	switch n := g.Members(); {
	case n > 0 && !planted.On(planted.OccupiedGroupDeleted):
		return refuse(cluster.CodeGroupNotEmpty, fmt.Sprintf("group %s has %d members; stop them before deleting it", g.name, n))
	case !g.exists():
		return refuse(cluster.CodeUnknownGroup, "there is no group "+g.name)
	}
	return Output{Records: []cluster.GroupRecord{cluster.GroupDeleted{Group: g.name}}}
}

// deleteOffsets removes offsets of topics that nobody in the group subscribes to.
func (g *Group) deleteOffsets(env Env, d DeleteOffsets) Output {
	if !g.exists() {
		return refuse(cluster.CodeUnknownGroup, "there is no group "+g.name)
	}
	wanted := g.wanted(env)
	out := Output{Reply: Reply{Codes: make([]cluster.Code, len(d.Partitions))}}
	for i, tp := range d.Partitions {
		if wanted(tp.Topic) {
			out.Reply.Codes[i] = cluster.CodeSubscribed
		} else if _, ok := g.offsets.get(tp); ok {
			out.Records = append(out.Records, cluster.OffsetDeleted{Group: g.name, Partition: tp})
		}
	}
	return out
}

// wanted tells the topics that somebody in the group is meant to read, or still reads. Where that cannot be known, which is when a classic
// member has not been in a generation yet or its metadata are opaque, all are.
func (g *Group) wanted(env Env) func(cluster.TopicID) bool {
	out := map[cluster.TopicID]bool{}
	isClassic := g.Type() == cluster.GroupClassic
	opaque := len(g.classic.roster) > len(g.state.Members)
	for i := range g.state.Members {
		m := &g.state.Members[i]
		opaque = opaque || isClassic && len(m.Topics) == 0
		for _, name := range m.Topics {
			if topic, ok := env.Topics.TopicByName(name); isClassic && ok {
				out[topic.ID] = true
			}
		}
		for _, set := range [][]cluster.TopicPartition{m.Target, m.Assigned, m.Revoking} {
			for _, tp := range set {
				out[tp.Topic] = true
			}
		}
	}
	return func(id cluster.TopicID) bool { return opaque || out[id] }
}

// expire removes offsets that nobody has used for the retention time. In a group with members only those of topics that none of them reads
// can expire; in an empty one the time counts from when it became empty, or from the commit if that is later (KIP-211). A group with nothing
// left goes.
func (g *Group) expire(env Env, x Expire) Output {
	before := env.NowMs - int64(x.Retention/time.Millisecond)
	empty := !g.occupied()
	if !g.exists() || empty && g.state.EmptySinceMs > before {
		return Output{}
	}
	wanted := g.wanted(env)
	var expired []cluster.GroupRecord
	keys := g.offsets.keys()
	for _, tp := range keys {
		if committed, _ := g.offsets.get(tp); committed.CommittedMs <= before && (!wanted(tp.Topic) || planted.On(planted.LiveOffsetsExpire)) {
			expired = append(expired, cluster.OffsetDeleted{Group: g.name, Partition: tp})
		}
	}
	if empty && len(expired) == len(keys) {
		return Output{Records: []cluster.GroupRecord{cluster.GroupDeleted{Group: g.name}}, Expired: len(expired)}
	}
	expired = expired[:min(len(expired), maxExpired)]
	return Output{Records: expired, Expired: len(expired)}
}
