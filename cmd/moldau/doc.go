// Command moldau is the one binary: the broker (`moldau server`, `moldau dev`) and the command line for it.
//
// It is wiring only. A file per command reads flags, calls the client, the server or the segment package, and hands the answer to a view, which
// every output format can print. Nothing here decides anything about records, partitions or groups.
//
// What holds for every command: standard output is data, standard error is talk; an error says what failed, why and what to do; the exit
// codes are those of errors.go. docs/cli.md describes the JSON, which scripts rely on.
package main
