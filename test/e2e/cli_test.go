package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// The documents that scripts read. A field more or less is a change of the command line's contract: Cluster.decode refuses what is not here.

type groupListing struct {
	Group       string `json:"group"`
	Type        string `json:"type"`
	State       string `json:"state"`
	Members     int32  `json:"members"`
	Coordinator int32  `json:"coordinator"`
}

type partitionName struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id"`
	Partition int32  `json:"partition"`
}

type groupDocument struct {
	Group       string `json:"group"`
	Type        string `json:"type"`
	State       string `json:"state"`
	Epoch       int32  `json:"epoch"`
	Assignor    string `json:"assignor"`
	Coordinator int32  `json:"coordinator"`
	Lag         *int64 `json:"lag"`
	Members     []struct {
		MemberID    string          `json:"member_id"`
		InstanceID  string          `json:"instance_id"`
		ClientID    string          `json:"client_id"`
		ClientHost  string          `json:"client_host"`
		Rack        string          `json:"rack"`
		MemberEpoch int32           `json:"member_epoch"`
		Topics      []string        `json:"topics"`
		Assigned    []partitionName `json:"assigned"`
		Target      []partitionName `json:"target"`
		Revoking    []partitionName `json:"revoking"`
	} `json:"members"`
	Offsets []struct {
		partitionName
		CommittedOffset *int64 `json:"committed_offset"`
		LogStartOffset  *int64 `json:"log_start_offset"`
		HighWatermark   *int64 `json:"high_watermark"`
		Lag             *int64 `json:"lag"`
		MemberID        string `json:"member_id"`
		Metadata        string `json:"metadata"`
		CommittedMs     int64  `json:"committed_ms"`
	} `json:"offsets"`
}

type statusDocument struct {
	ClusterID    string   `json:"cluster_id"`
	Controller   int32    `json:"controller"`
	FeatureLevel int32    `json:"feature_level"`
	Healthy      bool     `json:"healthy"`
	Reasons      []string `json:"reasons"`
	Topics       int32    `json:"topics"`
	Partitions   int32    `json:"partitions"`
	Brokers      []struct {
		Broker      int32  `json:"broker"`
		Endpoint    string `json:"endpoint"`
		PeerAddress string `json:"peer_address"`
		Listeners   []struct {
			Name string `json:"name"`
			Host string `json:"host"`
			Port int32  `json:"port"`
		} `json:"listeners"`
		Rack        string `json:"rack"`
		Version     string `json:"version"`
		Fenced      bool   `json:"fenced"`
		Draining    bool   `json:"draining"`
		Controller  bool   `json:"controller"`
		BrokerEpoch int64  `json:"broker_epoch"`
		Leads       int32  `json:"leads"`
		Holds       int32  `json:"holds"`
	} `json:"brokers"`
}

type topicDocument struct {
	Topic             string            `json:"topic"`
	TopicID           string            `json:"topic_id"`
	ReplicationFactor int32             `json:"replication_factor"`
	CreatedMs         int64             `json:"created_ms"`
	MinISR            int32             `json:"min_isr"`
	Configs           map[string]string `json:"configs"`
	Partitions        []struct {
		partitionName
		Leader         int32   `json:"leader"`
		LeaderEpoch    int32   `json:"leader_epoch"`
		PartitionEpoch int32   `json:"partition_epoch"`
		Replicas       []int32 `json:"replicas"`
		ISR            []int32 `json:"isr"`
		ELR            []int32 `json:"elr"`
		Adding         []int32 `json:"adding"`
		Removing       []int32 `json:"removing"`
		LastLeader     int32   `json:"last_leader"`
		LogStartOffset *int64  `json:"log_start_offset"`
		LogEndOffset   *int64  `json:"log_end_offset"`
		FlushedOffset  *int64  `json:"flushed_offset"`
		HighWatermark  *int64  `json:"high_watermark"`
		SizeBytes      *int64  `json:"size_bytes"`
		Offline        string  `json:"offline"`
	} `json:"partitions"`
}

