package cluster

import "github.com/moldau-log/moldau/record"

// Command is one entry of the metadata log. The set is closed. Commands carry results plus preconditions, or intent where DESIGN says that
// Apply computes the effect; ids and wall time are fields, chosen by the proposer, so that Apply is deterministic.
type Command interface{ command() }

// InitCluster is the first command of every cluster: it gives the cluster its id. A second one is refused.
type InitCluster struct {
	Cluster      ClusterID
	FeatureLevel int32
	CreatedMs    int64
}

// RegisterBroker registers one run of a broker. The broker epoch is the index of the entry. It starts fenced; in the same step it loses the
// leadership of every partition that it leads, and leaves ISR and ELR of what it reports as damaged (RF 1 keeps its only replica).
type RegisterBroker struct {
	Broker Broker // Epoch is ignored, Fenced is set
	// Cluster is the cluster id of the broker's directory; zero for an empty directory.
	Cluster ClusterID
	// PreviousEpoch is the broker epoch found in the clean-stop marker, NoBrokerEpoch after an unclean stop.
	PreviousEpoch BrokerEpoch
	// PreviousStarts are the runs that were begun since that marker and never came to know of a registration. At most 16; none without a marker.
	PreviousStarts []IncarnationID
	// Damaged lists partitions whose recovery found damage or missed the directory, and after an unclean stop those marked relaxed.
	Damaged []TopicPartition
	// Live says that the controller knows a live session of another directory under this id, so the registration must be refused.
	Live bool
	// Logs are the logs that recovery has opened, and UnknownLog for those that the disk did not let it open. LogsTold says that these are all: what is not among them is empty. A life
	// that goes on tells only UnknownLog, of those that do not work, and below LevelLogs nothing is told.
	Logs     []ReplicaLog
	LogsTold bool
}

// ReplicaLog is how far a broker's log of a partition goes.
type ReplicaLog struct {
	Partition TopicPartition
	Log       LogPosition
}

// UnregisterBroker removes a broker for good, with its tombstones. Refused while it holds replicas.
type UnregisterBroker struct{ Broker BrokerID }

// FenceBroker takes a broker whose session ended out of leadership and ISR. Intent: Apply computes the effect over all its partitions.
type FenceBroker struct {
	Broker BrokerID
	Epoch  BrokerEpoch
}

// UnfenceBroker lets a caught-up, live broker lead and join ISRs; partitions without a leader that it may lead elect it.
type UnfenceBroker struct {
	Broker BrokerID
	Epoch  BrokerEpoch
}

// DrainBroker begins an orderly shutdown: leaderships and coordinator shards move away, then the broker leaves the ISRs.
type DrainBroker struct {
	Broker BrokerID
	Epoch  BrokerEpoch
}

// CreateTopic creates a topic. Assignment is the result of placement, or what the client asked for.
type CreateTopic struct {
	ID         TopicID
	Name       string
	Assignment [][]BrokerID // per partition, preferred leader first
	Configs    Configs
	CreatedMs  int64
}

// DeleteTopic removes a topic, its partitions, its configs and the offsets committed for it, and leaves tombstones.
type DeleteTopic struct{ ID TopicID }

// AddPartitions grows a topic; Assignment holds the new partitions only. Have is the precondition: the count before.
type AddPartitions struct {
	Topic      TopicID
	Have       int32
	Assignment [][]BrokerID
}

// ConfigResource says what a config belongs to.
type ConfigResource struct {
	Kind ConfigKind
	Name string // topic name; broker id in decimal; empty for the cluster default
}

// ConfigKind is a kind of config resource.
type ConfigKind int8

// The kinds of config resources.
const (
	ConfigTopic ConfigKind = iota
	ConfigBroker
	ConfigClusterDefault
)

// ConfigOp sets or removes one key.
type ConfigOp struct {
	Key    string
	Value  string
	Delete bool
}

// AlterConfigs changes configs. A change that lowers the effective min.insync.replicas clears the ELR in the same step.
type AlterConfigs struct {
	Resource ConfigResource
	Ops      []ConfigOp
}

// PartitionChange is a decided change of one partition under the precondition PartitionEpoch. Apply refuses it alone if the epoch moved or the leader is
// not in ISR or ELR as of apply (unless Unclean).
type PartitionChange struct {
	Partition      TopicPartition
	PartitionEpoch PartitionEpoch
	// Leader is the new leader, NoBroker to leave the partition without one; the leader epoch rises with every change of leader, and when BumpEpoch
	// asks for it.
	Leader    BrokerID
	BumpEpoch bool
	Unclean   bool
	// Offline are replicas whose log failed on a broker that is alive: they leave the ISR and the ELR in the same step, unless nobody would be left.
	Offline []BrokerID
}

