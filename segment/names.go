package segment

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moldau-log/moldau/record"
)

// File names, on disk. Those of segments are Apache Kafka's.
const (
	logSuffix      = ".log"
	indexSuffix    = ".index"
	timeSuffix     = ".timeindex"
	snapshotSuffix = ".snapshot"
	tmpSuffix      = ".tmp"
	deletedSuffix  = ".deleted"

	metaName     = "log.meta"
	identityName = "partition.meta"
	epochsName   = "leader-epoch-checkpoint"
	lockName     = ".lock"
	doubtName    = "doubtful"
)

// fileName names a file of the segment, or the snapshot, that begins at base.
func fileName(base record.Offset, suffix string) string {
	return fmt.Sprintf("%020d%s", base, suffix)
}

// parseName takes a file name apart; ok is false when it is none of ours.
func parseName(name, suffix string) (base record.Offset, ok bool) {
	digits, found := strings.CutSuffix(name, suffix)
	if !found || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, false
	}
	return record.Offset(n), true
}

func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }
