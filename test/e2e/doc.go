// Package e2e tests the built binary as its users run it: real processes, real sockets on loopback, real files. It holds the harness (cluster.go, cli.go) and the
// scenarios. The binary comes from E2E_BIN (the directory that `make build` fills) or is built once per test run.
//
// Every process is started by the test that needs it and ended by its pid. Nothing sleeps to wait: the harness asks the cluster until it answers.
package e2e
