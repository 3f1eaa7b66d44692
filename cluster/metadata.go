package cluster

import (
	"cmp"
	"slices"

	"github.com/moldau-log/moldau/record"
)

// Topic is one topic as the metadata has it. Values are immutable once they are in an Image.
type Topic struct {
	ID         TopicID
	Name       string
	Partitions int32 // how many; numbered from 0
	// ReplicationFactor is what the topic was created with. Image.ReplicationFactor says what it has now.
	ReplicationFactor int16
	CreatedMs         int64 // wall clock, milliseconds
	Configs           Configs
}

// Partition is one partition as the controller has it. Values are immutable once they are in an Image.
//
// Invariants: ISR and ELR are subsets of Replicas and do not meet; Leader is NoBroker or in ISR; LeaderEpoch and PartitionEpoch never
// fall; LogStart never falls.
type Partition struct {
	// Replicas is the assignment, preferred leader first.
	Replicas []BrokerID
	// Directories holds, per replica, the data directory that has (or will have) the copy; zero until the holder is registered.
	Directories []DirectoryID
	// Adding and Removing are the replicas that a reassignment in progress brings and takes away (both are part of Replicas).
	Adding, Removing []BrokerID
	// ISR is the set of replicas that have everything below the high watermark on disk; sorted.
	ISR []BrokerID
	// ELR holds replicas that left the ISR at min.insync.replicas and are known to be complete (KIP-966); sorted.
	ELR            []BrokerID
	Leader         BrokerID
	LeaderEpoch    record.LeaderEpoch
	PartitionEpoch PartitionEpoch
	// LogStart is the committed log start: what DeleteRecords asked for.
	LogStart record.Offset
	// LastLeader is who led last, kept while Leader is NoBroker.
	LastLeader BrokerID
	// UncleanLast says that the present leader epoch began with an unclean election.
	UncleanLast bool
	// Returned are members of ISR and ELR whose brokers have registered anew since a leader has last seen that they are complete, with what their logs had then;
	// sorted by broker. Under a leader none of them is in the ISR. Their disks are believed, but compared before one of them leads (ADR 6).
	Returned []Returned
}

// Returned is a replica whose broker has begun a new life.
type Returned struct {
	Broker BrokerID
	Log    LogPosition
}

// LogPosition is how far a log goes.
type LogPosition struct {
	LastEpoch        record.LeaderEpoch // of the last record; record.NoEpoch without one
	LogStart, LogEnd record.Offset
}

// UnknownLog is said of a log that could not be opened, though nothing is known to be wrong with it: it may have as much as any. The end of -1 is on the wire and in snapshots.
var UnknownLog = LogPosition{LastEpoch: record.NoEpoch, LogEnd: -1}

// Known reports whether this is how far a log goes, and not UnknownLog.
func (l LogPosition) Known() bool { return l.LogEnd >= 0 }

// HasReplica reports whether b is assigned.
func (p *Partition) HasReplica(b BrokerID) bool { return slices.Contains(p.Replicas, b) }

// InISR reports whether b is in sync.
func (p *Partition) InISR(b BrokerID) bool { return slices.Contains(p.ISR, b) }

// InELR reports whether b is an eligible leader replica.
func (p *Partition) InELR(b BrokerID) bool { return slices.Contains(p.ELR, b) }

// HasReturned returns what the log of b had when its broker registered anew, UnknownLog where that could not be opened, if no leader has seen since that it is complete.
func (p *Partition) HasReturned(b BrokerID) (LogPosition, bool) {
	for _, r := range p.Returned {
		if r.Broker == b {
			return r.Log, true
		}
	}
	return LogPosition{}, false
}

// Unopened reports whether b, when its broker registered anew or when it was said last, had not been able to open its log.
func (p *Partition) Unopened(b BrokerID) bool {
	log, back := p.HasReturned(b)
	return back && !log.Known()
}

// DeletedTo is up to where the logs that have returned have deleted records. Only committed records are deleted, so a log that ends below lacks some.
func (p *Partition) DeletedTo() record.Offset {
	to := record.Offset(0)
	for _, r := range p.Returned {
		to = max(to, r.Log.LogStart)
	}
	return to
}

