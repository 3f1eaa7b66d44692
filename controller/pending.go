package controller

import (
	"errors"
	"io"

	"github.com/hashicorp/raft"

	"github.com/moldau-log/moldau/cluster"
)

// errNoCodec is returned until controller/codec and controller/state are merged.
var errNoCodec = errors.New("controller: the codec is not merged yet")

func encodeCommand(cluster.Command) ([]byte, error) { return nil, errNoCodec }
func decodeCommand([]byte) (cluster.Command, error) { return nil, errNoCodec }
func frameEntry(encoded []byte) []byte              { return encoded }

type fsm struct{}

func newFSM(*board, func(error), func(*cluster.Image)) *fsm { return &fsm{} }

func (*fsm) Apply(*raft.Log) any                 { return errNoCodec }
func (*fsm) Snapshot() (raft.FSMSnapshot, error) { return nil, errNoCodec }
func (*fsm) Restore(io.ReadCloser) error         { return errNoCodec }
