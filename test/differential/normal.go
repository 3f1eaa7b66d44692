package main

import (
	"fmt"
	"strings"
)

// kind is how a field is compared that two clusters cannot have in common.
type kind int

const (
	exact    kind = iota
	words         // a text for people: not compared
	identity      // made by a cluster: where one side has the same value twice, the other has too; none (-1, empty, zeros) stays what it is
	clock         // a time of day, or a duration: both have one, or neither has (-1, 0)
	amount        // of this machine, or of this moment: both have one
	address       // a port: the side's own
)

// normal is the whole table of what is not compared exactly: the field, by the end of its path (a leading KEY: is an API's number), how, and why.
var normal = []struct {
	field string
	kind  kind
	why   string
}{
	{"ErrorMessage", words, "texts are for people, and may be missing; the code is compared"},
	{"ErrMessage", words, "the same, in the answer to Produce"},
	{"Documentation", words, "each describes its own"},
	{"ClusterID", identity, "drawn at random when a cluster is made"},
	{"TopicID", identity, "drawn at random when a topic is made"},
	{"MemberID", identity, "drawn at random by the coordinator"},
	{"55:LeaderID", amount, "which of the voters wins the election of the metadata log is chance"},
	{"LeaderID", identity, "in an answer to JoinGroup, a member's id; as a broker's id it is the same on both sides, and stays the same"},
	{"ProducerID", identity, "given out by the cluster"},
	{"SessionID", identity, "drawn at random by the broker"},
	{"DirectoryID", identity, "drawn at random when a directory is formatted"},
	{"ReplicaDirectoryID", identity, "the same"},
	{"ControllerID", amount, "Kafka names any broker, a new one each time, as every broker takes requests for the controller"},
	{"Port", address, "each listens on a port of its own"},
	{"LogAppendTime", clock, "when the broker took the batch"},
	{"LastTimestamp", clock, "of a producer: Kafka says its newest record's, Moldau when it last heard of it"},
	{"LastFetchTimestamp", clock, "now"},
	{"LastCaughtUpTimestamp", amount, "now, or -1 until the leader has heard enough of a follower"},
	{"Dir", identity, "each has a directory of its own"},
	{"TotalBytes", amount, "of this machine's disk at the moment"},
	{"UsableBytes", amount, "the same"},
	{"Size", amount, "bytes on disk, which depend on when each flushes and cleans"},
}

// ordered are the lists of which the protocol, or a client, wants an order. All others are compared by the names of their elements: the order of many of Kafka's answers is
// that of a hash table.
var ordered = []string{"1:Topics", "75:Topics", "75:Partitions", "1:RecordBatches"}

func orderMatters(api int16, path string) bool {
	for _, o := range ordered {
		number, field, _ := strings.Cut(o, ":")
		if number == fmt.Sprint(api) && (path == field || strings.HasSuffix(path, "."+field)) {
			return true
		}
	}
	return false
}

// kindOf finds a field in the table.
func kindOf(api int16, path string) kind {
	for _, n := range normal {
		field := n.field
		if number, rest, ok := strings.Cut(field, ":"); ok {
			if number != fmt.Sprint(api) {
				continue
			}
			field = rest
		}
		if path == field || strings.HasSuffix(path, "."+field) {
			return n.kind
		}
	}
	return exact
}

// none are the values by which identities and times say that there is none.
var none = map[string]bool{"": true, "-1": true, strings.Repeat("0", 32): true}

// identities pairs what the two sides call the same thing.
type identities struct{ theirs, ours map[string]string }

func newIdentities() *identities {
	return &identities{theirs: map[string]string{}, ours: map[string]string{}}
}

// same says whether two ids name the same thing, as far as is known, and remembers it.
func (i *identities) same(field, a, b string) bool {
	if none[a] || none[b] || (field == "SessionID" && (a == "0" || b == "0")) { // producers begin with 0, sessions do not
		return a == b
	}
	a, b = field+" "+a, field+" "+b
	x, known := i.theirs[a]
	y, taken := i.ours[b]
	if !known && !taken {
		i.theirs[a], i.ours[b] = b, a
		return true
	}
	return x == b && y == a
}

// translate gives what Kafka calls the thing that Moldau calls b; b itself if that is not known.
func (i *identities) translate(field, b string) string {
	if a, ok := i.ours[field+" "+b]; ok {
		return strings.TrimPrefix(a, field+" ")
	}
	return b
}
