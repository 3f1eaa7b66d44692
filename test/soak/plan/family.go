package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Family is a kind of fault.
type Family string

// The families. What each does is in docs/testing.md.
const (
	KillOne          Family = "kill-one"
	KillSeveral      Family = "kill-several"
	KillAll          Family = "kill-all"
	PauseShort       Family = "pause-short"
	PauseLong        Family = "pause-long"
	PartitionFull    Family = "partition-full"
	PartitionOneWay  Family = "partition-one-way"
	PartitionPartial Family = "partition-partial"
	PartitionClients Family = "partition-clients"
	LossyLink        Family = "lossy-link"
	SlowNetwork      Family = "slow-network"
	SlowDisk         Family = "slow-disk"
	DiskFull         Family = "disk-full"
	FsyncError       Family = "fsync-error"
	DiskDead         Family = "disk-dead"
	PowerCutOne      Family = "power-cut-one"
	PowerCutAll      Family = "power-cut-all"
	CrashLoop        Family = "crash-loop"
	BitFlip          Family = "bit-flip"
	RollingRestart   Family = "rolling-restart"
	Transfer         Family = "transfer"
	ControllerMove   Family = "controller-move"
	Reassign         Family = "reassign"
	Wipe             Family = "wipe"
)

// traits are what the drawing of steps has to know of a family.
type traits struct {
	family Family
	// needs are the things of the machine without which it cannot be done.
	needs []string
	// min and max bound how long it holds, in milliseconds; both 0: it takes as long as it takes.
	min, max int
	// targets says how many brokers it hits: 0 none by number, -1 all, otherwise that many, and several for 2.
	targets int
	// alone: it is never mixed with another.
	alone bool
}

// What a family may need.
const (
	NeedImages = "loop"   // an image file per broker
	NeedTrace  = "strace" // system calls that fail or wait
	NeedTC     = "tc"     // a rate limit on a link
)

var all = []traits{
	{family: KillOne, min: 200, max: 8_000, targets: 1},
	{family: KillSeveral, min: 200, max: 6_000, targets: 2},
	{family: KillAll, min: 0, max: 3_000, targets: -1, alone: true},
	{family: PauseShort, min: 100, max: 1_200, targets: 1},
	{family: PauseLong, min: 3_000, max: 12_000, targets: 1},
	{family: PartitionFull, min: 2_000, max: 12_000, targets: 1},
	{family: PartitionOneWay, min: 2_000, max: 12_000, targets: 1},
	{family: PartitionPartial, min: 2_000, max: 12_000, targets: 2},
	{family: PartitionClients, min: 1_000, max: 8_000, targets: 1},
	{family: LossyLink, min: 3_000, max: 10_000, targets: 1},
	{family: SlowNetwork, needs: []string{NeedTC}, min: 3_000, max: 10_000, targets: 1},
	{family: SlowDisk, needs: []string{NeedTrace}, min: 4_000, max: 14_000, targets: 1},
	{family: DiskFull, needs: []string{NeedImages}, min: 3_000, max: 10_000, targets: 1},
	{family: FsyncError, needs: []string{NeedTrace}, min: 1_000, max: 4_000, targets: 1},
	{family: DiskDead, needs: []string{NeedImages}, min: 1_000, max: 6_000, targets: 1},
	{family: PowerCutOne, needs: []string{NeedImages}, min: 0, max: 5_000, targets: 1},
	{family: PowerCutAll, needs: []string{NeedImages}, min: 0, max: 2_000, targets: -1, alone: true},
	{family: CrashLoop, needs: []string{NeedImages}, min: 2_000, max: 8_000, targets: 1},
	{family: BitFlip, min: 1_000, max: 5_000, targets: 1, alone: true},
	{family: RollingRestart, alone: true},
	{family: Transfer, min: 0, max: 500},
	{family: ControllerMove, min: 2_500, max: 6_000},
	{family: Reassign, min: 500, max: 4_000},
	{family: Wipe, min: 500, max: 4_000, targets: 1, alone: true},
}

// All are the names of all families.
func All() []Family {
	var out []Family
	for _, t := range all {
		out = append(out, t.family)
	}
	return out
}

// Select gives the families to draw from: those in list, names with commas, or all where it is empty, in either case without those whose needs the machine lacks.
// Left out says of each of the latter what it needs. A name that is none is an error.
func Select(list string, lacks map[string]bool) (chosen []Family, leftOut map[Family]string, err error) {
	leftOut = map[Family]string{}
	var want []Family
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if !slices.Contains(All(), Family(name)) {
			return nil, nil, fmt.Errorf("plan: no family of faults is called %q", name)
		}
		want = append(want, Family(name))
	}
	for _, t := range all {
		if len(want) > 0 && !slices.Contains(want, t.family) {
			continue
		}
		if i := slices.IndexFunc(t.needs, func(n string) bool { return lacks[n] }); i >= 0 {
			leftOut[t.family] = t.needs[i]
			continue
		}
		chosen = append(chosen, t.family)
	}
	return chosen, leftOut, nil
}
