package plan

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestSameSeedSameSteps(t *testing.T) {
	a, b := Draw(7, time.Hour, 3, All()), Draw(7, time.Hour, 3, All())
	if !reflect.DeepEqual(a, b) {
		t.Error("seed 7 gives two lists of steps")
	}
	if reflect.DeepEqual(a, Draw(8, time.Hour, 3, All())) {
		t.Error("seeds 7 and 8 give the same list of steps")
	}
	longer := Draw(7, 2*time.Hour, 3, All())
	if len(longer) <= len(a) || !reflect.DeepEqual(a, longer[:len(a)]) {
		t.Error("a longer run does not begin with the steps of a shorter one")
	}
}

// TestEveryFamilyComes: half an hour has every family of faults in it, whatever the seed; and no step breaks the rules of what may come together.
func TestEveryFamilyComes(t *testing.T) {
	for seed := range uint64(50) {
		for _, brokers := range []int{3, 5} {
			seen := map[Family]bool{}
			var length time.Duration
			for _, s := range Draw(seed, 30*time.Minute, brokers, All()) {
				length += s.Quiet + s.Hold
				checkStep(t, s, brokers)
				for _, f := range s.Faults {
					seen[f.Family] = true
				}
			}
			if len(seen) != len(All()) {
				t.Errorf("seed %d, %d brokers: %d of %d families", seed, brokers, len(seen), len(All()))
			}
			if length < 30*time.Minute {
				t.Errorf("seed %d: steps for %v only", seed, length)
			}
		}
	}
}

func checkStep(t *testing.T, s Step, brokers int) {
	t.Helper()
	var hit []int
	for _, f := range s.Faults {
		for _, b := range f.Targets {
			if b < 0 || b >= brokers || slices.Contains(hit, b) {
				t.Errorf("%+v: broker %d is hit twice or does not exist", s, b)
			}
			hit = append(hit, b)
		}
		switch f.Family {
		case KillAll, PowerCutAll, Wipe, BitFlip, RollingRestart:
			if len(s.Faults) > 1 {
				t.Errorf("%+v: %s is not alone", s, f.Family)
			}
		}
		switch f.Family {
		case KillAll, PowerCutAll:
			if len(f.Targets) != brokers {
				t.Errorf("%+v: not all brokers", s)
			}
		case Wipe, BitFlip: // two damaged directories may lawfully lose data
			if len(f.Targets) != 1 || !s.Settle {
				t.Errorf("%+v: it is of one broker, and waited for", s)
			}
		}
	}
}

func TestSelect(t *testing.T) {
	chosen, left, err := Select("", map[string]bool{NeedImages: true})
	if err != nil || slices.Contains(chosen, PowerCutAll) || !slices.Contains(chosen, KillOne) || left[PowerCutAll] != NeedImages {
		t.Errorf("without image files: %v, left out %v, %v", chosen, left, err)
	}
	chosen, left, err = Select("kill-one, fsync-error", map[string]bool{NeedTrace: true})
	if err != nil || !slices.Equal(chosen, []Family{KillOne}) || left[FsyncError] != NeedTrace {
		t.Errorf("two families without strace: %v, left out %v, %v", chosen, left, err)
	}
	if _, _, err := Select("kill-one,earthquake", nil); err == nil {
		t.Error("a family that does not exist is accepted")
	}
	if got := Draw(1, time.Minute, 3, nil); got != nil {
		t.Errorf("steps without families: %v", got)
	}
}
