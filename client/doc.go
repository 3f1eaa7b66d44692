// Package client is the Go client of Moldau's native gRPC API: an idempotent, batching producer, a consumer with or without a group, and
// every administrative call.
//
//	c, err := client.New(client.WithSeeds("localhost:9094"))
//	...
//	defer c.Close()
//	c.Produce(ctx, &client.Record{Topic: "orders", Key: k, Value: v}, func(r *client.Record, err error) { ... })
//
//	consumer, err := c.NewConsumer(client.WithGroup("billing"), client.WithTopics("orders"))
//	...
//	for r, err := range consumer.Records(ctx) { ... }
//
// # Producing
//
// Records wait in one queue per partition and are sent in batches, several in flight, in order. Every batch carries producer id, epoch and
// sequence; after a lost connection, a leader change or a timeout the same batch is sent again under the same sequence, so the log has it
// once. A record fails when the broker refuses it for good, or when its delivery timeout has passed; in the second case it may or may not be
// in the log, and the partition goes on under a new producer id.
//
// # Consuming
//
// A Consumer reads each partition from its leader and follows the leader. Batches are checked against their checksum. A position that the
// log no longer has is reset as WithOffsetReset says; records that a new leader does not have although this consumer has read them are
// reported as *DataLossError, never passed over silently.
//
// # Goroutines and memory
//
// A Client runs two goroutines of its own and two per broker that it produces to; a Consumer runs one for its assignment and one per
// broker that it reads from, two more in a group. Close stops them and waits for them. What waits to be sent is bounded by WithMaxBuffered, what waits to be
// polled by the stream windows. All methods may be called from any goroutine, except that one Consumer is polled by one goroutine at a
// time. Promises and callbacks must not block for long.
//
// The package is not a Kafka client: for Kafka's protocol use any Kafka client against the Kafka port.
package client
