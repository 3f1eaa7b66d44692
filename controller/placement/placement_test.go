package placement

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

func some(n int, rack func(i int) string) []Broker {
	out := make([]Broker, n)
	for i := range out {
		out[i] = Broker{ID: cluster.BrokerID(i), Eligible: true, Rack: rack(i)}
	}
	return out
}

func noRack(int) string { return "" }

func assign(t *testing.T, r Request) [][]cluster.BrokerID {
	t.Helper()
	out, err := Assign(r)
	if err != nil {
		t.Fatal(err)
	}
	for n, p := range out {
		seen := slices.Clone(p)
		slices.Sort(seen)
		if len(p) != r.ReplicationFactor || len(slices.Compact(seen)) != len(p) {
			t.Fatalf("partition %d: %v is no assignment of %d", n, p, r.ReplicationFactor)
		}
	}
	return out
}

func spread(counts map[cluster.BrokerID]int, brokers []Broker) int {
	low, high := 1<<30, 0
	for _, b := range brokers {
		low, high = min(low, counts[b.ID]), max(high, counts[b.ID])
	}
	return high - low
}

func TestAssignIsEven(t *testing.T) {
	for _, c := range []struct{ brokers, partitions, rf int }{{3, 6, 3}, {3, 7, 2}, {5, 100, 3}, {10, 33, 3}, {4, 1, 4}, {1, 5, 1}, {7, 1000, 2}} {
		for seed := range uint64(20) {
			brokers := some(c.brokers, noRack)
			replicas, leaders := map[cluster.BrokerID]int{}, map[cluster.BrokerID]int{}
			for _, p := range assign(t, Request{Brokers: brokers, Partitions: c.partitions, ReplicationFactor: c.rf, Seed: seed}) {
				leaders[p[0]]++
				for _, b := range p {
					replicas[b]++
				}
			}
			if spread(replicas, brokers) > 1 || spread(leaders, brokers) > 1 {
				t.Errorf("%+v seed %d: replicas %v leaders %v", c, seed, replicas, leaders)
			}
		}
	}
}

func TestAssignUsesEveryRack(t *testing.T) {
	brokers := some(6, func(i int) string { return fmt.Sprint("r", i%3) })
	racks := map[cluster.BrokerID]string{}
	for _, b := range brokers {
		racks[b.ID] = b.Rack
	}
	replicas := map[cluster.BrokerID]int{}
	for n, p := range assign(t, Request{Brokers: brokers, Partitions: 50, ReplicationFactor: 3, Seed: 1}) {
		used := map[string]bool{}
		for _, b := range p {
			used[racks[b]] = true
			replicas[b]++
		}
		if len(used) != 3 {
			t.Errorf("partition %d: %v has %d racks", n, p, len(used))
		}
	}
	if spread(replicas, brokers) > 1 {
		t.Errorf("replicas %v", replicas)
	}
}

func TestAssignWithFewerRacksThanReplicasSharesThem(t *testing.T) {
	brokers := some(4, func(i int) string { return fmt.Sprint("r", i%2) })
	for n, p := range assign(t, Request{Brokers: brokers, Partitions: 20, ReplicationFactor: 3, Seed: 2}) {
		inFirst := 0
		for _, b := range p {
			inFirst += 1 - int(b)%2
		}
		if inFirst == 0 || inFirst == 3 {
			t.Errorf("partition %d: %v is in one rack", n, p)
		}
	}
}

// When a leader dies, its partitions go to their second replicas: these must not all be one broker.
func TestAssignSpreadsTheSuccessors(t *testing.T) {
	next := map[cluster.BrokerID]int{}
	for _, p := range assign(t, Request{Brokers: some(5, noRack), Partitions: 200, ReplicationFactor: 3, Seed: 3}) {
		if p[0] == 0 {
			next[p[1]]++
		}
	}
	if len(next) != 4 {
		t.Fatalf("the partitions of broker 0 go to %v", next)
	}
	for b, n := range next {
		if n > 20 {
			t.Errorf("%d of 40 go to broker %d", n, b)
		}
	}
}