// CompareLogs orders logs by what they have: of two that reach what was deleted elsewhere, the one with records of a newer leader epoch, or with more of the same, has everything committed
// that the other has. One with records of an epoch that has not been yet has rotted, and comes last, too, and so does UnknownLog.
func (p *Partition) CompareLogs(a, b LogPosition) int {
	credible := func(l LogPosition) int {
		if l.LogEnd < p.DeletedTo() || l.LastEpoch > p.LeaderEpoch {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(credible(a), credible(b)), cmp.Compare(a.LastEpoch, b.LastEpoch), cmp.Compare(a.LogEnd, b.LogEnd))
}

// Directory returns the data directory that holds b's copy, zero when unknown.
func (p *Partition) Directory(b BrokerID) DirectoryID {
	if i := slices.Index(p.Replicas, b); i >= 0 && i < len(p.Directories) {
		return p.Directories[i]
	}
	return DirectoryID{}
}

// Clone returns a deep copy that may be changed.
func (p *Partition) Clone() *Partition {
	c := *p
	c.Replicas = slices.Clone(p.Replicas)
	c.Directories = slices.Clone(p.Directories)
	c.Adding = slices.Clone(p.Adding)
	c.Removing = slices.Clone(p.Removing)
	c.ISR = slices.Clone(p.ISR)
	c.ELR = slices.Clone(p.ELR)
	c.Returned = slices.Clone(p.Returned)
	return &c
}

// Listener is one advertised address of a broker.
type Listener struct {
	Name string // "kafka", "grpc", "http", or a name from the configuration
	Host string
	Port int32
}

// Broker is one registered broker. Values are immutable once they are in an Image.
type Broker struct {
	ID          BrokerID
	Epoch       BrokerEpoch
	Directory   DirectoryID
	Incarnation IncarnationID
	PeerAddress string // host:port of the peer port, by name where it has one
	Listeners   []Listener
	Rack        string
	Version     string // of the software, for people
	// MinLevel and MaxLevel are the metadata feature levels that the broker's software supports.
	MinLevel, MaxLevel int32
	// Fenced brokers lead nothing and are in no new ISR; a broker starts fenced.
	Fenced bool
	// Draining brokers shut down in an orderly way: their leaderships move away first.
	Draining bool
}

// Listener returns the advertised address of that name.
func (b *Broker) Listener(name string) (Listener, bool) {
	for _, l := range b.Listeners {
		if l.Name == name {
			return l, true
		}
	}
	return Listener{}, false
}

// Eligible reports whether the broker may lead and may join an ISR.
func (b *Broker) Eligible() bool { return !b.Fenced && !b.Draining }

// Shard is one coordinator shard: who leads it, in which epoch, and the next group batch sequence it accepts.
type Shard struct {
	Leader       BrokerID
	Epoch        ShardEpoch
	NextSequence int64
}

// Tombstone marks a replica that is to be removed from one data directory. It stays until its holder confirms or is unregistered.
type Tombstone struct {
	Partition TopicPartition
	Directory DirectoryID
}

// Configs is a sorted list of key and value; the order makes it deterministic.
type Configs []ConfigEntry

// ConfigEntry is one set configuration value.
type ConfigEntry struct{ Key, Value string }

// Get returns the value set for key.
func (c Configs) Get(key string) (string, bool) {
	i, ok := slices.BinarySearchFunc(c, key, func(e ConfigEntry, k string) int {
		switch {
		case e.Key < k:
			return -1
		case e.Key > k:
			return 1
		}
		return 0
	})
	if !ok {
		return "", false
	}
	return c[i].Value, true
}

// With returns a copy in which key has value.
func (c Configs) With(key, value string) Configs {
	out := c.Without(key)
	i, _ := slices.BinarySearchFunc(out, key, func(e ConfigEntry, k string) int {
		if e.Key < k {
			return -1
		}
		return 1
	})
	return slices.Insert(out, i, ConfigEntry{key, value})
}

// Without returns a copy in which key is not set.
func (c Configs) Without(key string) Configs {
	out := make(Configs, 0, len(c)+1)
	for _, e := range c {
		if e.Key != key {
			out = append(out, e)
		}
	}
	return out
}
