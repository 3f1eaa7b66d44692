package main

import (
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// sampleBroker is a cluster of two brokers with one topic and one group.
func sampleBroker() *fakeBroker {
	lag := int64(5)
	return &fakeBroker{
		health: &moldauv1.ClusterHealthResponse{Healthy: true, ClusterId: "AAAAAAAAAAAAAAAAAAAAAw", Controller: 1, Brokers: 2, Topics: 1, Partitions: 2},
		cluster: &moldauv1.DescribeClusterResponse{ClusterId: "AAAAAAAAAAAAAAAAAAAAAw", Controller: 1, FeatureLevel: 1, Brokers: []*moldauv1.BrokerDescription{
			{Broker: 0, Endpoint: "a:9094", PeerAddress: "a:9093", Rack: "r1", Version: "v1", BrokerEpoch: 7, Leads: 1, Holds: 2},
			{Broker: 1, PeerAddress: "b:9093", Version: "v1", Fenced: true, BrokerEpoch: 9, Holds: 2, Listeners: []*moldauv1.Listener{{Name: "http", Host: "b", Port: 9644}}},
		}},
		topics: []*moldauv1.TopicDescription{{
			Topic: "orders", TopicId: "AAAAAAAAAAAAAAAAAAAAAQ", ReplicationFactor: 2, CreatedMs: 1700000000000, MinIsr: 1,
			Configs: []*moldauv1.ConfigEntry{{Key: "retention.ms", Value: "3600000"}},
			Partitions: []*moldauv1.PartitionDescription{
				{
					Partition: 0, Leader: 0, LeaderEpoch: 3, PartitionEpoch: 5, Replicas: []int32{0, 1}, Isr: []int32{0}, LastLeader: -1,
					Status: &moldauv1.PartitionStatus{LogStartOffset: 10, LogEndOffset: 120, FlushedOffset: 118, HighWatermark: 117, SizeBytes: 3 << 20},
				},
				{Partition: 1, Leader: -1, LeaderEpoch: 4, PartitionEpoch: 6, Replicas: []int32{1, 0}, Elr: []int32{1}, LastLeader: 1},
			},
		}},
		groups: []*moldauv1.GroupDescription{{
			Group: "billing", Type: moldauv1.GroupType_GROUP_TYPE_NATIVE, State: "reconciling", Epoch: 4, Assignor: "sticky", Coordinator: 0,
			Members: []*moldauv1.MemberDescription{
				{
					MemberId: "m1", ClientId: "c", ClientHost: "10.0.0.1", MemberEpoch: 3, Topics: []string{"orders"},
					Assigned: []*moldauv1.TopicPartition{{Topic: "orders", Partition: 0}, {Topic: "orders", Partition: 1}},
					Target:   []*moldauv1.TopicPartition{{Topic: "orders", Partition: 0}}, Revoking: []*moldauv1.TopicPartition{{Topic: "orders", Partition: 1}},
				},
				{MemberId: "m2", ClientId: "c", ClientHost: "10.0.0.2", MemberEpoch: 4, Topics: []string{"orders"}, Target: []*moldauv1.TopicPartition{{Topic: "orders", Partition: 1}}},
			},
			Offsets: []*moldauv1.GroupOffset{
				{Topic: "orders", Partition: 0, CommittedOffset: 112, LogStartOffset: 10, HighWatermark: 117, Lag: &lag, MemberId: "m1", CommittedMs: time.Now().UnixMilli()},
				{Topic: "orders", Partition: 1, CommittedOffset: -1, LogStartOffset: -1, HighWatermark: -1, MemberId: "m1"},
			},
		}},
		configs: []*moldauv1.ConfigValue{{Key: "retention.ms", Value: "3600000", Source: "topic", DefaultValue: "-1", Type: "duration", Enforced: true, Doc: "How long."}},
	}
}

// TestExitCodes holds the table of docs/cli.md, and that an error says what failed, why and what to do.
func TestExitCodes(t *testing.T) {
	address := sampleBroker().start(t)
	sick := sampleBroker()
	sick.health = &moldauv1.ClusterHealthResponse{Reasons: []string{"broker 1 is fenced"}}
	sick.refuse = refusal(codes.AlreadyExists, "TOPIC_EXISTS", "topic orders is there")
	sickAddress := sick.start(t)
	mute := &fakeBroker{}
	muteAddress := mute.start(t)
	for _, c := range []struct {
		args    string
		address string
		code    int
		says    []string
	}{
		{"topic list", address, exitDone, nil},
		{"cluster health", address, exitDone, nil},
		{"topic create orders", sickAddress, exitFailure, []string{"moldau topic create: create topic orders: TOPIC_EXISTS: topic orders is there", "`moldau topic describe NAME` shows it"}},
		{"topic create orders --if-not-exists", sickAddress, exitDone, []string{"left as it is"}},
		{"topic create", address, exitUsage, []string{"an argument is missing; usage: moldau topic create NAME"}},
		{"topic create a -c novalue", address, exitUsage, []string{"config \"novalue\" is not key=value"}},
		{"topic list -o xml", address, exitUsage, []string{"-o \"xml\" is not one of table"}},
		{"topic list --sever x", address, exitUsage, []string{"unknown flag --sever, did you mean --server?"}},
		{"tpoic list", address, exitUsage, []string{"did you mean \"topic\"?"}},
		{"group reset g --to sideways", address, exitUsage, []string{"\"sideways\" is not start, end"}},
		{"group reset g", address, exitUsage, []string{"--to is missing"}},
		{"config set planet x=y", address, exitUsage, []string{"\"planet\" is not one of topic, broker, cluster"}},
		{"cluster reassign orders:0", address, exitUsage, []string{"either --replicas or --cancel"}},
		{"cluster elect --unclean", address, exitUsage, []string{"can lose records: name the partitions"}},
		{"produce orders --acks most", address, exitUsage, []string{"not one of isr, leader, none"}},
		{"produce orders -z zip", address, exitUsage, []string{"not one of none, gzip"}},
		{"consume orders --from nowhere", address, exitUsage, []string{"is not start, end"}},
		{"consume orders -g g --from 17", address, exitUsage, []string{"moldau group reset"}},
		{"consume orders -f %z", address, exitUsage, []string{"-f"}},
		{"topic describe nope", address, exitNotFound, []string{"describe topic nope: UNKNOWN_TOPIC", "`moldau topic list`"}},
		{"group describe nope", address, exitNotFound, []string{"UNKNOWN_GROUP", "`moldau group list`"}},
		{"config get topic orders retention.sm", address, exitNotFound, []string{"did you mean retention.ms?"}},
		{"log dump /no/such/dir", address, exitNotFound, []string{"no such file"}},
		{"cluster health", sickAddress, exitUnhealthy, nil},
		{"cluster health --exit-when-healthy --timeout 50ms", sickAddress, exitTimeout, []string{"did not become healthy within 50ms: broker 1 is fenced"}},
		{"cluster health --timeout 100ms", muteAddress, exitFailure, []string{"NO_CONTROLLER"}},
	} {
		got := cli(t, c.address, "", strings.Fields(c.args)...)
		if got.code != c.code {
			t.Errorf("%s: exit %d, want %d\n%s", c.args, got.code, c.code, got.err)
		}
		for _, want := range c.says {
			if !strings.Contains(got.err, want) {
				t.Errorf("%s: standard error %q does not say %q", c.args, got.err, want)
			}
		}
		if c.code != exitDone && c.code != exitUnhealthy && got.out != "" {
			t.Errorf("%s: talk on standard output: %q", c.args, got.out)
		}
	}
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestNobodyListens(t *testing.T) {
	address := closedPort(t)
	began := time.Now()
	got := cli(t, address, "", "topic", "list")
	if got.code != exitFailure || !strings.Contains(got.err, "no broker answers at "+address) || !strings.Contains(got.err, "moldau dev") {
		t.Errorf("exit %d, %q", got.code, got.err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v to say so", took)
	}
	got = cli(t, address, "", "topic", "list", "--timeout", "100ms")
	if got.code != exitTimeout {
		t.Errorf("with --timeout: exit %d, %q", got.code, got.err)
	}
	got = cli(t, address, "", "cluster", "health", "--exit-when-healthy", "--watch", "--timeout", "200ms")
	if got.code != exitTimeout || !strings.Contains(got.err, "waiting: ") {
		t.Errorf("health: exit %d, %q", got.code, got.err)
	}
}

// TestRequests holds what flags make of a request.
func TestRequests(t *testing.T) {
	value := "3600000"
	for _, c := range []struct {
		args string
		want proto.Message
	}{
		{"topic create orders -p 12 -r 3 -c a=b=c --dry-run", &moldauv1.CreateTopicRequest{Topic: "orders", Partitions: 12, ReplicationFactor: 3, Configs: []*moldauv1.ConfigEntry{{Key: "a", Value: "b=c"}}, ValidateOnly: true}},
		{"topic create orders --assignment 0,1 --assignment 1,0", &moldauv1.CreateTopicRequest{Topic: "orders", Assignment: []*moldauv1.Replicas{{Replicas: []int32{0, 1}}, {Replicas: []int32{1, 0}}}}},
		{"topic delete orders", &moldauv1.DeleteTopicRequest{Topic: "orders"}},
		{"topic add-partitions orders -p 24", &moldauv1.AddPartitionsRequest{Topic: "orders", Partitions: 24}},
		{"topic alter orders -c retention.ms=3600000 --unset b", &moldauv1.AlterConfigsRequest{Kind: moldauv1.ConfigKind_CONFIG_KIND_TOPIC, Name: "orders", Ops: []*moldauv1.ConfigOp{{Key: "retention.ms", Value: &value}, {Key: "b"}}}},
		{"topic trim orders -p 1 --before 40", &moldauv1.DeleteRecordsRequest{Topic: "orders", Partition: 1, BeforeOffset: 40}},
		{"config set cluster retention.ms=3600000", &moldauv1.AlterConfigsRequest{Kind: moldauv1.ConfigKind_CONFIG_KIND_CLUSTER_DEFAULT, Ops: []*moldauv1.ConfigOp{{Key: "retention.ms", Value: &value}}}},
		{"config unset broker 1 b --dry-run", &moldauv1.AlterConfigsRequest{Kind: moldauv1.ConfigKind_CONFIG_KIND_BROKER, Name: "1", Ops: []*moldauv1.ConfigOp{{Key: "b"}}, ValidateOnly: true}},
		{"cluster reassign orders:3 --replicas 2,0", &moldauv1.ReassignRequest{Topic: "orders", Partition: 3, Replicas: []int32{2, 0}}},
		{"cluster reassign orders:3 --cancel", &moldauv1.ReassignRequest{Topic: "orders", Partition: 3}},
		{"cluster elect orders --unclean", &moldauv1.ElectLeadersRequest{Unclean: true, Partitions: []*moldauv1.TopicPartition{{Topic: "orders", Partition: 0}, {Topic: "orders", Partition: 1}}}},
		{"cluster unregister 2", &moldauv1.UnregisterBrokerRequest{Broker: 2}},
		{"group delete billing", &moldauv1.DeleteGroupRequest{Group: "billing"}},
		{"group reset billing --to start", &moldauv1.ResetOffsetsRequest{Group: "billing", To: &moldauv1.ResetOffsetsRequest_Earliest{Earliest: true}, ValidateOnly: true}},
		{"group reset billing --to -5 --topic orders --execute", &moldauv1.ResetOffsetsRequest{Group: "billing", Partitions: []*moldauv1.TopicPartition{{Topic: "orders", Partition: -1}}, To: &moldauv1.ResetOffsetsRequest_Shift{Shift: -5}}},
		{"group reset billing --to @1700000000000 --topic orders:3", &moldauv1.ResetOffsetsRequest{Group: "billing", Partitions: []*moldauv1.TopicPartition{{Topic: "orders", Partition: 3}}, To: &moldauv1.ResetOffsetsRequest_TimestampMs{TimestampMs: 1700000000000}, ValidateOnly: true}},
	} {
		fake := sampleBroker()
		got := cli(t, fake.start(t), "", strings.Fields(c.args)...)
		if got.code != exitDone || len(fake.requests) != 1 {
			t.Errorf("%s: exit %d, %d requests\n%s", c.args, got.code, len(fake.requests), got.err)
			continue
		}
		if req := fake.requests[0].(proto.Message); !proto.Equal(req, c.want) {
			t.Errorf("%s: sent %v, want %v", c.args, req, c.want)
		}
	}
}

func TestBackupIsWholeOrNotThere(t *testing.T) {
	fake := sampleBroker()
	address := fake.start(t)
	path := filepath.Join(t.TempDir(), "metadata.backup")
	if got := cli(t, address, "", "cluster", "backup", path); got.code != exitDone {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "one two" {
		t.Errorf("%q, %v", text, err)
	}
	fake.refuse = refusal(codes.Internal, "UNKNOWN", "broken")
	other := path + "2"
	if got := cli(t, address, "", "cluster", "backup", other); got.code != exitFailure {
		t.Errorf("exit %d", got.code)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("a broken backup left something: %v, %v", left, err)
	}
}

func TestPositions(t *testing.T) {
	now := time.UnixMilli(1700000000000)
	for text, want := range map[string]position{
		"start": {atStart, 0}, "end": {atEnd, 0}, "+3": {afterStart, 3}, "-4": {beforeEnd, 4}, "0": {atOffset, 0}, "17": {atOffset, 17},
		"@1600000000000": {atTime, 1600000000000}, "@2020-09-13T12:26:40Z": {atTime, 1600000000000}, "@-1s": {atTime, 1699999999000},
	} {
		if got, err := parsePosition(text, now); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "+", "-", "+-3", "--3", "@", "@soon", "1.5"} {
		if got, err := parsePosition(text, now); err == nil {
			t.Errorf("%q: %v, want a refusal", text, got)
		}
	}
}
