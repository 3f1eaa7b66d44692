// Package broker is the application: one Go API (produce, fetch, offsets, administration, groups) that every front door calls, over the local replicas of
// package partition, the metadata of package controller and the groups of package consumergroup.
//
// It is not a server: it knows no wire protocol and no connection. Package server builds it; grpcapi, kafka, httpapi and peer call it.
//
// Goroutines: one that follows the metadata image (loop.go), one that proposes ISR changes in batches (outputs.go), one for confirmations of removed
// replicas (outputs.go). All end with Stop, which waits for them.
//
// Invariants. The broker acts on no partition before it has applied the entry that registered its present incarnation. An administrative answer is given
// only when this broker has applied the command. Every wait has a deadline.
package broker
