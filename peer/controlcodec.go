package peer

import (
	"fmt"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
	"github.com/moldau-log/moldau/record"
)

// The numbers of the control messages, on the wire; a request and its answer share one. New fields are appended to a message: a reader skips
// what it does not know, and reads what is not there as an error, so a field may only be sent at a protocol version that has it; or one that may be
// missing is the last, and is read as such (laterPartitions).
const (
	whatProbe     uint8 = 1
	whatJoin      uint8 = 2
	whatPropose   uint8 = 3
	whatHeartbeat uint8 = 4
	whatRedirect  uint8 = 5 // answer only
)

// encodeRequest gives a request's number and payload.
func encodeRequest(req controller.Request) (uint8, []byte, error) {
	var w writer
	switch r := req.(type) {
	case controller.ProbeRequest:
		w.i32(int32(r.From))
		w.uuid(r.Directory)
		w.i32(r.BootstrapExpect)
		return whatProbe, w.b, nil
	case controller.JoinRequest:
		w.i32(int32(r.Broker))
		w.uuid(r.Directory)
		w.str(r.Address)
		w.uuid(r.Cluster)
		return whatJoin, w.b, nil
	case controller.ProposeRequest:
		return whatPropose, r.Command, nil
	case controller.HeartbeatRequest:
		w.i32(int32(r.Broker))
		w.i64(int64(r.Epoch))
		w.u64(r.Applied)
		w.flag(r.WantDrain)
		w.partitions(r.Offline)
		w.brokers(r.Refusing)
		w.partitions(r.Online)
		return whatHeartbeat, w.b, nil
	}
	return 0, nil, fmt.Errorf("peer: %T has no encoding", req)
}

func decodeRequest(what uint8, b []byte) (controller.Request, error) {
	r := reader{b: b}
	var req controller.Request
	switch what {
	case whatProbe:
		req = controller.ProbeRequest{From: cluster.BrokerID(r.i32()), Directory: r.uuid(), BootstrapExpect: r.i32()}
	case whatJoin:
		req = controller.JoinRequest{Broker: cluster.BrokerID(r.i32()), Directory: r.uuid(), Address: r.str(), Cluster: r.uuid()}
	case whatPropose:
		req = controller.ProposeRequest{Command: b}
	case whatHeartbeat:
		req = controller.HeartbeatRequest{
			Broker:    cluster.BrokerID(r.i32()),
			Epoch:     cluster.BrokerEpoch(r.i64()),
			Applied:   r.u64(),
			WantDrain: r.flag(),
			Offline:   r.partitions(),
			Refusing:  r.brokers(),
			Online:    r.laterPartitions(),
		}
	default:
		return nil, fmt.Errorf("peer: control request %d is not known", what)
	}
	return req, r.err
}

// encodeResponse gives an answer's number and payload.
func encodeResponse(res controller.Response) (uint8, []byte, error) {
	var w writer
	switch r := res.(type) {
	case controller.ProbeResponse:
		w.i32(int32(r.Broker))
		w.uuid(r.Directory)
		w.uuid(r.Cluster)
		w.flag(r.Bootstrapped)
		w.flag(r.RaftRuns)
		w.i32(r.BootstrapExpect)
		w.str(r.LeaderAddress)
		w.str(r.LeaderServer)
		return whatProbe, w.b, nil
	case controller.JoinResponse:
		w.i32(int32(r.Code))
		w.str(r.Message)
		w.uuid(r.Cluster)
		return whatJoin, w.b, nil
	case controller.ProposeResponse:
		w.result(r.Result)
		return whatPropose, w.b, nil
	case controller.HeartbeatResponse:
		w.i32(int32(r.Code))
		w.flag(r.Fenced)
		w.flag(r.MayShutDown)
		w.u64(r.Applied)
		return whatHeartbeat, w.b, nil
	case controller.Redirect:
		w.str(r.Address)
		w.str(r.Server)
		return whatRedirect, w.b, nil
	}
	return 0, nil, fmt.Errorf("peer: %T has no encoding", res)
}

