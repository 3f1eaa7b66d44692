package kafka_test

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/config"
)

// seal makes the checksum of a changed batch right.
func seal(batch []byte) {
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
}

// join joins a group of one member and takes the assignment.
func (b *broker) join(group, instance, member string) (id string, generation int32) {
	b.t.Helper()
	return b.joinWithin(group, instance, member, 30_000)
}

// joinWithin is join with a rebalance timeout in milliseconds.
func (b *broker) joinWithin(group, instance, member string, rebalance int32) (id string, generation int32) {
	b.t.Helper()
	for range 2 {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = group, member, "consumer", 30_000, rebalance
		if instance != "" {
			req.InstanceID = &instance
		}
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name, protocol.Metadata = "range", []byte{0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}
		req.Protocols = append(req.Protocols, protocol)
		resp := ask[*kmsg.JoinGroupResponse](b, req)
		member = resp.MemberID
		if err := kerr.ErrorForCode(resp.ErrorCode); err == kerr.MemberIDRequired {
			continue
		} else if err != nil {
			b.t.Fatalf("join %s: %v", group, err)
		}
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Group, sync.MemberID, sync.Generation, sync.InstanceID, sync.ProtocolType, sync.Protocol = group, member, resp.Generation, req.InstanceID, resp.ProtocolType, resp.Protocol
		if resp.LeaderID == member {
			mine := kmsg.NewSyncGroupRequestGroupAssignment()
			mine.MemberID, mine.MemberAssignment = member, []byte{1}
			sync.GroupAssignment = append(sync.GroupAssignment, mine)
		}
		if err := kerr.ErrorForCode(ask[*kmsg.SyncGroupResponse](b, sync).ErrorCode); err != nil {
			b.t.Fatalf("sync %s: %v", group, err)
		}
		return member, resp.Generation
	}
	b.t.Fatalf("%s keeps asking for a member id", group)
	return "", 0
}

func (b *broker) commit(group, instance, member string, generation int32, offset int64) error {
	b.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	if instance != "" {
		req.InstanceID = &instance
	}
	topic, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	topic.Topic, topic.TopicID, p.Offset = "t", b.topic, offset
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	return kerr.ErrorForCode(ask[*kmsg.OffsetCommitResponse](b, req).Topics[0].Partitions[0].ErrorCode)
}

// TestCommit_MarksBelowZeroAreKept: kafkajs commits -2 or -1 when its offset is out of range, and looks up where to begin when it finds that again.
func TestCommit_MarksBelowZeroAreKept(t *testing.T) {
	b := start(t)
	quick(b)
	member, generation := b.join("g", "", "")
	for _, mark := range []int64{-2, -1, -7, 4} {
		for _, as := range []struct {
			group, member string
			generation    int32
		}{{"g", member, generation}, {"nobody", "", -1}} {
			if err := b.commit(as.group, "", as.member, as.generation, mark); err != nil {
				t.Errorf("commit of %d to %s: %v", mark, as.group, err)
			}
			req := kmsg.NewPtrOffsetFetchRequest()
			g, topic := kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic()
			g.Group, topic.Topic, topic.TopicID, topic.Partitions = as.group, "t", b.topic, []int32{0}
			g.Topics = append(g.Topics, topic)
			req.Groups = append(req.Groups, g)
			if got := ask[*kmsg.OffsetFetchResponse](b, req).Groups[0].Topics[0].Partitions[0]; got.ErrorCode != 0 || got.Offset != mark {
				t.Errorf("%s committed %d and finds %d, error %d", as.group, mark, got.Offset, got.ErrorCode)
			}
		}
	}
}

func (b *broker) wantCommitted(group string, want int64) {
	b.t.Helper()
	offsets, err := b.admin.FetchOffsets(b.ctx, group)
	if err != nil {
		b.t.Fatal(err)
	}
	if o, ok := offsets.Lookup("t", 0); ok != (want >= 0) || (ok && o.At != want) {
		b.t.Errorf("group %s has committed %d (%v), want %d", group, o.At, ok, want)
	}
}

