package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// What the client itself reports. Test with errors.Is.
var (
	// ErrClosed: the Client or Consumer is closed.
	ErrClosed = errors.New("client: closed")
	// ErrDeliveryTimeout: a record was not acknowledged within the delivery timeout. It may be in the log if the error is an ErrMayBeStored too.
	ErrDeliveryTimeout = errors.New("client: delivery timeout")
	// ErrMayBeStored: a record was not acknowledged, and its outcome is unknown: it was sent, and not every try was refused by a broker that had stored nothing. It
	// comes in the chain of the error that says why the client has given up. An error without it says that the record is not in the log.
	ErrMayBeStored = errors.New("client: the record may be in the log")
	// ErrOutcomeUnknown: the connection was lost while a broker worked on a call that is not repeated by itself: it may have been done, or not.
	ErrOutcomeUnknown = errors.New("client: the connection was lost and the outcome is unknown")
	// ErrRecordTooLarge: a record is larger than the largest batch.
	ErrRecordTooLarge = errors.New("client: record is larger than the batch limit")
	// ErrNotAssigned: a position was not committed because the member does not own the partition, not yet or not any more.
	ErrNotAssigned = errors.New("client: the partition is not assigned to this member")
	// ErrNoOffset: a partition has no committed offset, or one out of range, and WithOffsetReset(ResetNone) is set.
	ErrNoOffset = errors.New("client: no valid offset to start from")
	// ErrDataLoss: see DataLossError.
	ErrDataLoss = errors.New("client: the log no longer has what was read from it")
	// ErrCorruptBatch: a fetched batch fails its checksum.
	ErrCorruptBatch = errors.New("client: fetched batch is corrupt")
)

// Error is a refusal by a broker.
type Error struct {
	Code    moldauv1.ErrorCode
	Message string
	// Retriable says that the same request may succeed later or at another broker.
	Retriable bool
	// Leader, LeaderEpoch and Endpoint name the broker to ask instead; -1, -1 and "" when unknown.
	Leader      int32
	LeaderEpoch int32
	Endpoint    string
}

// Error gives code and message.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", codeName(e.Code), e.Message) }

// Is makes errors.Is(err, &Error{Code: c}) true for the code.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code && other.Message == ""
}

// CodeOf returns the code of a broker's refusal in err's chain, or ERROR_CODE_UNSPECIFIED.
func CodeOf(err error) moldauv1.ErrorCode {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return moldauv1.ErrorCode_ERROR_CODE_UNSPECIFIED
}

// DataLossError says that records which this consumer has read are not in the log of the partition's present leader: after an unclean
// election, or with acks below isr. Consuming goes on at End. It is an ErrDataLoss.
type DataLossError struct {
	Topic     string
	Partition int32
	// Position is where this consumer was; End is where the logs part. A consumer that has begun at a committed offset knows nothing of the records before that but the
	// leader epoch of the last one: when that is not in the log, End is Position, and it is not known how many before it are lost.
	Position, End int64
}

// Error says what is gone.
func (e *DataLossError) Error() string {
	if e.End >= e.Position {
		return fmt.Sprintf("%v: %s-%d: records before offset %d were read and then lost; it is not known how many", ErrDataLoss, e.Topic, e.Partition, e.Position)
	}
	return fmt.Sprintf("%v: %s-%d: offsets %d to %d were read and then lost", ErrDataLoss, e.Topic, e.Partition, e.End, e.Position-1)
}

// Unwrap gives ErrDataLoss.
func (e *DataLossError) Unwrap() error { return ErrDataLoss }

const codePrefix = "ERROR_CODE_"

// codeName is the name without the enum's prefix, such as NOT_LEADER.
func codeName(c moldauv1.ErrorCode) string {
	if name := c.String(); len(name) > len(codePrefix) {
		return name[len(codePrefix):]
	}
	return "UNKNOWN"
}

// fromWire turns a part's refusal into an error; nil for none.
func fromWire(e *moldauv1.Error) error {
	if e == nil {
		return nil
	}
	out := &Error{Code: e.GetCode(), Message: e.GetMessage(), Retriable: e.GetRetriable(), Leader: -1, LeaderEpoch: -1, Endpoint: e.GetEndpoint()}
	if e.Leader != nil {
		out.Leader = e.GetLeader()
	}
	if e.LeaderEpoch != nil {
		out.LeaderEpoch = e.GetLeaderEpoch()
	}
	return out
}

// FromWire turns the refusal of one part of an answer into an error (an *Error); nil when there is none.
func FromWire(e *moldauv1.Error) error { return fromWire(e) }

// fromStatus turns a gRPC error into an *Error where a broker said why, and leaves context errors recognisable.
func fromStatus(err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	out := &Error{Message: st.Message(), Leader: -1, LeaderEpoch: -1}
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != "moldau" {
				continue
			}
			out.Code = moldauv1.ErrorCode(moldauv1.ErrorCode_value[codePrefix+d.GetReason()])
			out.Leader = intField(d.GetMetadata(), "leader")
			out.LeaderEpoch = intField(d.GetMetadata(), "leader_epoch")
			out.Endpoint = d.GetMetadata()["endpoint"]
		case *errdetails.RetryInfo:
			out.Retriable = true
		}
	}
	if out.Code != moldauv1.ErrorCode_ERROR_CODE_UNSPECIFIED {
		return out
	}
	switch st.Code() {
	case codes.Canceled:
		return fmt.Errorf("client: %s: %w", st.Message(), context.Canceled)
	case codes.DeadlineExceeded:
		return fmt.Errorf("client: %s: %w", st.Message(), context.DeadlineExceeded)
	}
	return fmt.Errorf("client: %w", err)
}

func intField(m map[string]string, key string) int32 {
	n, err := strconv.ParseInt(m[key], 10, 32)
	if err != nil {
		return -1
	}
	return int32(n)
}

// unsureError is why a batch was given up that may be in the log.
type unsureError struct{ why error }

func (e *unsureError) Error() string        { return e.why.Error() + "; it may be in the log" }
func (e *unsureError) Unwrap() error        { return e.why }
func (e *unsureError) Is(target error) bool { return target == ErrMayBeStored }

// storedNothing says whether the answer to a batch tells that this try has left nothing in the log. A leader that steps down, or whose disk fails, gives the same
// answer to those that it has not taken and to those that wait to be replicated.
func storedNothing(code moldauv1.ErrorCode) bool {
	switch code {
	case moldauv1.ErrorCode_ERROR_CODE_UNSPECIFIED, moldauv1.ErrorCode_ERROR_CODE_UNKNOWN, moldauv1.ErrorCode_ERROR_CODE_TIMED_OUT,
		moldauv1.ErrorCode_ERROR_CODE_NOT_LEADER, moldauv1.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH, moldauv1.ErrorCode_ERROR_CODE_NOT_ENOUGH_REPLICAS_AFTER,
		moldauv1.ErrorCode_ERROR_CODE_STORAGE, moldauv1.ErrorCode_ERROR_CODE_SHUTTING_DOWN:
		return false
	}
	return true
}

// retriable says whether another try, maybe elsewhere, makes sense.
func retriable(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Retriable
	}
	return status.Code(errors.Unwrap(err)) == codes.Unavailable || status.Code(err) == codes.Unavailable
}