// ElectLeaders applies a batch of elections; each is accepted or refused alone.
type ElectLeaders struct{ Changes []PartitionChange }

// ISRMember is one member of a proposed ISR with the broker epoch under which the leader knows it.
type ISRMember struct {
	Broker BrokerID
	Epoch  BrokerEpoch
}

// AlterPartition is a leader's proposal of a new ISR, a compare-and-set on the partition epoch.
type AlterPartition struct {
	Leader       BrokerID
	LeaderBroker BrokerEpoch
	Changes      []ISRChange
}

// ISRChange is one partition's proposal in an AlterPartition.
type ISRChange struct {
	Partition      TopicPartition
	LeaderEpoch    record.LeaderEpoch
	PartitionEpoch PartitionEpoch
	ISR            []ISRMember
}

// Reassign starts (Replicas set), replaces, or cancels (Replicas empty) a reassignment.
type Reassign struct {
	Partition TopicPartition
	Replicas  []BrokerID
}

// FinishReassign ends a reassignment whose adding replicas are all in the ISR: the removing ones go, with tombstones.
type FinishReassign struct {
	Partition      TopicPartition
	PartitionEpoch PartitionEpoch
}

// SetLogStart commits the new log start of partitions (DeleteRecords). It never moves back.
type SetLogStart struct {
	Partition   TopicPartition
	LeaderEpoch record.LeaderEpoch
	LogStart    record.Offset
}

// AllocateProducerIDs gives a block of producer ids to a broker: ids never come twice.
type AllocateProducerIDs struct {
	Broker BrokerID
	Epoch  BrokerEpoch
	Count  int64
}

// AssignShards moves coordinator shards; each move raises the shard epoch.
type AssignShards struct{ Moves []ShardMove }

// ShardMove gives a shard to a broker under the precondition of the shard epoch before.
type ShardMove struct {
	Shard  ShardID
	Epoch  ShardEpoch
	Leader BrokerID
}

// ConfirmRemoved says that a broker has removed replicas: their tombstones go.
type ConfirmRemoved struct{ Tombstones []Tombstone }

// Metadata feature levels.
const (
	LevelFirst = 1
	// LevelLogs lets registrations tell how far the logs go.
	LevelLogs = 2
	// LevelNewest is what a new cluster begins with.
	LevelNewest = LevelLogs
)

// SetFeatureLevel finalizes a metadata feature level that every registered broker supports.
type SetFeatureLevel struct{ Level int32 }

// GroupAppend carries the batches of all coordinator shards that one broker leads. Each batch is accepted or refused alone.
type GroupAppend struct {
	Broker  BrokerID
	Batches []GroupBatch
	NowMs   int64
}

func (InitCluster) command()         {}
func (RegisterBroker) command()      {}
func (UnregisterBroker) command()    {}
func (FenceBroker) command()         {}
func (UnfenceBroker) command()       {}
func (DrainBroker) command()         {}
func (CreateTopic) command()         {}
func (DeleteTopic) command()         {}
func (AddPartitions) command()       {}
func (AlterConfigs) command()        {}
func (ElectLeaders) command()        {}
func (AlterPartition) command()      {}
func (Reassign) command()            {}
func (FinishReassign) command()      {}
func (SetLogStart) command()         {}
func (AllocateProducerIDs) command() {}
func (AssignShards) command()        {}
func (ConfirmRemoved) command()      {}
func (SetFeatureLevel) command()     {}
func (GroupAppend) command()         {}

// Result is what applying one command gave. Index is the Raft index of the entry: an answering broker waits until it has applied it.
type Result struct {
	Index   uint64
	Code    Code
	Message string
	// BrokerEpoch answers RegisterBroker.
	BrokerEpoch BrokerEpoch
	// FirstProducerID answers AllocateProducerIDs.
	FirstProducerID record.ProducerID
	// Items answers commands with parts (ElectLeaders, AlterPartition, AssignShards, GroupAppend), in their order.
	Items []ItemResult
}

// ItemResult is the outcome of one part of a command.
type ItemResult struct {
	Code Code
	// Partition is the partition's state after an accepted ISR change or election (nil otherwise).
	Partition *Partition
	// NextSequence is, for a group batch, the sequence that the shard expects next.
	NextSequence int64
}
