package kafka

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
)

// filled is a request with one entry in every list, all the way down, so that the handler has something to do.
func filled(key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	fill(reflect.ValueOf(req).Elem())
	req.SetVersion(version)
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		r.Acks = -1
	case *kmsg.ApiVersionsRequest:
		r.ClientSoftwareName, r.ClientSoftwareVersion = "test", "1.0"
	case *kmsg.FetchRequest:
		r.SessionID, r.SessionEpoch, r.ReplicaID = 0, -1, -1
	}
	return req
}

func fill(v reflect.Value) {
	if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
		d.Default()
	}
	for i := range v.NumField() {
		f := v.Field(i)
		switch {
		case !f.CanSet() || v.Type().Field(i).Name == "UnknownTags":
		case f.Kind() == reflect.String && f.String() == "":
			f.SetString("t")
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() != reflect.Uint8:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			if e := f.Index(0); e.Kind() == reflect.Struct {
				fill(e)
			} else if e.Kind() == reflect.String {
				e.SetString("t")
			}
		case f.Kind() == reflect.Struct:
			fill(f)
		}
	}
}

// Every advertised version of every API decodes, is answered, and the answer is what its schema says to the last byte.
func TestTable_EveryAdvertisedVersionIsAnswered(t *testing.T) {
	f := newFullBroker()
	d := openDoorOf(t, Config{}, f.fakeBroker, f, fakeGroups{})
	for key, a := range table() {
		for version := a.least(); version <= a.max; version++ {
			for _, req := range []kmsg.Request{kmsg.RequestForKey(key), filled(key, version)} {
				req.SetVersion(version)
				if r, ok := req.(*kmsg.ProduceRequest); ok {
					r.Acks = -1
				}
				c := d.dial()
				id := c.send(req)
				correlation, body := c.frame()
				resp := req.ResponseKind()
				resp.SetVersion(version)
				if resp.IsFlexible() && key != keyApiVersions {
					if body[0] != 0 {
						t.Errorf("%s %d: the header has tags", kmsg.NameForKey(key), version)
					}
					body = body[1:]
				}
				if err := resp.ReadFrom(body); err != nil || correlation != id {
					t.Fatalf("%s %d: correlation %d of %d, %v", kmsg.NameForKey(key), version, correlation, id, err)
				}
				if again := resp.AppendTo(nil); !bytes.Equal(again, body) {
					t.Errorf("%s %d: answered with\n%x, which means\n%x", kmsg.NameForKey(key), version, body, again)
				}
				c.Close()
			}
		}
	}
	if s := d.log.String(); strings.Contains(s, "panic") {
		t.Errorf("logged:\n%s", s)
	}
}

// pagedBroker has topics a (3 partitions), b (2) and c (1).
func pagedBroker() *fullBroker {
	f := newFullBroker()
	tx := f.Image().Txn()
	for i, name := range []string{"a", "b", "c"} {
		topic := &cluster.Topic{ID: cluster.TopicID{byte(20 + i)}, Name: name, Partitions: int32(3 - i), ReplicationFactor: 1}
		tx.PutTopic(topic)
		for n := range topic.Partitions {
			tx.PutPartition(cluster.TopicPartition{Topic: topic.ID, Partition: n}, &cluster.Partition{Replicas: []cluster.BrokerID{0, 5}, ISR: []cluster.BrokerID{0}, ELR: []cluster.BrokerID{5}, Leader: 0})
		}
	}
	f.image.Store(tx.Commit(2))
	return f
}

func TestDescribeTopicPartitions_PagesThroughAllTopics(t *testing.T) {
	f := pagedBroker()
	c := openDoorOf(t, Config{}, f.fakeBroker, f, fakeGroups{}).dial()
	var got []string
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2
	for pages := 1; ; pages++ {
		c.send(req)
		_, resp := c.answer(req)
		r := resp.(*kmsg.DescribeTopicPartitionsResponse)
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				got = append(got, *topic.Topic+string(rune('0'+p.Partition)))
				if p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil {
					t.Errorf("%s-%d has a null list: %+v", *topic.Topic, p.Partition, p)
				}
			}
		}
		if r.NextCursor == nil {
			if pages != 4 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: r.NextCursor.Topic, Partition: r.NextCursor.Partition}
	}
	if want := "a0 a1 a2 b0 b1 c0 t0"; strings.Join(got, " ") != want {
		t.Errorf("the pages hold %v, want %s", got, want)
	}
}