func TestAssignEvensOutTheCluster(t *testing.T) {
	brokers := some(3, noRack)
	brokers[0].Replicas, brokers[0].Leaders = 100, 100
	for _, p := range assign(t, Request{Brokers: brokers, Partitions: 1, ReplicationFactor: 2, Seed: 9}) {
		if slices.Contains(p, 0) {
			t.Errorf("%v uses the loaded broker", p)
		}
	}
	if p := assign(t, Request{Brokers: brokers, Partitions: 1, ReplicationFactor: 3, Seed: 9}); p[0][0] == 0 {
		t.Errorf("%v is led by the loaded broker", p)
	}
}

func TestAssignPrefersBrokersThatAreAlive(t *testing.T) {
	brokers := some(4, noRack)
	brokers[1].Eligible = false
	for n, p := range assign(t, Request{Brokers: brokers, Partitions: 30, ReplicationFactor: 3, Seed: 4}) {
		if slices.Contains(p, 1) {
			t.Errorf("partition %d: %v uses a dead broker though three live", n, p)
		}
	}
	brokers[2].Eligible = false
	for n, p := range assign(t, Request{Brokers: brokers, Partitions: 30, ReplicationFactor: 3, Seed: 4}) {
		if !slices.Contains(p, 0) || !slices.Contains(p, 3) || p[0] == 1 || p[0] == 2 {
			t.Errorf("partition %d: %v", n, p)
		}
	}
}

func TestAssignIsAFunctionOfItsArguments(t *testing.T) {
	r := Request{Brokers: some(5, noRack), Partitions: 50, ReplicationFactor: 3, Seed: 5}
	a, b := assign(t, r), assign(t, r)
	if !slices.EqualFunc(a, b, slices.Equal[[]cluster.BrokerID]) {
		t.Error("two runs differ")
	}
	first := map[cluster.BrokerID]bool{}
	for seed := range uint64(50) {
		r.Seed, r.Partitions = seed, 1
		first[assign(t, r)[0][0]] = true
	}
	if len(first) != 5 {
		t.Errorf("small topics begin on %v only", first)
	}
}

func TestAssignRefuses(t *testing.T) {
	dead := some(2, noRack)
	dead[0].Eligible, dead[1].Eligible = false, false
	for _, c := range []struct {
		r    Request
		want cluster.Code
	}{
		{Request{Brokers: some(3, noRack), Partitions: 0, ReplicationFactor: 1}, cluster.CodeInvalidPartitions},
		{Request{Brokers: some(3, noRack), Partitions: 1, ReplicationFactor: 0}, cluster.CodeInvalidReplication},
		{Request{Brokers: some(3, noRack), Partitions: 1, ReplicationFactor: 4}, cluster.CodeInvalidReplication},
		{Request{Brokers: dead, Partitions: 1, ReplicationFactor: 1}, cluster.CodeInvalidReplication},
		{Request{Partitions: 1, ReplicationFactor: 1}, cluster.CodeInvalidReplication},
	} {
		var e *cluster.Error
		if _, err := Assign(c.r); !errors.As(err, &e) || e.Code != c.want {
			t.Errorf("%+v: %v, want %v", c.r, err, c.want)
		}
	}
}

func TestElect(t *testing.T) {
	alive := func(ids ...cluster.BrokerID) func(cluster.BrokerID) bool {
		return func(b cluster.BrokerID) bool { return slices.Contains(ids, b) }
	}
	p := &cluster.Partition{Replicas: []cluster.BrokerID{3, 1, 2, 4}, ISR: []cluster.BrokerID{1, 3}, ELR: []cluster.BrokerID{2}, Leader: 1, LastLeader: cluster.NoBroker}
	for _, c := range []struct {
		alive         []cluster.BrokerID
		clean, unsafe Election
	}{
		{[]cluster.BrokerID{1, 2, 3, 4}, Election{1, KindISR}, Election{1, KindISR}}, // the leader stays
		{[]cluster.BrokerID{2, 3, 4}, Election{3, KindISR}, Election{3, KindISR}},
		{[]cluster.BrokerID{2, 4}, Election{2, KindELR}, Election{2, KindELR}},
		{[]cluster.BrokerID{4}, Election{cluster.NoBroker, KindNone}, Election{4, KindUnclean}},
		{nil, Election{cluster.NoBroker, KindNone}, Election{cluster.NoBroker, KindNone}},
	} {
		if got := Elect(p, alive(c.alive...)); got != c.clean {
			t.Errorf("alive %v: %+v, want %+v", c.alive, got, c.clean)
		}
		if got := ElectUnclean(p, alive(c.alive...)); got != c.unsafe {
			t.Errorf("unclean, alive %v: %+v, want %+v", c.alive, got, c.unsafe)
		}
	}
	gone := &cluster.Partition{Replicas: []cluster.BrokerID{1, 2, 3}, Leader: cluster.NoBroker, LastLeader: 2}
	if got := ElectUnclean(gone, alive(1, 2, 3)); got.Leader != 2 {
		t.Errorf("unclean: %+v, want the last leader", got)
	}
}

