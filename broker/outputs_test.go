package broker

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moldau-log/moldau/cluster"
)

// TestConfirmationOfRemovalsIsRepeated: a tombstone whose confirmation failed would stay in the metadata until the broker starts again. It is confirmed
// until the metadata has it no more.
func TestConfirmationOfRemovalsIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost, done := cluster.Tombstone{Directory: cluster.DirectoryID{1}}, cluster.Tombstone{Directory: cluster.DirectoryID{2}}
		txn := cluster.EmptyImage().Txn()
		txn.PutTombstone(lost)
		image := txn.Commit(1)
		o := newOutputs(&Broker{log: slog.New(slog.DiscardHandler)})
		o.image = func() *cluster.Image { return image }
		var proposed [][]cluster.Tombstone
		o.propose = func(_ context.Context, cmd cluster.Command) (cluster.Result, error) {
			proposed = append(proposed, cmd.(cluster.ConfirmRemoved).Tombstones)
			if len(proposed) < 3 {
				return cluster.Result{}, errors.New("no controller")
			}
			return cluster.Result{}, nil
		}
		ctx, stop := context.WithCancel(context.Background())
		go o.run(ctx)
		o.Removed([]cluster.Tombstone{lost, done}) // the second was applied, although its answer is an error
		time.Sleep(10 * time.Second)
		stop()
		synctest.Wait()
		if len(proposed) != 3 || len(proposed[0]) != 2 {
			t.Fatalf("proposed %v", proposed)
		}
		for _, again := range proposed[1:] {
			if len(again) != 1 || again[0] != lost {
				t.Errorf("repeated %v", again)
			}
		}
	})
}
