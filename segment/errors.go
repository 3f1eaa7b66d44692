package segment

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/moldau-log/moldau/record"
)

// What this package refuses or reports. All are wrapped with detail; use errors.Is and errors.As.
var (
	// ErrDamaged means that bytes which may have been acknowledged are not what was written. The matching type is *DamageError.
	ErrDamaged = errors.New("segment: log is damaged")
	// ErrOffline means that an earlier I/O error ended this log: the disk may hold more or less than was reported, so only a new Open,
	// which looks at the disk, may go on.
	ErrOffline = errors.New("segment: log is offline")
	// ErrNoSpace means that the disk is full. The log is as it was before the call, and the call may be repeated.
	ErrNoSpace = errors.New("segment: no space left on device")
	// ErrIdentity means that the directory belongs to another partition or cluster, or to a newer format.
	ErrIdentity = errors.New("segment: directory belongs to something else")
	// ErrNotContiguous means that the batches given to Append do not continue the log.
	ErrNotContiguous = errors.New("segment: batches do not continue the log")
	// ErrBadBatch means that the bytes given to Append are not whole batches within the limits.
	ErrBadBatch = errors.New("segment: not a whole valid batch")
	// ErrStaleView means that the bytes a View or Slice stands for were truncated or deleted since. Take a new View.
	ErrStaleView = errors.New("segment: the log changed under this view")
	// ErrOffsetOutOfRange means that an offset is below the log start or above the log end. The matching type is *OffsetError.
	ErrOffsetOutOfRange = errors.New("segment: offset out of range")
	// ErrClosed means that the log was closed or removed by its owner.
	ErrClosed = errors.New("segment: log is closed")
)

// DamageError says where damage was found.
type DamageError struct {
	Path     string // the file, or the directory when a file is missing
	Position int64  // in bytes
	Offset   record.Offset
	Reason   string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("segment: log is damaged: %s at byte %d (offset %d): %s", e.Path, e.Position, e.Offset, e.Reason)
}

// Is matches ErrDamaged.
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

// OffsetError says what the log holds instead of the offset asked for.
type OffsetError struct {
	Offset     record.Offset
	Start, End record.Offset // [Start, End) of the view
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("segment: offset %d out of range [%d, %d)", e.Offset, e.Start, e.End)
}

// Is matches ErrOffsetOutOfRange.
func (e *OffsetError) Is(target error) bool { return target == ErrOffsetOutOfRange }

// Full reports whether an I/O error says that space ran out, which alone is survived. After an Open that fails so, a later one may succeed.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
