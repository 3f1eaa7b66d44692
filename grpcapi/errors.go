package grpcapi

import (
	"context"
	"net"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/moldau-log/moldau/broker"
	"github.com/moldau-log/moldau/cluster"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// errorDomain is the domain of every ErrorInfo.
const errorDomain = "moldau"

// retryDelay is what RetryInfo asks for, unless another broker is to be asked, which may be at once.
const retryDelay = 100 * time.Millisecond

// disposition is how a refusal looks in gRPC.
type disposition struct {
	status    codes.Code
	retriable bool // the same request may succeed later or elsewhere
}

// dispositions is the one table from refusals to gRPC. TestErrors keeps it complete.
var dispositions = map[cluster.Code]disposition{
	cluster.CodeNone:                   {codes.OK, false},
	cluster.CodeUnknown:                {codes.Internal, false},
	cluster.CodeInvalidRequest:         {codes.InvalidArgument, false},
	cluster.CodeUnknownTopic:           {codes.NotFound, false},
	cluster.CodeTopicExists:            {codes.AlreadyExists, false},
	cluster.CodeInvalidTopicName:       {codes.InvalidArgument, false},
	cluster.CodeInvalidPartitions:      {codes.InvalidArgument, false},
	cluster.CodeInvalidReplication:     {codes.FailedPrecondition, true},
	cluster.CodeInvalidAssignment:      {codes.InvalidArgument, false},
	cluster.CodeInvalidConfig:          {codes.InvalidArgument, false},
	cluster.CodeNotLeader:              {codes.FailedPrecondition, true},
	cluster.CodeFencedLeaderEpoch:      {codes.Aborted, true},
	cluster.CodeUnknownLeaderEpoch:     {codes.Aborted, true},
	cluster.CodeNotEnoughReplicas:      {codes.Unavailable, true},
	cluster.CodeNotEnoughReplicasAfter: {codes.Unavailable, true},
	cluster.CodeTimedOut:               {codes.DeadlineExceeded, true},
	cluster.CodeOffsetOutOfRange:       {codes.OutOfRange, false},
	cluster.CodeOffsetNotAvailable:     {codes.Unavailable, true},
	cluster.CodeStorage:                {codes.Unavailable, true},
	cluster.CodeCorrupt:                {codes.DataLoss, true},
	cluster.CodeInvalidRecord:          {codes.InvalidArgument, false},
	cluster.CodeTooLarge:               {codes.InvalidArgument, false},
	cluster.CodeUnsupportedCompression: {codes.InvalidArgument, false},
	cluster.CodeInvalidTimestamp:       {codes.InvalidArgument, false},
	cluster.CodeOutOfOrderSequence:     {codes.Aborted, false},
	cluster.CodeDuplicateSequence:      {codes.AlreadyExists, false},
	cluster.CodeUnknownProducer:        {codes.FailedPrecondition, false},
	cluster.CodeFencedProducer:         {codes.FailedPrecondition, false},
	cluster.CodeTransactional:          {codes.Unimplemented, false},
	cluster.CodeNotController:          {codes.FailedPrecondition, true},
	cluster.CodeNoController:           {codes.Unavailable, true},
	cluster.CodeStaleBrokerEpoch:       {codes.Aborted, true},
	cluster.CodeUnknownBroker:          {codes.NotFound, false},
	cluster.CodeDuplicateBroker:        {codes.AlreadyExists, false},
	cluster.CodeWrongCluster:           {codes.FailedPrecondition, false},
	cluster.CodeBrokerFenced:           {codes.Unavailable, true},
	cluster.CodeStalePartitionEpoch:    {codes.Aborted, true},
	cluster.CodeIneligibleReplica:      {codes.FailedPrecondition, false},
	cluster.CodeStaleShardEpoch:        {codes.Aborted, true},
	cluster.CodeNoReassignment:         {codes.FailedPrecondition, false},
	cluster.CodeElectionNotNeeded:      {codes.FailedPrecondition, false},
	cluster.CodeNoEligibleLeader:       {codes.FailedPrecondition, false},
	cluster.CodeUnsupportedFeature:     {codes.Unimplemented, false},
	cluster.CodeNotCoordinator:         {codes.FailedPrecondition, true},
	cluster.CodeCoordinatorLoading:     {codes.Unavailable, true},
	cluster.CodeNoCoordinator:          {codes.Unavailable, true},
	cluster.CodeUnknownMember:          {codes.NotFound, false},
	cluster.CodeFencedMemberEpoch:      {codes.FailedPrecondition, false},
	cluster.CodeFencedInstance:         {codes.FailedPrecondition, false},
	cluster.CodeIllegalGeneration:      {codes.FailedPrecondition, false},
	cluster.CodeRebalanceInProgress:    {codes.Aborted, true},
	cluster.CodeGroupTypeMismatch:      {codes.FailedPrecondition, false},
	cluster.CodeInconsistentProtocol:   {codes.FailedPrecondition, false},
	cluster.CodeInvalidGroup:           {codes.InvalidArgument, false},
	cluster.CodeUnknownGroup:           {codes.NotFound, false},
	cluster.CodeGroupNotEmpty:          {codes.FailedPrecondition, false},
	cluster.CodeGroupFull:              {codes.ResourceExhausted, false},
	cluster.CodeInvalidSessionTimeout:  {codes.InvalidArgument, false},
	cluster.CodeOffsetMetadataTooLarge: {codes.InvalidArgument, false},
	cluster.CodeUnreleasedInstance:     {codes.FailedPrecondition, true},
	cluster.CodeSubscribed:             {codes.FailedPrecondition, false},
	cluster.CodeOverloaded:             {codes.ResourceExhausted, true},
	cluster.CodeShuttingDown:           {codes.Unavailable, true},
	cluster.CodeForbidden:              {codes.PermissionDenied, false},
	cluster.CodeCompactedKeyMissing:    {codes.InvalidArgument, false},
}

// wireCode is the code's number in the API: the names are the same.
func wireCode(c cluster.Code) moldauv1.ErrorCode {
	if n, ok := moldauv1.ErrorCode_value["ERROR_CODE_"+c.String()]; ok && c != cluster.CodeNone {
		return moldauv1.ErrorCode(n)
	}
	if c == cluster.CodeNone {
		return moldauv1.ErrorCode_ERROR_CODE_UNSPECIFIED
	}
	return moldauv1.ErrorCode_ERROR_CODE_UNKNOWN
}

// isRedirect reports whether the refusal sends the client to another broker.
func isRedirect(c cluster.Code) bool {
	return c == cluster.CodeNotLeader || c == cluster.CodeFencedLeaderEpoch || c == cluster.CodeNotCoordinator || c == cluster.CodeNotController
}

// refusal is a refusal of a part of a request.
func (s *Server) refusal(ctx context.Context, e *cluster.Error) *moldauv1.Error {
	out := &moldauv1.Error{Code: wireCode(e.Code), Message: e.Error(), Retriable: dispositions[e.Code].retriable}
	if isRedirect(e.Code) && e.Leader != cluster.NoBroker {
		leader, epoch := int32(e.Leader), e.LeaderEpoch
		out.Leader, out.Endpoint = &leader, s.endpointOf(ctx, e)
		if epoch >= 0 {
			out.LeaderEpoch = &epoch
		}
	}
	return out
}

// status turns an error into a gRPC status error with ErrorInfo, and RetryInfo when a retry makes sense. Status errors, as forwarded calls
// give them, pass unchanged.
func (s *Server) status(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	e := broker.AsRefusal(err)
	d := dispositions[e.Code]
	info := &errdetails.ErrorInfo{Reason: e.Code.String(), Domain: errorDomain}
	if isRedirect(e.Code) && e.Leader != cluster.NoBroker {
		info.Metadata = map[string]string{"leader": strconv.Itoa(int(e.Leader))}
		if e.LeaderEpoch >= 0 {
			info.Metadata["leader_epoch"] = strconv.Itoa(int(e.LeaderEpoch))
		}
		if endpoint := s.endpointOf(ctx, e); endpoint != "" {
			info.Metadata["endpoint"] = endpoint
		}
	}
	details := []protoadapt.MessageV1{info}
	if d.retriable {
		delay := retryDelay
		if info.Metadata != nil {
			delay = 0
		}
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
	}
	st := status.New(d.status, e.Error())
	if detailed, err := st.WithDetails(details...); err == nil {
		st = detailed
	}
	return st.Err()
}

// endpointOf is the gRPC address of the broker that a refusal names.
func (s *Server) endpointOf(ctx context.Context, e *cluster.Error) string {
	if e.Endpoint != "" {
		return e.Endpoint
	}
	return s.endpoint(ctx, e.Leader)
}

// endpoint is the advertised gRPC address of a broker; empty when it has none. Where this broker advertises no host, it is known under the
// address that the client has reached it by.
func (s *Server) endpoint(ctx context.Context, id cluster.BrokerID) string {
	b, ok := s.broker.Image().Broker(id)
	if !ok {
		return ""
	}
	return s.endpointFrom(ctx, b)
}

func (s *Server) endpointFrom(ctx context.Context, b *cluster.Broker) string {
	l, ok := b.Listener("grpc")
	if !ok {
		return ""
	}
	host := l.Host
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = ""
		if p, ok := peer.FromContext(ctx); ok && b.ID == s.broker.ID() && p.LocalAddr != nil {
			host, _, _ = net.SplitHostPort(p.LocalAddr.String())
		}
		if host == "" {
			return ""
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(int(l.Port)))
}
