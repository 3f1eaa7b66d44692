// Package sendfile sends a range of a file to a socket without bringing its bytes into this process.
//
// It knows files and sockets, not logs: callers (peer for followers, kafka for consumers) hold the file open, bound the send by the connection's write deadline,
// and close the connection when it fails, because the length of what was promised is out already. It runs no goroutine. Linux only; elsewhere, and for
// connections that are no plain TCP sockets, Send says so and callers copy.
package sendfile
