package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/moldau-log/moldau/test/soak/load"
)

// crashLoop starts a broker and kills it, or cuts its power, again and again, most often before it has come up.
func crashLoop(ctx context.Context, n *nemesis, f *fault) error {
	b := n.cluster.nodes[f.Targets[0]]
	random := rand.New(rand.NewPCG(f.Draw, 0))
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	crashes := 0
	go func() {
		var errs []error
		for ctx.Err() == nil {
			end := b.down
			if random.IntN(2) == 0 {
				end = b.powerCut
			}
			errs = append(errs, end(), b.up())
			crashes++
			pause(ctx, time.Duration(20+random.IntN(1500))*time.Millisecond)
		}
		ended <- errors.Join(errs...)
	}()
	f.end = func() error {
		cancel()
		err := <-ended
		f.detail = fmt.Sprintf("%d times", crashes)
		return err
	}
	return nil
}

// bitFlip changes a byte in the log of one replica while its broker is down. The broker must not serve that replica; at the end the operator does what docs/operations.md says
// of a damaged replica: moves its directory away, so that it is copied from the leader. As with a wipe, all replicas must be in sync.
func bitFlip(ctx context.Context, n *nemesis, f *fault) error {
	b := n.cluster.nodes[f.Targets[0]]
	if _, err := n.cluster.awaitHealthy(ctx, settlePatience); err != nil {
		return errors.Join(errSkipped, err)
	}
	stop := b.down
	if f.Draw%2 == 0 {
		stop = b.terminate // it will not read its logs when it starts: a reader has to find the damage
	}
	if err := stop(); err != nil {
		return err
	}
	dir, err := flip(b.Data(), f.Draw>>8)
	if err != nil {
		return errors.Join(err, b.up())
	}
	f.detail = filepath.Base(dir)
	f.end = func() error {
		if err := b.terminate(); err != nil {
			return err
		}
		err := os.Rename(dir, filepath.Join(b.Data(), fmt.Sprintf("damaged-%d-%s", n.op, filepath.Base(dir))))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the topic has been deleted, or the replica has moved
		}
		return errors.Join(err, b.up())
	}
	if err := b.up(); err != nil {
		return err
	}
	return n.lookAt(ctx, b, filepath.Base(dir))
}

// lookPatience bounds each step of lookAt.
const lookPatience = 8 * time.Second

// lookAt has a broker lead the partition of a directory, if it can, and reads it from its start. Whatever is refused meanwhile is right; the history has what was read.
func (n *nemesis) lookAt(ctx context.Context, b *node, dir string) error {
	names, err := n.topicIDs()
	if err != nil {
		return err
	}
	id, number, _ := cutLast(dir, "-")
	p, err := strconv.ParseInt(number, 10, 32)
	if names[id] == "" || err != nil {
		return err // its topic has been deleted
	}
	_, _ = n.cluster.awaitHealthy(ctx, lookPatience) // it may not become healthy
	places, err := n.cluster.places(ctx)
	if err != nil {
		return err
	}
	for _, at := range places {
		if at.topic != names[id] || at.GetPartition() != int32(p) {
			continue
		}
		if i := slices.Index(at.GetReplicas(), int32(b.ID)); i > 0 {
			if err := n.cluster.reassignTo(ctx, at, rotated(at.GetReplicas(), i)); err != nil {
				n.load.Counts.Note("reassign", err)
			}
		}
		if err := n.cluster.elect(ctx); err != nil {
			n.load.Counts.Note("elect", err)
		}
		once, cancel := context.WithTimeout(ctx, lookPatience)
		defer cancel()
		end, err := n.cluster.latest(once, at)
		if err == nil {
			ends := load.Ends{{Topic: at.topic, Partition: at.GetPartition()}: end}
			err = n.load.DrainNative(once, fmt.Sprint("look-", n.op), int32(b.ID), ends)
		}
		if err != nil {
			n.load.Counts.Note("a damaged replica", err)
		}
	}
	return nil
}

// flip changes one byte of one segment of one replica below a data directory, and says which replica.
func flip(data string, draw uint64) (string, error) {
	segments, err := filepath.Glob(filepath.Join(data, "partitions", "*", "*.log"))
	if err != nil {
		return "", fmt.Errorf("soak: %w", err)
	}
	for i := range segments { // the first one from a drawn place on that has anything in it
		name := segments[(draw+uint64(i))%uint64(len(segments))]
		text, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("soak: %w", err)
		}
		if len(text) == 0 {
			continue
		}
		at := draw >> 16 % uint64(len(text))
		text[at] ^= 1 << (draw % 8)
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return "", fmt.Errorf("soak: %w", err)
		}
		_, err = f.WriteAt(text[at:at+1], int64(at))
		return filepath.Dir(name), errors.Join(err, f.Sync(), f.Close())
	}
	return "", errors.New("soak: no replica has a record")
}
