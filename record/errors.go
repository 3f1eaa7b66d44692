package record

import (
	"errors"
	"fmt"
	"io"
)

// What is wrong with a batch. Callers tell them apart with errors.Is; the message carries the numbers.
var (
	// ErrShort: the bytes end before the batch does. It is an io.ErrUnexpectedEOF, so a reader may fetch more and try again.
	ErrShort = fmt.Errorf("record: batch is cut off: %w", io.ErrUnexpectedEOF)

	// ErrCorrupt: these are not the bytes that somebody wrote as a batch: the checksum differs or the header cannot be.
	ErrCorrupt = errors.New("record: corrupt batch")

	// ErrMagic: the format version is not 2. It is an ErrCorrupt.
	ErrMagic = fmt.Errorf("%w: magic is not 2", ErrCorrupt)

	// ErrInvalid: the bytes are as written, and their content breaks the rules of the format or of what a producer may send.
	ErrInvalid = errors.New("record: invalid batch")

	// ErrCodec: the compression codec is unknown. It is an ErrInvalid.
	ErrCodec = fmt.Errorf("%w: unknown compression codec", ErrInvalid)

	// ErrTooLarge: the batch, once decompressed, exceeds the bound that the caller set. It is an ErrInvalid.
	ErrTooLarge = fmt.Errorf("%w: too large", ErrInvalid)

	// ErrTimestamp: a timestamp lies outside the bounds that the caller set, or is of a kind that a producer may not send. It is an
	// ErrInvalid.
	ErrTimestamp = fmt.Errorf("%w: timestamp refused", ErrInvalid)
)

// RecordError says which record of a batch is at fault. Doors that can name single records (KIP-467) take the index from it.
type RecordError struct {
	// Index counts records from 0 in batch order.
	Index int32
	// More has further records of the same batch with the same fault, at most maxNamedRecords, in batch order. Missing keys and bad timestamps are looked
	// for to the end.
	More []int32
	// Err is or wraps ErrInvalid.
	Err error
}

// Error names the record and its fault.
func (e *RecordError) Error() string { return fmt.Sprintf("record %d: %v", e.Index, e.Err) }

// Unwrap gives the fault.
func (e *RecordError) Unwrap() error { return e.Err }
