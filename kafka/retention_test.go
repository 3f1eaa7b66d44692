package kafka

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/consumergroup"
)

// pipes is a listener whose connections are in memory, so that a bubble of synctest holds both ends and time passes in it.
type pipes struct {
	conns chan net.Conn
	end   chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), end: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.end:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.end) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// memoryLog is a log of groups in memory.
type memoryLog struct {
	mu      sync.Mutex
	index   uint64
	next    [cluster.ShardCount]int64
	records [cluster.ShardCount][]cluster.GroupRecord
}

func (m *memoryLog) Append(_ context.Context, a cluster.GroupAppend) (cluster.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index++
	for _, b := range a.Batches {
		m.next[b.Shard]++
		m.records[b.Shard] = append(m.records[b.Shard], b.Records...)
	}
	return cluster.Result{Index: m.index, Items: make([]cluster.ItemResult, len(a.Batches))}, nil
}

func (m *memoryLog) Load(_ context.Context, shard cluster.ShardID, _ uint64) (consumergroup.ShardContent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return consumergroup.ShardContent{Epoch: 1, NextSequence: m.next[shard], Records: slices.Values(slices.Clone(m.records[shard]))}, nil
}

// retentionDoor is a door before a real coordinator.
type retentionDoor struct {
	t  *testing.T
	at *pipes
}

func openRetentionDoor(t *testing.T, retention time.Duration) *retentionDoor {
	t.Helper()
	f := newFullBroker()
	config := consumergroup.DefaultConfig()
	config.OffsetsRetention = retention
	c, err := consumergroup.Open(config, consumergroup.Ports{
		Log: &memoryLog{}, Topics: func() consumergroup.Topics { return f.Image() }, LeaseValid: func() bool { return true }, NewMemberID: func() string { return "member" },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var led []consumergroup.ShardLead
	for id := range cluster.ShardID(cluster.ShardCount) {
		led = append(led, consumergroup.ShardLead{Shard: id, Epoch: 1})
	}
	c.ShardsChanged(led)
	synctest.Wait()
	d := &retentionDoor{t, newPipes()}
	openDoorAt(t, d.at, Config{}, f.fakeBroker, f, c)
	return d
}

// ask sends one request over a connection of its own: one that waits for hours would be closed as idle.
func (d *retentionDoor) ask(req kmsg.Request) kmsg.Response {
	d.t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	d.at.conns <- far
	c := &client{t: d.t, Conn: near}
	c.send(req)
	_, resp := c.answer(req)
	return resp
}

func (d *retentionDoor) commit(group, member string, generation int32, at int64) {
	d.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 7, group, member, generation
	topic, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	topic.Topic, p.Offset = "t", at
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	if code := d.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != errNone {
		d.t.Fatalf("commit of %s: error %d", group, code)
	}
}

func (d *retentionDoor) committed(group string) int64 {
	d.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 5, group
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	resp := d.ask(req).(*kmsg.OffsetFetchResponse)
	if resp.ErrorCode != errNone || resp.Topics[0].Partitions[0].ErrorCode != errNone {
		d.t.Fatalf("offsets of %s: error %d", group, resp.ErrorCode)
	}
	return resp.Topics[0].Partitions[0].Offset
}

// join makes a group of one member with a session of five minutes.
func (d *retentionDoor) join(group string) (member string, generation int32) {
	d.t.Helper()
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 2, group, "consumer", 300_000, 300_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0}}}
	joined := d.ask(join).(*kmsg.JoinGroupResponse)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, joined.MemberID, joined.Generation
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: []byte{1}}}
	if code := d.ask(sync).(*kmsg.SyncGroupResponse).ErrorCode; joined.ErrorCode != errNone || code != errNone {
		d.t.Fatalf("join: error %d, sync: error %d", joined.ErrorCode, code)
	}
	return joined.MemberID, joined.Generation
}

// TestCase85_OffsetsThroughTheDoor: a group that reads an idle topic keeps its offsets for as long as it has a member that only sends heartbeats, far longer than retention;
// offsets that nobody's group committed then are gone by that time. From when the last member has left, they stay for retention, and no longer.
func TestCase85_OffsetsThroughTheDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const retention = 2 * time.Hour
		d := openRetentionDoor(t, retention)
		member, generation := d.join("active")
		d.commit("active", member, generation, 5)
		d.commit("alone", "", -1, 6)
		if got := d.committed("alone"); got != 6 {
			t.Fatalf("the offset of a group without members is %d at first, want 6", got)
		}
		for range 150 { // ten hours without a record or a commit
			time.Sleep(4 * time.Minute)
			beat := kmsg.NewPtrHeartbeatRequest()
			beat.Group, beat.MemberID, beat.Generation = "active", member, generation
			if code := d.ask(beat).(*kmsg.HeartbeatResponse).ErrorCode; code != errNone {
				t.Fatalf("heartbeat: error %d", code)
			}
		}
		if got := d.committed("active"); got != 5 {
			t.Errorf("the offset of an active group is %d, want 5", got)
		}
		if got := d.committed("alone"); got != -1 {
			t.Errorf("the offset of a group without members is still %d", got)
		}
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group, leave.MemberID = "active", member
		if code := d.ask(leave).(*kmsg.LeaveGroupResponse).ErrorCode; code != errNone {
			t.Fatalf("leave: error %d", code)
		}
		time.Sleep(retention - time.Minute)
		if got := d.committed("active"); got != 5 {
			t.Errorf("the offset is %d before the end of its retention, want 5", got)
		}
		time.Sleep(time.Minute + consumergroup.DefaultConfig().ExpireInterval)
		if got := d.committed("active"); got != -1 {
			t.Errorf("the offset is still %d after its retention", got)
		}
	})
}