func TestDescribeTopicPartitions_NamesAreSortedAndUnknownOnesRefused(t *testing.T) {
	f := pagedBroker()
	c := openDoorOf(t, Config{}, f.fakeBroker, f, fakeGroups{}).dial()
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, name := range []string{"zzz", "b", "a/../b", "b"} {
		req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
	}
	c.send(req)
	_, resp := c.answer(req)
	topics := resp.(*kmsg.DescribeTopicPartitionsResponse).Topics
	if len(topics) != 3 || topics[0].ErrorCode != errInvalidTopic || *topics[1].Topic != "b" || topics[2].ErrorCode != errUnknownTopicOrPartition {
		t.Fatalf("answered with %+v", topics)
	}
	p := topics[1].Partitions[1]
	if p.LeaderID != 0 || len(p.EligibleLeaderReplicas) != 1 || p.EligibleLeaderReplicas[0] != 5 || len(p.OfflineReplicas) != 1 {
		t.Errorf("partition: %+v", p)
	}
}

func TestDescribeProducers_ListsWhatTheLeaderRemembers(t *testing.T) {
	f := newFullBroker()
	f.producers = []broker.ProducerStatus{{ID: 7, Epoch: 2, LastSequence: 41, LastMs: 1234}}
	c := openDoorOf(t, Config{}, f.fakeBroker, f, fakeGroups{}).dial()
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0}}, {Topic: "none", Partitions: []int32{0}}}
	c.send(req)
	_, resp := c.answer(req)
	topics := resp.(*kmsg.DescribeProducersResponse).Topics
	p := topics[0].Partitions[0].ActiveProducers
	if len(p) != 1 || p[0].ProducerID != 7 || p[0].ProducerEpoch != 2 || p[0].LastSequence != 41 || p[0].LastTimestamp != 1234 || p[0].CurrentTxnStartOffset != -1 {
		t.Errorf("producers: %+v", p)
	}
	if topics[1].Partitions[0].ErrorCode != errUnknownTopicOrPartition {
		t.Errorf("a topic that is not there: %+v", topics[1])
	}
}

func TestDescribeQuorum_ShowsTheMetadataLog(t *testing.T) {
	f := newFullBroker()
	f.quorum = broker.Quorum{Leader: 1, Term: 4, CommitIndex: 90}
	for id := range cluster.BrokerID(2) {
		m := broker.QuorumMember{Broker: id, Directory: cluster.UUID{byte(id + 1)}, Voter: id == 1, Index: 90, Heard: time.Second}
		f.quorum.Members = append(f.quorum.Members, m)
	}
	f.quorum.Members[0].Index, f.quorum.Members[0].Heard = -1, -1
	c := openDoorOf(t, Config{Now: fixedNow}, f.fakeBroker, f, fakeGroups{}).dial()
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = 2
	req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: metadataTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{Partition: 0}, {Partition: 1}}}}
	c.send(req)
	_, resp := c.answer(req)
	r := resp.(*kmsg.DescribeQuorumResponse)
	p := r.Topics[0].Partitions[0]
	if p.LeaderID != 1 || p.LeaderEpoch != 4 || p.HighWatermark != 90 || len(p.CurrentVoters) != 1 || len(p.Observers) != 1 {
		t.Fatalf("quorum: %+v", p)
	}
	if v := p.CurrentVoters[0]; v.ReplicaID != 1 || v.LogEndOffset != 90 || v.LastFetchTimestamp != 999_000 || v.LastCaughtUpTimestamp != 999_000 || v.ReplicaDirectoryID != [16]byte{2} {
		t.Errorf("voter: %+v", v)
	}
	if o := p.Observers[0]; o.LogEndOffset != -1 || o.LastFetchTimestamp != -1 {
		t.Errorf("observer: %+v", o)
	}
	if r.Topics[0].Partitions[1].ErrorCode != errUnknownTopicOrPartition || len(r.Nodes) != 1 || r.Nodes[0].Listeners[0].Host != "broker.example" || r.Nodes[0].Listeners[0].Name != "KAFKA" {
		t.Errorf("answered with %+v", r)
	}
}

