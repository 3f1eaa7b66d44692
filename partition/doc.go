// Package partition holds a broker's replicas: it joins the log on disk (package segment), the machine that decides (package replication),
// the producer state that makes produce idempotent, and the produce requests that wait.
//
// It is not a server: it knows no wire protocol, no connection and no address. Package broker calls it, and implements Outputs for what
// it asks of the rest of the broker. It satisfies fetcher.Target (local followers) and fetcher.Source (local leaders) with methods of
// Manager.
//
// Rings. Partition (partition.go), Flusher (flusher.go) and the reconciliation (reconcile.go) are machines without a goroutine: they
// execute the effects of replication.Replica. A Runner is one goroutine per replica, parked while nothing happens. The Manager owns one
// goroutine for deadlines, retention and producer expiry, and FlushWorkers goroutines that run fdatasync.
//
// Invariants. One goroutine, the Runner's, changes a partition. A request gets exactly one answer. Nothing that a Runner does waits for a
// client, a peer or the controller. What a reader sees comes from one atomic view. A broken invariant, a failed write and a failed fsync
// take that partition offline, never the process.
package partition
