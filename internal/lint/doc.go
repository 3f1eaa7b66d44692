// Package lint holds tests over the source tree: which package may import which, what pure packages may not touch, and how long a
// file may grow. It has no code of its own; a bad edge or a package without a row fails `go test ./internal/lint`.
package lint
