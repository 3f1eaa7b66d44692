// Package fetcher is the network shell of replication: Fetcher follows the leaders of this broker's follower replicas, Sender serves the followers of its leader
// replicas. What is asked, sent and acknowledged when is decided in replication/session; what a replica makes of it, in package replication behind Target and
// Source.
//
// It opens no socket (Transport, LeaderStream: package peer), reads no file (Reader: package segment through partition) and knows no metadata: package
// broker tells it whom to follow, and gives it the incoming streams.
//
// Goroutines: a Fetcher has one per leader broker that it has ever followed, which dials, subscribes and acknowledges, and beside it one that receives while there
// is a stream. A Sender has two per stream: the one that calls Serve reads, and one writes. All end with Close or with their stream, and are waited for.
//
// Invariants:
//   - Follow, Unfollow, Ack and the Sink's methods never block on a socket, a disk or a replica: they change the session under a short lock and wake a goroutine.
//   - Target and Source are called without any lock held.
//   - For one partition, Data, Refused and Lost reach the Target one after the other, in the order of the stream; after Lost nothing of the old stream comes.
//   - Memory under way is bounded by session.Limits on the sending side; the receiving side holds one frame, the rest is the Target's, which bounds its inbox by
//     returning false.
package fetcher
