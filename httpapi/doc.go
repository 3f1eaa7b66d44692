// Package httpapi is the HTTP door for operators: /metrics in Prometheus's text format, /healthz (the process lives) and /readyz (the broker
// serves: caught up, leader known, not draining).
//
// It counts nothing itself and decides nothing: packages count in a *meter.Set, the broker says whether it is ready, and this package shows
// both. It serves nothing that changes anything, and no profiles.
//
// Callers: package server builds a Server before the broker has joined a cluster, so that readiness can be asked from the beginning.
//
// Goroutines: net/http's, one per connection. Stop waits for the requests that are being served, bounded by its context.
//
// Invariants: a scrape never fails because of what a package counts: families of one name from several sets are joined, and a set that
// contradicts another loses its family. Request headers, their time and the number of scrapes at once are bounded.
package httpapi
