package broker

import (
	"context"
	"io"
)

// Backup writes the metadata that this broker has applied, as one file that `moldau cluster recover --backup` reads. Records are not part of it.
func (b *Broker) Backup(ctx context.Context, w io.Writer) error {
	if err := ctx.Err(); err != nil {
		return AsRefusal(err)
	}
	return b.controller.Backup(w)
}