func TestFeatures_AreShownAndOnlyRise(t *testing.T) {
	f := newFullBroker()
	tx := f.Image().Txn()
	tx.SetFeatureLevel(2)
	for id := range cluster.BrokerID(2) {
		b, _ := f.Image().Broker(id)
		changed := *b
		changed.MinLevel, changed.MaxLevel = 1, 3+int32(id)
		tx.PutBroker(&changed)
	}
	f.image.Store(tx.Commit(3))
	c := openDoorOf(t, Config{}, f.fakeBroker, f, fakeGroups{}).dial()
	versions := apiVersionsRequest(3)
	c.send(versions)
	_, resp := c.answer(versions)
	shown := resp.(*kmsg.ApiVersionsResponse)
	if s, fin := shown.SupportedFeatures, shown.FinalizedFeatures; len(s) != 1 || s[0].MinVersion != 1 || s[0].MaxVersion != 3 || len(fin) != 1 || fin[0].MaxVersionLevel != 2 || fin[0].MinVersionLevel != 2 {
		t.Errorf("features: %+v", shown)
	}
	for _, x := range []struct {
		feature   string
		level     int16
		upgrade   int8
		validate  bool
		want      int16
		finalized int32
	}{
		{"kraft.version", 1, 1, false, errInvalidUpdateVersion, 0},
		{featureMetadata, 0, 3, false, errInvalidUpdateVersion, 0},
		{featureMetadata, 1, 2, false, errInvalidUpdateVersion, 0},
		{featureMetadata, 4, 1, false, errInvalidUpdateVersion, 0}, // broker 0 does not know it
		{featureMetadata, 3, 2, false, errInvalidUpdateVersion, 0},
		{featureMetadata, 3, 1, true, errNone, 0},
		{featureMetadata, 3, 1, false, errNone, 3},
	} {
		f.level = 0
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.Version, req.ValidateOnly = 1, x.validate
		req.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: x.feature, MaxVersionLevel: x.level, UpgradeType: x.upgrade}}
		c.send(req)
		_, resp := c.answer(req)
		if got := resp.(*kmsg.UpdateFeaturesResponse); got.ErrorCode != x.want || f.level != x.finalized || (x.want == errNone) != (len(got.Results) == 1) {
			t.Errorf("%+v: %+v, finalized %d", x, got, f.level)
		}
	}
}

func TestListConfigResources_TopicsAndBrokers(t *testing.T) {
	f := newFullBroker()
	c := openDoorOf(t, Config{}, f.fakeBroker, f, fakeGroups{}).dial()
	for _, x := range []struct {
		version int16
		types   []int8
		want    string
		err     int16
	}{
		{0, nil, "", errNone}, {1, nil, "t:2 0:4 1:4", errNone}, {1, []int8{4}, "0:4 1:4", errNone}, {1, []int8{16}, "", errNone}, {1, []int8{99}, "", errUnsupportedVersion},
	} {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.Version, req.ResourceTypes = x.version, x.types
		c.send(req)
		_, resp := c.answer(req)
		r := resp.(*kmsg.ListConfigResourcesResponse)
		var got []string
		for _, e := range r.ConfigResources {
			got = append(got, e.Name+":"+string(rune('0'+e.Type)))
		}
		if strings.Join(got, " ") != x.want || r.ErrorCode != x.err {
			t.Errorf("version %d of %v: %v, error %d", x.version, x.types, got, r.ErrorCode)
		}
	}
}

// MirrorMaker goes on without ACLs when, and only when, it hears SECURITY_DISABLED.
func TestACLs_AreDisabled(t *testing.T) {
	f := newFullBroker()
	c := openDoorOf(t, Config{}, f.fakeBroker, f, fakeGroups{}).dial()
	describe, create, del := kmsg.NewPtrDescribeACLsRequest(), kmsg.NewPtrCreateACLsRequest(), kmsg.NewPtrDeleteACLsRequest()
	create.Creations = []kmsg.CreateACLsRequestCreation{{}, {}}
	del.Filters = []kmsg.DeleteACLsRequestFilter{{}}
	for _, req := range []kmsg.Request{describe, create, del} {
		req.SetVersion(3)
		c.send(req)
		_, resp := c.answer(req)
		var codes []int16
		switch r := resp.(type) {
		case *kmsg.DescribeACLsResponse:
			codes = append(codes, r.ErrorCode)
		case *kmsg.CreateACLsResponse:
			for _, x := range r.Results {
				codes = append(codes, x.ErrorCode)
			}
		case *kmsg.DeleteACLsResponse:
			for _, x := range r.Results {
				codes = append(codes, x.ErrorCode)
			}
		}
		if want := map[int16]int{29: 1, 30: 2, 31: 1}[req.Key()]; len(codes) != want || codes[0] != 54 {
			t.Errorf("%s: %v", kmsg.NameForKey(req.Key()), codes)
		}
	}
}