// Replicas that have restarted lead only where nobody else may, and the longest log of all first.
func TestCase60_ElectComparesWhoHasRestarted(t *testing.T) {
	none := Election{cluster.NoBroker, KindNone}
	back := func(b cluster.BrokerID, epoch record.LeaderEpoch, end record.Offset) cluster.Returned {
		return cluster.Returned{Broker: b, Log: cluster.LogPosition{LastEpoch: epoch, LogEnd: end}}
	}
	for name, c := range map[string]struct {
		returned   []cluster.Returned
		alive      []cluster.BrokerID
		soon, late Election
	}{
		"one stayed up":          {[]cluster.Returned{back(1, 5, 90), back(3, 5, 90)}, []cluster.BrokerID{1, 2, 3}, Election{2, KindELR}, Election{2, KindELR}},
		"one is away":            {[]cluster.Returned{back(1, 5, 90), back(3, 5, 80)}, []cluster.BrokerID{1, 3}, none, Election{1, KindISR}},
		"all are back":           {[]cluster.Returned{back(1, 5, 90), back(2, 5, 91), back(3, 5, 80)}, []cluster.BrokerID{1, 2, 3}, Election{2, KindELR}, Election{2, KindELR}},
		"a newer epoch is more":  {[]cluster.Returned{back(1, 5, 90), back(2, 5, 91), back(3, 6, 80)}, []cluster.BrokerID{1, 2, 3}, Election{3, KindISR}, Election{3, KindISR}},
		"the longest died again": {[]cluster.Returned{back(1, 5, 90), back(2, 5, 91), back(3, 5, 80)}, []cluster.BrokerID{1, 3}, none, Election{1, KindISR}},
		"one like it is here":    {[]cluster.Returned{back(1, 5, 90), back(2, 5, 91), back(3, 5, 91)}, []cluster.BrokerID{1, 3}, Election{3, KindISR}, Election{3, KindISR}},
		"empty logs are equal":   {[]cluster.Returned{back(1, record.NoEpoch, 0), back(2, record.NoEpoch, 0), back(3, record.NoEpoch, 0)}, []cluster.BrokerID{1}, Election{1, KindISR}, Election{1, KindISR}},
		"one lacks what is deleted": {[]cluster.Returned{back(1, 5, 90), back(2, 4, 95), {Broker: 3, Log: cluster.LogPosition{LastEpoch: record.NoEpoch, LogStart: 93, LogEnd: 93}}},
			[]cluster.BrokerID{1, 2, 3}, Election{2, KindELR}, Election{2, KindELR}},
		"an epoch that has not been": {[]cluster.Returned{back(1, 5, 90), back(2, 5, 80), back(3, 261, 90)}, []cluster.BrokerID{1, 2, 3}, Election{1, KindISR}, Election{1, KindISR}},
		"nobody reaches what is deleted": {[]cluster.Returned{back(1, 5, 90), {Broker: 3, Log: cluster.LogPosition{LastEpoch: record.NoEpoch, LogStart: 93, LogEnd: 93}}},
			[]cluster.BrokerID{1}, none, none},
		"only others are here":    {[]cluster.Returned{back(1, 5, 90)}, []cluster.BrokerID{4}, none, none},
		"nobody is here any more": {[]cluster.Returned{back(1, 5, 90), back(2, 5, 91), back(3, 5, 91)}, nil, none, none},
	} {
		p := &cluster.Partition{Replicas: []cluster.BrokerID{3, 1, 2, 4}, ISR: []cluster.BrokerID{1, 3}, ELR: []cluster.BrokerID{2}, Leader: cluster.NoBroker,
			LeaderEpoch: 7, LastLeader: 4, Returned: c.returned}
		alive := func(b cluster.BrokerID) bool { return slices.Contains(c.alive, b) }
		if got := Elect(p, alive); got != c.soon {
			t.Errorf("%s: %+v, want %+v", name, got, c.soon)
		}
		if got := ElectLate(p, alive); got != c.late {
			t.Errorf("%s, late: %+v, want %+v", name, got, c.late)
		}
		if got := ElectUnclean(p, alive); c.late != none && got != c.late {
			t.Errorf("%s, unclean: %+v, want %+v", name, got, c.late)
		}
	}
}

