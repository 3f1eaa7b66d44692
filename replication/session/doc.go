// Package session decides what goes over a replication stream: which partition's turn it is, how many bytes may be under way, and which acknowledgement is
// worth a frame. Follower is the end that subscribes, Leader the end that sends. replication/fetcher runs both over a stream that package peer provides.
//
// The package is pure: no clock, no goroutine, no socket, no bytes of batches. Callers give it the time and hold the lock.
//
// It does not decide what a replica believes: log ends, watermarks and refusals come from package replication through the shells, and pass through here
// unread, except that positions bound the credit.
//
// Invariants:
//   - A subscription id is used once per stream, in rising order, so that a frame of an ended subscription is never taken for one of its successor.
//   - Leader: the bytes sent and not acknowledged never exceed the stream's credit, nor a partition's, by more than one batch (a batch is never split).
//   - Leader: a partition that was sent goes behind all others that have something to send.
//   - Follower: an acknowledgement made before a subscription's position was taken never goes out under that subscription, unless it says the same log end. A
//     truncation lies between the two otherwise, and the leader would count bytes that are gone.
//   - Every structure is bounded by the number of subscriptions, and that by Limits.MaxSubscriptions.
package session