// TestDocumentsAndExitCodes: what scripts rely on. Documents have exactly the documented fields and jq finds its way in them; exit codes are 0 done,
// 1 refused, 2 usage, 3 not found, 4 timed out, 10 unhealthy.
func TestDocumentsAndExitCodes(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	c.Must("topic", "create", "numbers", "-p", "2", "-c", "retention.ms=3600000")
	c.MustWith(seq(1, 100), "produce", "numbers")
	c.Must("consume", "numbers", "-g", "billing", "--exit-at-end")
	c.MustWith("101\n", "produce", "numbers", "-p", "0")
	c.checkDocuments(t)
	for _, x := range []struct {
		name string
		code int
		args []string
	}{
		{"done", 0, []string{"topic", "list"}},
		{"refused", 1, []string{"topic", "create", "numbers"}},
		{"usage", 2, []string{"topic", "create"}},
		{"unknown flag", 2, []string{"topic", "list", "--no-such-flag"}},
		{"unknown command", 2, []string{"topics", "frobnicate"}},
		{"bad format", 2, []string{"topic", "list", "-o", "xml"}},
		{"no topic", 3, []string{"topic", "describe", "absent"}},
		{"no group", 3, []string{"group", "describe", "absent"}},
		{"no broker", 3, []string{"cluster", "unregister", "77"}},
		{"nobody answers", 4, []string{"topic", "list", "--server", "127.0.0.1:1", "--timeout", "200ms"}},
		{"healthy", 0, []string{"cluster", "health"}},
	} {
		if out := c.CLI(x.args...); out.Code != x.code || (x.code != 0) != (out.Stderr != "") {
			t.Errorf("%s: moldau %s: exit %d, want %d; stderr %q", x.name, strings.Join(x.args, " "), out.Code, x.code, out.Stderr)
		}
	}
}

func (c *Cluster) checkDocuments(t *testing.T) {
	var topic topicDocument
	var group groupDocument
	var status statusDocument
	for _, x := range []struct {
		into any
		args []string
	}{
		{&topic, []string{"topic", "describe", "numbers", "-o", "json"}},
		{&group, []string{"group", "describe", "billing", "-o", "json"}},
		{&status, []string{"cluster", "status", "-o", "json"}},
	} {
		if err := c.decode(x.into, x.args...); err != nil {
			t.Error(err)
		}
	}
	var end int64
	for _, p := range topic.Partitions {
		if p.HighWatermark != nil {
			end += *p.HighWatermark
		}
	}
	if topic.Configs["retention.ms"] != "3600000" || end != 101 || topic.MinISR != 1 {
		t.Errorf("topic describe: %+v", topic)
	}
	if group.Lag == nil || *group.Lag != 1 || group.Group != "billing" || len(group.Offsets) != 2 {
		t.Errorf("group describe: %+v", group)
	}
	if !status.Healthy || len(status.Brokers) != 1 || status.Topics != 1 || status.Partitions != 2 {
		t.Errorf("cluster status: %+v", status)
	}
	jq, err := exec.LookPath("jq")
	if err != nil {
		t.Log("jq is not installed; the documents were decoded in Go only")
		return
	}
	for _, x := range []struct{ filter, want string }{
		{".lag", "1"},
		{"[.offsets[].committed_offset] | add", "100"},
		{".state", `"empty"`},
	} {
		cmd := exec.Command(jq, "-c", x.filter)
		cmd.Stdin = strings.NewReader(c.Must("group", "describe", "billing", "-o", "json"))
		got, err := cmd.Output()
		if err != nil || !json.Valid(got) || !strings.EqualFold(strings.TrimSpace(string(got)), x.want) {
			t.Errorf("group describe -o json | jq %q: %s, %v; want %s", x.filter, got, err, x.want)
		}
	}
}