// TestCase11_WhoseLogCouldNotBeOpenedIsWaitedFor: nobody knows what it has. It is not empty, it does not lead before it can be opened, and then only where nobody is known to have more.
func TestCase11_WhoseLogCouldNotBeOpenedIsWaitedFor(t *testing.T) {
	none := Election{cluster.NoBroker, KindNone}
	unopened := func(b cluster.BrokerID) cluster.Returned {
		return cluster.Returned{Broker: b, Log: cluster.UnknownLog}
	}
	back := func(b cluster.BrokerID, end record.Offset) cluster.Returned {
		return cluster.Returned{Broker: b, Log: cluster.LogPosition{LastEpoch: 5, LogEnd: end}}
	}
	for name, c := range map[string]struct {
		returned            []cluster.Returned
		works               []cluster.BrokerID
		soon, late, unclean Election
	}{
		"one, and it does not work yet": {[]cluster.Returned{back(1, 90), back(2, 80), unopened(3)}, []cluster.BrokerID{1, 2, 4}, none, Election{1, KindISR}, Election{1, KindISR}},
		"one, and it works by now":      {[]cluster.Returned{back(1, 90), back(2, 80), unopened(3)}, []cluster.BrokerID{1, 2, 3, 4}, none, Election{1, KindISR}, Election{1, KindISR}},
		"one, and the others are empty": {[]cluster.Returned{back(1, 0), back(2, 0), unopened(3)}, []cluster.BrokerID{1, 2}, none, Election{1, KindISR}, Election{1, KindISR}},
		"one, and another stayed up":    {[]cluster.Returned{back(2, 80), unopened(3)}, []cluster.BrokerID{1, 2, 3, 4}, Election{1, KindISR}, Election{1, KindISR}, Election{1, KindISR}},
		"all, and one works by now":     {[]cluster.Returned{unopened(1), unopened(2), unopened(3)}, []cluster.BrokerID{2}, none, Election{2, KindELR}, none},
		"all, and two work by now":      {[]cluster.Returned{unopened(1), unopened(2), unopened(3)}, []cluster.BrokerID{1, 2}, none, Election{1, KindISR}, none},
		"all, and none works":           {[]cluster.Returned{unopened(1), unopened(2), unopened(3)}, []cluster.BrokerID{4}, none, none, Election{4, KindUnclean}},
		"one, and the others are away":  {[]cluster.Returned{unopened(3)}, []cluster.BrokerID{3}, none, Election{3, KindISR}, none},
	} {
		p := &cluster.Partition{Replicas: []cluster.BrokerID{3, 1, 2, 4}, ISR: []cluster.BrokerID{1, 3}, ELR: []cluster.BrokerID{2}, Leader: cluster.NoBroker,
			LeaderEpoch: 7, LastLeader: 3, Returned: c.returned}
		works := func(b cluster.BrokerID) bool { return slices.Contains(c.works, b) }
		for how, got := range map[string][2]Election{"soon": {Elect(p, works), c.soon}, "late": {ElectLate(p, works), c.late}, "unclean": {ElectUnclean(p, works), c.unclean}} {
			if got[0] != got[1] {
				t.Errorf("%s, %s: %+v, want %+v", name, how, got[0], got[1])
			}
		}
	}
}

