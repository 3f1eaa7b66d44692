package segment

import (
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/record"
)

// epochHistory is the first offset of each leader epoch, both columns rising. The live copy that decides about truncation is in
// replication; this one is what recovery found plus what was appended since.
type epochHistory []record.EpochStart

// last is the newest epoch, or record.NoEpoch.
func (e epochHistory) last() record.LeaderEpoch {
	if len(e) == 0 {
		return record.NoEpoch
	}
	return e[len(e)-1].Epoch
}

// at is the epoch of the batch at an offset, record.NoEpoch before the first start, and whether it is the newest one.
func (e epochHistory) at(offset record.Offset) (epoch record.LeaderEpoch, newest bool) {
	n := sort.Search(len(e), func(i int) bool { return e[i].Start > offset })
	if n == 0 {
		return record.NoEpoch, false
	}
	return e[n-1].Epoch, n == len(e)
}

// note returns the history with the epoch of one batch. An older epoch under which nothing is left gives way to it.
func (e epochHistory) note(epoch record.LeaderEpoch, base record.Offset) epochHistory {
	if epoch <= e.last() {
		return e
	}
	return append(e.cutEnd(base), record.EpochStart{Epoch: epoch, Start: base})
}

// cutEnd drops what begins at or behind the new end.
func (e epochHistory) cutEnd(end record.Offset) epochHistory {
	n := len(e)
	for n > 0 && e[n-1].Start >= end {
		n--
	}
	return slices.Clip(e[:n])
}

// cutStart drops the epochs that end at or below the new start; the one that is current there begins at start from now on. When the
// log holds nothing behind start, the last epoch is kept all the same: a replica must not forget under which epoch it last wrote.
func (e epochHistory) cutStart(start record.Offset) epochHistory {
	first := 0
	for first+1 < len(e) && e[first+1].Start <= start {
		first++
	}
	out := slices.Clone(e[first:])
	if len(out) > 0 && out[0].Start < start {
		out[0].Start = start
	}
	return out
}

// maxEpochBytes bounds the file: some 400,000 elections.
const maxEpochBytes = 8 << 20

// encode writes Apache Kafka's text format: version, count, and a line per epoch.
func (e epochHistory) encode() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "0\n%d\n", len(e))
	for _, s := range e {
		fmt.Fprintf(&b, "%d %d\n", s.Epoch, s.Start)
	}
	return []byte(b.String())
}

func parseEpochs(b []byte) (epochHistory, error) {
	r := strings.NewReader(string(b))
	var version, count int
	if _, err := fmt.Fscanf(r, "%d\n%d\n", &version, &count); err != nil || version != 0 || count < 0 {
		return nil, fmt.Errorf("segment: leader-epoch-checkpoint: bad head")
	}
	var e epochHistory
	for range count {
		var s record.EpochStart
		if _, err := fmt.Fscanf(r, "%d %d\n", &s.Epoch, &s.Start); err != nil {
			return nil, fmt.Errorf("segment: leader-epoch-checkpoint: line %d: %w", len(e), err)
		}
		if n := len(e); s.Epoch < 0 || s.Start < 0 || n > 0 && (e[n-1].Epoch >= s.Epoch || e[n-1].Start > s.Start) {
			return nil, fmt.Errorf("segment: leader-epoch-checkpoint: line %d is out of order", len(e))
		}
		e = append(e, s)
	}
	if r.Len() > 0 {
		return nil, fmt.Errorf("segment: leader-epoch-checkpoint: %d bytes too many", r.Len())
	}
	return e, nil
}

// readEpochs reads the file and refuses one that is not the one with the given checksum. An empty history needs no file.
func readEpochs(fs vfs.FS, dir string, sum uint32) (epochHistory, error) {
	b, err := vfs.ReadFile(fs, filepath.Join(dir, epochsName), maxEpochBytes)
	if isNotExist(err) {
		b, err = epochHistory{}.encode(), nil
	}
	if err != nil {
		return nil, err
	}
	if crc32.Checksum(b, castagnoli()) != sum {
		return nil, fmt.Errorf("segment: leader-epoch-checkpoint is not the one that log.meta names")
	}
	return parseEpochs(b)
}
