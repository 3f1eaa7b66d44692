package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/controller"
	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"
)

// The exit codes. Scripts rely on them.
const (
	exitDone      = 0
	exitFailure   = 1
	exitUsage     = 2
	exitNotFound  = 3
	exitTimeout   = 4
	exitUnhealthy = 10
	exitDiskFull  = 11 // a broker whose metadata store found the disk full; it starts again with produce refused
)

// coded is an error with an exit code of its own.
type coded struct {
	code int
	err  error
	hint string
	mute bool // the command has said everything already
}

func (e *coded) Error() string { return e.err.Error() }
func (e *coded) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &coded{code: exitUsage, err: fmt.Errorf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &coded{code: exitNotFound, err: fmt.Errorf(format, args...)}
}

// hinted adds what to do.
func hinted(err error, format string, args ...any) error {
	return &coded{code: exitCode(err), err: err, hint: fmt.Sprintf(format, args...)}
}

// partly is for a command of which some parts were refused; the table has shown them. Where all were refused for reasons of one exit code, it is that.
func partly(refused []*moldauv1.Error, format string, args ...any) error {
	first := client.FromWire(refused[0])
	code := exitCode(first)
	for _, e := range refused[1:] {
		if exitCode(client.FromWire(e)) != code {
			code = exitFailure
		}
	}
	return &coded{code: code, err: fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), first), hint: remedy(first)}
}

// unreachable says that no broker listens at the given addresses.
type unreachable struct {
	servers []string
	err     error
}

func (e *unreachable) Error() string {
	return fmt.Sprintf("no broker answers at %s: %v", strings.Join(e.servers, ", "), e.err)
}
func (e *unreachable) Unwrap() error { return e.err }

func exitCode(err error) int {
	var c *coded
	var full *controller.DiskFullError
	switch code := client.CodeOf(err); {
	case err == nil:
		return exitDone
	case errors.As(err, &c):
		return c.code
	case errors.As(err, &full):
		return exitDiskFull
	case code == moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC, code == moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_GROUP, code == moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_BROKER,
		code == moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_MEMBER, code == moldauv1.ErrorCode_ERROR_CODE_NO_REASSIGNMENT:
		return exitNotFound
	case code == moldauv1.ErrorCode_ERROR_CODE_TIMED_OUT, errors.Is(err, context.DeadlineExceeded), errors.Is(err, client.ErrDeliveryTimeout):
		return exitTimeout
	case errors.Is(err, client.ErrOutcomeUnknown):
		return exitFailure
	case grpcCode(err) == codes.Unavailable:
		return exitTimeout // it was tried until --timeout was over
	}
	return exitFailure
}

// grpcCode finds a gRPC status anywhere in the chain.
func grpcCode(err error) codes.Code {
	for ; err != nil; err = errors.Unwrap(err) {
		if s, ok := status.FromError(err); ok && s.Code() != codes.Unknown {
			return s.Code()
		}
	}
	return codes.Unknown
}

func silent(err error) bool {
	var c *coded
	return errors.As(err, &c) && c.mute
}

// reason is what failed and why, for people.
func reason(err error) string {
	text := strings.TrimPrefix(err.Error(), "client: ")
	if s, ok := status.FromError(errors.Unwrap(err)); ok && s.Code() == codes.Unavailable && !errors.Is(err, client.ErrOutcomeUnknown) {
		return "no broker could be reached: " + s.Message()
	}
	return text
}

// remedy is what to do, for people.
func remedy(err error) string {
	var c *coded
	var gone *unreachable
	switch code := client.CodeOf(err); {
	case errors.As(err, &c) && c.hint != "":
		return c.hint
	case errors.Is(err, client.ErrOutcomeUnknown):
		return "Look whether it was done before you repeat it."
	case errors.As(err, &gone), grpcCode(err) == codes.Unavailable:
		return "Is a broker running there? One that still waits for its cluster does not answer: its log and /readyz say why. `moldau dev` starts one; --server or MOLDAU_SERVER names others."
	case code != 0:
		return remedies[code]
	case errors.Is(err, context.DeadlineExceeded):
		return "`moldau cluster health` says what is wrong; --timeout gives it more time."
	}
	return ""
}

// remedies are what to do about a broker's refusal, where its own message does not say it.
var remedies = map[moldauv1.ErrorCode]string{
	moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC:           "`moldau topic list` shows the topics; `moldau topic create NAME` makes one.",
	moldauv1.ErrorCode_ERROR_CODE_TOPIC_EXISTS:            "`moldau topic describe NAME` shows it; `moldau topic alter` changes its configs.",
	moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_GROUP:           "`moldau group list` shows the groups.",
	moldauv1.ErrorCode_ERROR_CODE_UNKNOWN_BROKER:          "`moldau cluster brokers` shows the brokers.",
	moldauv1.ErrorCode_ERROR_CODE_GROUP_NOT_EMPTY:         "Stop its members first; `moldau group describe GROUP` shows them.",
	moldauv1.ErrorCode_ERROR_CODE_GROUP_TYPE_MISMATCH:     "Kafka clients and native clients cannot share a group: use another group name.",
	moldauv1.ErrorCode_ERROR_CODE_INVALID_REPLICATION:     "`moldau cluster brokers` shows how many brokers there are; ask for at most as many replicas.",
	moldauv1.ErrorCode_ERROR_CODE_INVALID_CONFIG:          "`moldau config get topic NAME -o wide` lists the keys and what they mean.",
	moldauv1.ErrorCode_ERROR_CODE_TOO_LARGE:               "max.message.bytes of the topic bounds a batch: `moldau topic alter NAME -c max.message.bytes=BYTES` raises it.",
	moldauv1.ErrorCode_ERROR_CODE_NOT_ENOUGH_REPLICAS:     "`moldau cluster partitions --unhealthy` shows which replicas are missing.",
	moldauv1.ErrorCode_ERROR_CODE_NO_CONTROLLER:           "A majority of the voters must be up; `moldau cluster health` says more.",
	moldauv1.ErrorCode_ERROR_CODE_STORAGE:                 "The broker's log says more; free disk space or see `moldau cluster health`.",
	moldauv1.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE:     "`moldau topic describe NAME` shows the offsets that the log has.",
	moldauv1.ErrorCode_ERROR_CODE_INVALID_TOPIC_NAME:      "A topic name has 1 to 249 letters, digits, dots, underscores and dashes.",
	moldauv1.ErrorCode_ERROR_CODE_NO_REASSIGNMENT:         "`moldau cluster reassign` without arguments lists the reassignments in progress.",
	moldauv1.ErrorCode_ERROR_CODE_NO_ELIGIBLE_LEADER:      "Bring a replica of the in-sync set back; `moldau cluster elect --unclean` takes what is there and can lose records.",
	moldauv1.ErrorCode_ERROR_CODE_UNSUPPORTED_COMPRESSION: "One of none, gzip, snappy, lz4, zstd.",
}
