// Package codec turns metadata commands, group records, snapshots and results into bytes and back. The bytes are protobuf behind one version
// byte; docs/format/metadata-log.md specifies them, proto/moldau/metadata/v1 defines the messages, and golden tests pin them.
//
// It is the only place that knows both the plain types of package cluster and their messages. Package controller calls it for entries of
// the Raft log and for snapshots, package peer for what travels between a broker and the controller.
//
// It runs no goroutine and keeps no state. What it cannot fully understand it refuses: a version, a command, a record or a field that is unknown here gives
// ErrUnknown, for skipping it would make this broker's metadata differ from the others' without anybody noticing (case 125).
package codec
