package controller

import (
	"context"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// raftLog gives Raft's log lines to slog. Raft is talkative about dead peers, which the broker reports itself, so its levels are lowered by one step.
type raftLog struct {
	log  *slog.Logger
	name string
	args []any
}

func newRaftLog(log *slog.Logger) hclog.Logger { return &raftLog{log: log.With("component", "raft")} }

// noisy are messages that repeat, with each attempt, what a transition has already said.
func noisy(message string) bool {
	switch message {
	case "failed to contact", "failed to heartbeat to", "failed to appendEntries to", "failed to make requestVote RPC", "failed to pipeline appendEntries",
		"failed to decode incoming command", "failed to flush response", "failed to get previous log", "rejecting pre-vote request since we have a leader",
		"unable to get address for server, using fallback address", "appendEntries rejected, sending older logs", "failed to send snapshot to",
		"no known peers, aborting election", "not part of stable configuration, aborting election":
		return true
	}
	return false
}

func (l *raftLog) Log(level hclog.Level, message string, args ...any) {
	to := slog.LevelDebug
	switch {
	case noisy(message):
	case level >= hclog.Error:
		to = slog.LevelWarn
	case level == hclog.Warn:
		to = slog.LevelInfo
	}
	if l.log.Enabled(context.Background(), to) {
		l.log.Log(context.Background(), to, message, args...)
	}
}

func (l *raftLog) Trace(string, ...any)              {}
func (l *raftLog) Debug(message string, args ...any) { l.Log(hclog.Debug, message, args...) }
func (l *raftLog) Info(message string, args ...any)  { l.Log(hclog.Info, message, args...) }
func (l *raftLog) Warn(message string, args ...any)  { l.Log(hclog.Warn, message, args...) }
func (l *raftLog) Error(message string, args ...any) { l.Log(hclog.Error, message, args...) }

func (l *raftLog) IsTrace() bool { return false }
func (l *raftLog) IsDebug() bool { return l.log.Enabled(context.Background(), slog.LevelDebug) }
func (l *raftLog) IsInfo() bool  { return true }
func (l *raftLog) IsWarn() bool  { return true }
func (l *raftLog) IsError() bool { return true }

func (l *raftLog) ImpliedArgs() []any { return l.args }
func (l *raftLog) Name() string       { return l.name }

func (l *raftLog) With(args ...any) hclog.Logger {
	return &raftLog{log: l.log.With(args...), name: l.name, args: append(append([]any{}, l.args...), args...)}
}

func (l *raftLog) Named(name string) hclog.Logger {
	return &raftLog{log: l.log, name: name, args: l.args}
}
func (l *raftLog) ResetNamed(name string) hclog.Logger { return l.Named(name) }
func (l *raftLog) SetLevel(hclog.Level)                {}
func (l *raftLog) GetLevel() hclog.Level               { return hclog.Debug }

func (l *raftLog) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.log.Handler(), slog.LevelDebug)
}

func (l *raftLog) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return io.Discard }