// quick lets groups settle at once.
func quick(b *broker) {
	b.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res, c := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	res.ResourceType, c.Name, c.Value = kmsg.ConfigResourceTypeBroker, "group.initial.rebalance.delay.ms", kmsg.StringPtr("0")
	res.Configs = append(res.Configs, c)
	req.Resources = append(req.Resources, res)
	if err := kerr.ErrorForCode(ask[*kmsg.IncrementalAlterConfigsResponse](b, req).Resources[0].ErrorCode); err != nil {
		b.t.Fatal(err)
	}
}

// TestCommit_OffsetsGoWithTheirTopic: what was committed for a topic is no offset of another one that gets its name, and who still commits for the old one by its id is refused.
func TestCommit_OffsetsGoWithTheirTopic(t *testing.T) {
	b := start(t)
	committed := func() int64 {
		t.Helper()
		got, err := b.admin.FetchOffsetsForTopics(b.ctx, "g", "t")
		if err != nil {
			t.Fatal(err)
		}
		o, ok := got.Lookup("t", 0)
		if !ok || o.Err != nil {
			t.Fatalf("offsets %+v", got)
		}
		return o.At
	}
	if err := b.commit("g", "", "", -1, 5); err != nil {
		t.Fatal(err)
	}
	if at := committed(); at != 5 {
		t.Fatalf("committed %d, want 5", at)
	}
	if _, err := b.admin.DeleteTopic(b.ctx, "t"); err != nil {
		t.Fatal(err)
	}
	made, err := b.admin.CreateTopic(b.ctx, 1, 1, nil, "t")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.commit("g", "", "", -1, 6); err != kerr.UnknownTopicID {
		t.Errorf("a commit for the old topic: %v", err)
	}
	if at := committed(); at != -1 {
		t.Errorf("the new topic has the offset %d", at)
	}
	b.topic = made.ID
	if err := b.commit("g", "", "", -1, 2); err != nil {
		t.Fatal(err)
	}
	if at := committed(); at != 2 {
		t.Errorf("committed %d, want 2", at)
	}
}

func TestCase79_CommitsOfStrangersChangeNothing(t *testing.T) {
	b := start(t)
	quick(b)
	member, generation := b.join("g", "", "")
	if err := b.commit("g", "", member, generation, 5); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		member     string
		generation int32
		want       error
	}{
		"old generation":   {member, generation - 1, kerr.IllegalGeneration},
		"later generation": {member, generation + 1, kerr.IllegalGeneration},
		"stranger":         {"who", generation, kerr.UnknownMemberID},
		"nobody":           {"", -1, kerr.UnknownMemberID},
	} {
		if err := b.commit("g", "", x.member, x.generation, 99); err != x.want {
			t.Errorf("%s: %v, want %v", name, err, x.want)
		}
	}
	b.wantCommitted("g", 5)
}

// A commit whose answer came too late is sent again after a newer one. When the member has joined anew meanwhile, its generation tells, and the newer one stays.
// Within one generation the coordinator keeps the order in which commits reach it: consumergroup/coordinator has that half of the case.
func TestCase89_ALateRetryOfAnEarlierGenerationIsRefused(t *testing.T) {
	b := start(t)
	quick(b)
	member, generation := b.join("g", "", "")
	for _, offset := range []int64{5, 7} {
		if err := b.commit("g", "", member, generation, offset); err != nil {
			t.Fatal(err)
		}
	}
	again, next := b.join("g", "", member) // the member joins again, and the late retry carries its old generation
	if again != member || next != generation+1 {
		t.Fatalf("joined as %s in %d", again, next)
	}
	if err := b.commit("g", "", member, generation, 5); err != kerr.IllegalGeneration {
		t.Errorf("late retry: %v", err)
	}
	b.wantCommitted("g", 7)
}

