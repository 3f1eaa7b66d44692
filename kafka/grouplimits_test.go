package kafka_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// set changes a configuration of all brokers.
func (b *broker) set(key, value string) {
	b.t.Helper()
	out, err := b.admin.AlterBrokerConfigs(b.ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}})
	if err != nil || out[0].Err != nil {
		b.t.Fatalf("set %s: %v, %v", key, err, out)
	}
}

// joinOnce sends one JoinGroup with no member id.
func (b *broker) joinOnce(group string, sessionMs int32) error {
	b.t.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = group, "consumer", sessionMs, 1000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name = "range"
	req.Protocols = append(req.Protocols, protocol)
	return kerr.ErrorForCode(ask[*kmsg.JoinGroupResponse](b, req).ErrorCode)
}

// A session that is shorter or longer than the broker allows is refused, and the bounds move with the configuration.
func TestJoinGroup_SessionsOutsideTheBoundsAreRefused(t *testing.T) {
	b := start(t)
	b.set("group.min.session.timeout.ms", "6000") // a broker for tests has a smaller one
	b.eventually("the bound", func() bool { return b.joinOnce("g", 5999) == kerr.InvalidSessionTimeout })
	for ms, want := range map[int32]error{-1: kerr.InvalidSessionTimeout, 0: kerr.InvalidSessionTimeout, 5999: kerr.InvalidSessionTimeout, 6000: kerr.MemberIDRequired, 1_800_000: kerr.MemberIDRequired, 1_800_001: kerr.InvalidSessionTimeout} {
		if err := b.joinOnce("g", ms); err != want {
			t.Errorf("a session of %d ms: %v, want %v", ms, err, want)
		}
	}
	b.set("group.min.session.timeout.ms", "100")
	b.set("group.max.session.timeout.ms", "7000")
	b.eventually("the new bounds", func() bool {
		return b.joinOnce("g", 5999) == kerr.MemberIDRequired && b.joinOnce("g", 7001) == kerr.InvalidSessionTimeout
	})
}

// A group that is full refuses the next member, and takes it when another has left (case 108).
func TestCase108_AFullGroupTakesNoMore(t *testing.T) {
	b := start(t)
	b.set("group.max.size", "1")
	member, _ := b.join("g", "", "")
	b.eventually("a full group", func() bool { return b.joinOnce("g", 10_000) == kerr.GroupMaxSizeReached })
	leave := kmsg.NewPtrLeaveGroupRequest()
	leaving := kmsg.NewLeaveGroupRequestMember()
	leaving.MemberID = member
	leave.Group, leave.Members = "g", append(leave.Members, leaving)
	if resp := ask[*kmsg.LeaveGroupResponse](b, leave); resp.ErrorCode != 0 || resp.Members[0].ErrorCode != 0 {
		t.Fatalf("leave: %+v", resp)
	}
	b.join("g", "", "")
}

// Metadata of a commit is bounded: the partition that has too much is refused and keeps its offset, the others of the same request are committed (case 108).
func TestCase108_CommitMetadataIsBounded(t *testing.T) {
	b := start(t)
	if _, err := b.admin.CreatePartitions(b.ctx, 1, "t"); err != nil {
		t.Fatal(err)
	}
	commit := func(size int) (codes []error) {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group = "g"
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.TopicID = "t", b.topic
		for n, metadata := range []string{strings.Repeat("m", size), "small"} {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.Metadata = int32(n), 3, &metadata
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
		for _, p := range ask[*kmsg.OffsetCommitResponse](b, req).Topics[0].Partitions {
			codes = append(codes, kerr.ErrorForCode(p.ErrorCode))
		}
		return codes
	}
	if got := commit(4097); got[0] != kerr.OffsetMetadataTooLarge || got[1] != nil {
		t.Errorf("4097 bytes: %v", got)
	}
	b.wantCommitted("g", -1)
	if got := commit(4096); got[0] != nil || got[1] != nil {
		t.Errorf("4096 bytes: %v", got)
	}
	b.wantCommitted("g", 3)
	b.set("offset.metadata.max.bytes", "10")
	b.eventually("the new bound", func() bool { got := commit(11); return got[0] == kerr.OffsetMetadataTooLarge && got[1] == nil })
}
