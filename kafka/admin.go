package kafka

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// Any broker takes administrative requests; package broker carries them to the controller.

// defaultAdminTimeout is the time of an administrative request that brings none; maxAdminTimeout bounds what it brings.
const (
	defaultAdminTimeout = 30 * time.Second
	maxAdminTimeout     = 5 * time.Minute
)

// within bounds a request by the time that it brings, in milliseconds.
func within(ctx context.Context, ms int32) (context.Context, context.CancelFunc) {
	d := time.Duration(ms) * time.Millisecond
	if ms <= 0 {
		d = defaultAdminTimeout
	}
	return context.WithTimeout(ctx, min(d, maxAdminTimeout))
}

// refuse is refused, told to the meter as well.
func (s *slot) refuse(err error) (code int16, message *string) {
	code, message = refused(err)
	if code != errNone {
		s.outcome = errorLabel(code)
	}
	return code, message
}

// note tells the meter of a refusal.
func (s *slot) note(code int16) int16 {
	if code != errNone {
		s.outcome = errorLabel(code)
	}
	return code
}

// placed gives the refusal of an assignment to a broker that is not there the code that Kafka has for it.
func placed(err error) error { return unknownBrokerAs(cluster.CodeInvalidAssignment, err) }

// configured does the same for the configuration of a broker that is not there.
func configured(err error) error { return unknownBrokerAs(cluster.CodeInvalidRequest, err) }

func unknownBrokerAs(code cluster.Code, err error) error {
	var e *cluster.Error
	if !errors.As(err, &e) || e.Code != cluster.CodeUnknownBroker {
		return err
	}
	refusal := *e
	refusal.Code = code
	return &refusal
}

// namedTwice refuses what a request names more than once.
func namedTwice(what string) error {
	return cluster.Refuse(cluster.CodeInvalidRequest, what+" is named twice in the request")
}

// tally counts how often each key is there.
func tally[T any, K comparable](all []T, key func(*T) K) map[K]int {
	out := make(map[K]int, len(all))
	for i := range all {
		out[key(&all[i])]++
	}
	return out
}

// among says whether a partition is one of a list; nil has all.
func among(wanted []int32) func(n int32) bool {
	if wanted == nil {
		return func(int32) bool { return true }
	}
	in := make(map[int32]bool, len(wanted))
	for _, n := range wanted {
		in[n] = true
	}
	return func(n int32) bool { return in[n] }
}

func brokerIDs(in []int32) []cluster.BrokerID {
	out := make([]cluster.BrokerID, len(in))
	for i, id := range in {
		out[i] = cluster.BrokerID(id)
	}
	return out
}

// partitionsWait bounds how long one request waits for the topics and leaderships of all its partitions, that this broker has not heard of yet, where the request brings no time
// of its own: many partitions do not wait one after another.
const partitionsWait = 2 * time.Second

// distinct keeps the first of those with one key, in place: a request that repeats a short name many times would multiply a long description, and nobody needs it twice.
func distinct[T any, K comparable](items []T, key func(*T) K) []T {
	seen := make(map[K]bool, len(items))
	return slices.DeleteFunc(items, func(item T) bool {
		k := key(&item)
		repeated := seen[k]
		seen[k] = true
		return repeated
	})
}