func TestCase90_GroupsWithMembersStayAndOffsetsGoWithTheirTopic(t *testing.T) {
	b := start(t)
	quick(b)
	member, generation := b.join("g", "", "")
	if err := b.commit("g", "", member, generation, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := b.admin.DeleteGroup(b.ctx, "g"); err != kerr.NonEmptyGroup {
		t.Errorf("delete of a group with a member: %v", err)
	}
	b.wantCommitted("g", 5)
	if _, err := b.admin.DeleteTopic(b.ctx, "t"); err != nil {
		t.Fatal(err)
	}
	b.wantCommitted("g", -1)
	made, err := b.admin.CreateTopic(b.ctx, 1, 1, nil, "t")
	if err != nil {
		t.Fatal(err)
	}
	b.topic = made.ID
	b.wantCommitted("g", -1)
	if err := b.leave("g", member); err != nil {
		t.Fatal(err)
	}
	if _, err := b.admin.DeleteGroup(b.ctx, "g"); err != nil {
		t.Errorf("delete of an empty group: %v", err)
	}
}

func TestCase91_TheOlderOfTwoWithOneInstanceIDIsFenced(t *testing.T) {
	b := start(t)
	quick(b)
	older, generation := b.join("g", "i1", "")
	newer, next := b.join("g", "i1", "")
	if older == newer {
		t.Fatalf("both are %s", older)
	}
	if err := b.commit("g", "i1", older, generation, 5); err != kerr.FencedInstanceID {
		t.Errorf("commit of the older: %v", err)
	}
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.Generation, beat.InstanceID = "g", older, generation, kmsg.StringPtr("i1")
	if err := kerr.ErrorForCode(ask[*kmsg.HeartbeatResponse](b, beat).ErrorCode); err != kerr.FencedInstanceID {
		t.Errorf("heartbeat of the older: %v", err)
	}
	if err := b.commit("g", "i1", newer, next, 6); err != nil {
		t.Errorf("commit of the newer: %v", err)
	}
	b.wantCommitted("g", 6)
}

// A broker with two more listeners: one advertises the address that it is reached by, the other a name of its own.
func TestListeners_EachTellsItsOwnAddress(t *testing.T) {
	b := start(t, func(c *config.Config) {
		c.Listeners = []string{"INSIDE://127.0.0.1:0", "outside://127.0.0.1:0"}
		c.AdvertisedListeners = []string{"outside://broker.example:443"}
	})
	for name, want := range map[string]string{"inside": b.at.Listeners["inside"], "outside": "broker.example:443"} {
		c, err := kgo.NewClient(kgo.SeedBrokers(b.at.Listeners[name]))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := kmsg.NewPtrMetadataRequest().RequestWith(b.ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		if got := hostPort(resp.Brokers[0].Host, resp.Brokers[0].Port); got != want {
			t.Errorf("%s tells %s, want %s", name, got, want)
		}
		c.Close()
	}
}

func hostPort(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

func (b *broker) leave(group, member string) error {
	b.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = member
	req.Group, req.Members = group, append(req.Members, m)
	return kerr.ErrorForCode(ask[*kmsg.LeaveGroupResponse](b, req).Members[0].ErrorCode)
}

// TestJoin_ARebalanceTimeoutThatIsNone is taken, as Apache Kafka takes it, and the member keeps its place in the group.
func TestJoin_ARebalanceTimeoutThatIsNone(t *testing.T) {
	b := start(t)
	quick(b)
	for _, millis := range []int32{-5, 0, -1 << 31} {
		group := "g" + strconv.Itoa(int(millis))
		member, generation := b.joinWithin(group, "", "", millis)
		if err := b.commit(group, "", member, generation, 1); err != nil {
			t.Errorf("a rebalance timeout of %d ms: the member's commit: %v", millis, err)
		}
	}
}