func decodeResponse(what uint8, b []byte) (controller.Response, error) {
	r := reader{b: b}
	var res controller.Response
	switch what {
	case whatProbe:
		res = controller.ProbeResponse{
			Broker: cluster.BrokerID(r.i32()), Directory: r.uuid(), Cluster: r.uuid(), Bootstrapped: r.flag(), RaftRuns: r.flag(),
			BootstrapExpect: r.i32(), LeaderAddress: r.str(), LeaderServer: r.str(),
		}
	case whatJoin:
		res = controller.JoinResponse{Code: cluster.Code(r.i32()), Message: r.str(), Cluster: r.uuid()}
	case whatPropose:
		res = controller.ProposeResponse{Result: r.result()}
	case whatHeartbeat:
		res = controller.HeartbeatResponse{Code: cluster.Code(r.i32()), Fenced: r.flag(), MayShutDown: r.flag(), Applied: r.u64()}
	case whatRedirect:
		res = controller.Redirect{Address: r.str(), Server: r.str()}
	default:
		return nil, fmt.Errorf("peer: control answer %d is not known", what)
	}
	return res, r.err
}

func (w *writer) partition(tp cluster.TopicPartition) {
	w.uuid(tp.Topic)
	w.i32(tp.Partition)
}

func (r *reader) partition() cluster.TopicPartition {
	return cluster.TopicPartition{Topic: r.uuid(), Partition: r.i32()}
}

func (w *writer) partitions(tps []cluster.TopicPartition) {
	w.u32(uint32(len(tps)))
	for _, tp := range tps {
		w.partition(tp)
	}
}

func (r *reader) partitions() []cluster.TopicPartition {
	return list(r, 20, (*reader).partition)
}

// laterPartitions is partitions at the end of a message to which earlier versions did not append it.
func (r *reader) laterPartitions() []cluster.TopicPartition {
	if r.err == nil && len(r.b) == 0 {
		return nil
	}
	return r.partitions()
}

func (w *writer) brokers(ids []cluster.BrokerID) {
	w.u32(uint32(len(ids)))
	for _, id := range ids {
		w.i32(int32(id))
	}
}

func (r *reader) broker() cluster.BrokerID { return cluster.BrokerID(r.i32()) }

func (r *reader) brokers() []cluster.BrokerID { return list(r, 4, (*reader).broker) }

func (w *writer) uuids(ids []cluster.UUID) {
	w.u32(uint32(len(ids)))
	for _, id := range ids {
		w.uuid(id)
	}
}

// list reads a counted list; an empty one is nil.
func list[T any](r *reader, size int, item func(*reader) T) []T {
	n := r.count(size)
	if n == 0 {
		return nil
	}
	out := make([]T, 0, n)
	for range n {
		out = append(out, item(r))
	}
	return out
}

func (w *writer) result(v cluster.Result) {
	w.u64(v.Index)
	w.i32(int32(v.Code))
	w.str(v.Message)
	w.i64(int64(v.BrokerEpoch))
	w.i64(int64(v.FirstProducerID))
	w.u32(uint32(len(v.Items)))
	for _, item := range v.Items {
		w.i32(int32(item.Code))
		w.i64(item.NextSequence)
		w.flag(item.Partition != nil)
		if item.Partition != nil {
			w.state(item.Partition)
		}
	}
}

func (r *reader) result() cluster.Result {
	return cluster.Result{
		Index:           r.u64(),
		Code:            cluster.Code(r.i32()),
		Message:         r.str(),
		BrokerEpoch:     cluster.BrokerEpoch(r.i64()),
		FirstProducerID: record.ProducerID(r.i64()),
		Items:           list(r, 13, (*reader).item),
	}
}

func (r *reader) item() cluster.ItemResult {
	item := cluster.ItemResult{Code: cluster.Code(r.i32()), NextSequence: r.i64()}
	if r.flag() {
		item.Partition = r.state()
	}
	return item
}

// state writes one partition's metadata.
func (w *writer) state(p *cluster.Partition) {
	w.brokers(p.Replicas)
	w.uuids(p.Directories)
	w.brokers(p.Adding)
	w.brokers(p.Removing)
	w.brokers(p.ISR)
	w.brokers(p.ELR)
	w.i32(int32(p.Leader))
	w.i32(int32(p.LeaderEpoch))
	w.i32(int32(p.PartitionEpoch))
	w.i64(int64(p.LogStart))
	w.i32(int32(p.LastLeader))
	w.flag(p.UncleanLast)
}

func (r *reader) state() *cluster.Partition {
	return &cluster.Partition{
		Replicas:       r.brokers(),
		Directories:    list(r, 16, (*reader).uuid),
		Adding:         r.brokers(),
		Removing:       r.brokers(),
		ISR:            r.brokers(),
		ELR:            r.brokers(),
		Leader:         r.broker(),
		LeaderEpoch:    record.LeaderEpoch(r.i32()),
		PartitionEpoch: cluster.PartitionEpoch(r.i32()),
		LogStart:       record.Offset(r.i64()),
		LastLeader:     r.broker(),
		UncleanLast:    r.flag(),
	}
}