func TestPreferred(t *testing.T) {
	all := func(cluster.BrokerID) bool { return true }
	for _, c := range []struct {
		p    cluster.Partition
		want bool
	}{
		{cluster.Partition{Replicas: []cluster.BrokerID{1, 2}, ISR: []cluster.BrokerID{1, 2}, Leader: 2}, true},
		{cluster.Partition{Replicas: []cluster.BrokerID{1, 2}, ISR: []cluster.BrokerID{1, 2}, Leader: 1}, false},
		{cluster.Partition{Replicas: []cluster.BrokerID{1, 2}, ISR: []cluster.BrokerID{2}, Leader: 2}, false},
		{cluster.Partition{Replicas: []cluster.BrokerID{1, 2}, ISR: []cluster.BrokerID{1, 2}, Removing: []cluster.BrokerID{1}, Leader: 2}, false},
	} {
		if _, got := Preferred(&c.p, all); got != c.want {
			t.Errorf("%+v: %v", c.p, got)
		}
	}
}

func TestShards(t *testing.T) {
	leaders := make([]cluster.BrokerID, cluster.ShardCount)
	for i := range leaders {
		leaders[i] = cluster.NoBroker
	}
	step := func(eligible []cluster.BrokerID, moves int) (changed int, counts map[cluster.BrokerID]int) {
		for _, m := range Shards(leaders, eligible, nil, moves) {
			leaders[m.Shard] = m.Leader
			changed++
		}
		counts = map[cluster.BrokerID]int{}
		for _, b := range leaders {
			counts[b]++
		}
		return changed, counts
	}
	for _, c := range []struct {
		eligible []cluster.BrokerID
		moves    int
		changed  int
		want     map[cluster.BrokerID]int
	}{
		{nil, 10, 0, map[cluster.BrokerID]int{-1: 64}},
		{[]cluster.BrokerID{1}, 0, 64, map[cluster.BrokerID]int{1: 64}},
		{[]cluster.BrokerID{1, 2, 3}, 0, 0, map[cluster.BrokerID]int{1: 64}},
		{[]cluster.BrokerID{1, 2, 3}, 10, 10, map[cluster.BrokerID]int{1: 54, 2: 5, 3: 5}},
		{[]cluster.BrokerID{1, 2, 3}, 64, 32, map[cluster.BrokerID]int{1: 22, 2: 21, 3: 21}},
		{[]cluster.BrokerID{1, 2, 3}, 64, 0, map[cluster.BrokerID]int{1: 22, 2: 21, 3: 21}},
		{[]cluster.BrokerID{2, 3}, 0, 22, map[cluster.BrokerID]int{2: 32, 3: 32}},
		{nil, 0, 64, map[cluster.BrokerID]int{-1: 64}},
	} {
		changed, counts := step(c.eligible, c.moves)
		if changed != c.changed || fmt.Sprint(counts) != fmt.Sprint(c.want) {
			t.Errorf("eligible %v, %d moves: %d changed, %v; want %d, %v", c.eligible, c.moves, changed, counts, c.changed, c.want)
		}
	}
}

func TestBrokersCountsTheLoad(t *testing.T) {
	txn := cluster.EmptyImage().Txn()
	txn.PutBroker(&cluster.Broker{ID: 1, Rack: "a"})
	txn.PutBroker(&cluster.Broker{ID: 2, Fenced: true})
	tp := cluster.TopicPartition{Topic: cluster.TopicID{1}}
	txn.PutPartition(tp, &cluster.Partition{Replicas: []cluster.BrokerID{1, 2}, Leader: 1})
	tp.Partition = 1
	txn.PutPartition(tp, &cluster.Partition{Replicas: []cluster.BrokerID{2, 9}, Leader: cluster.NoBroker})
	want := []Broker{{ID: 1, Rack: "a", Eligible: true, Replicas: 1, Leaders: 1}, {ID: 2, Replicas: 2}}
	if got := Brokers(txn.Commit(1)); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
