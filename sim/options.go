package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Options choose a history. The zero value of everything but Seed leaves it to the seed.
type Options struct {
	Seed  uint64
	Plant Plant
	// Trace keeps the last events for a report.
	Trace bool
	// Without leaves out kinds of faults and parts of the workload, by their names (Names).
	Without []string
	// Skip leaves out single faults, by their numbers in Result.Faults.
	Skip []int
	// MaxFaults ends the faults after so many, left out ones included; 0 is no limit.
	MaxFaults int
	// FaultTime is how long faults go on; 0 is 12 s.
	FaultTime time.Duration
	// Brokers and Partitions fix how many there are; 0 lets the seed draw them.
	Brokers, Partitions int
}

// Parts of the workload that Options.Without can leave out, beside faults.
const (
	partCareless  = "careless"  // producers without idempotence
	partConsumers = "consumers" // of leaders
	partFollowers = "followers" // consumers of any replica
	partAskers    = "askers"    // of the latest offset
	partClocks    = "clocks"    // that are wrong from the beginning
	partPipelines = "pipelines" // producers with several batches in flight
	partGroups    = "groups"    // consumer groups
	partChurn     = "churn"     // members that come, go and stop
	partAdmins    = "admins"    // who reset and delete groups and offsets
)

// workloadParts lists the parts of the workload by name.
func workloadParts() []string {
	return []string{partCareless, partConsumers, partFollowers, partAskers, partPipelines, partGroups, partChurn, partAdmins, partClocks}
}

// Names lists what Options.Without can name: kinds of faults, then parts of the workload.
func Names() []string {
	var out []string
	for _, k := range faultKinds() {
		out = append(out, k.name)
	}
	return append(out, workloadParts()...)
}

// Validate refuses options that name nothing, or that no cluster can have.
func (o Options) Validate() error {
	for _, name := range o.Without {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("sim: %q is no fault and no part of the workload; there are %s", name, strings.Join(Names(), ", "))
		}
	}
	if o.Brokers != 0 && (o.Brokers < replicationFactor || o.Brokers > maxBrokers) {
		return fmt.Errorf("sim: %d brokers, want %d to %d", o.Brokers, replicationFactor, maxBrokers)
	}
	if o.Partitions < 0 || o.Partitions > maxPartitions || o.MaxFaults < 0 || o.FaultTime < 0 {
		return fmt.Errorf("sim: partitions must be 0 to %d; the number of faults and their time cannot be negative", maxPartitions)
	}
	return nil
}

// Bounds of what options may ask for.
const (
	maxBrokers    = 9
	maxPartitions = 16
)

// Args are the arguments of cmd/sim that choose this history.
func (o Options) Args() string {
	var b strings.Builder
	fmt.Fprintf(&b, "--seed %d", o.Seed)
	if o.Plant != NoPlant {
		fmt.Fprintf(&b, " --plant %s", o.Plant)
	}
	if len(o.Without) > 0 {
		fmt.Fprintf(&b, " --without %s", strings.Join(o.Without, ","))
	}
	if len(o.Skip) > 0 {
		fmt.Fprintf(&b, " --skip %s", strings.Trim(strings.ReplaceAll(fmt.Sprint(o.Skip), " ", ","), "[]"))
	}
	if o.MaxFaults > 0 {
		fmt.Fprintf(&b, " --max-faults %d", o.MaxFaults)
	}
	if o.FaultTime > 0 {
		fmt.Fprintf(&b, " --fault-time %s", o.FaultTime)
	}
	if o.Brokers > 0 {
		fmt.Fprintf(&b, " --brokers %d", o.Brokers)
	}
	if o.Partitions > 0 {
		fmt.Fprintf(&b, " --partitions %d", o.Partitions)
	}
	return b.String()
}

// without reports whether a part of the workload is left out.
func (o *Options) without(name string) bool { return slices.Contains(o.Without, name) }

// Fault is one fault of a history.
type Fault struct {
	Kind   string
	Broker int
	At     time.Duration // virtual, since the beginning
	// LeftOut says that the options kept it from happening.
	LeftOut bool
}

// String shows a fault as reports do.
func (f Fault) String() string {
	out := fmt.Sprintf("%.3fs %s of %d", f.At.Seconds(), f.Kind, f.Broker)
	if f.LeftOut {
		out += " (left out)"
	}
	return out
}

// strike makes one fault happen, unless the options leave it out. What it is and what chance says within it do not depend on other faults, so that one
// can be left out without changing the others.
func (w *World) strike(kind int, b *broker) {
	n := len(w.struck)
	f := Fault{Kind: w.kinds[kind].name, Broker: int(b.id), At: w.now - time.Second}
	f.LeftOut = w.opts.without(f.Kind) || slices.Contains(w.opts.Skip, n) || w.opts.MaxFaults > 0 && n >= w.opts.MaxFaults
	w.struck = append(w.struck, f)
	if f.LeftOut || w.kinds[kind].admin && w.fragile() {
		return
	}
	w.note("fault "+f.Kind, int64(n), int64(b.id))
	common := w.rng
	w.rng = rand.New(rand.NewPCG(w.opts.Seed, uint64(n)+1))
	w.kinds[kind].do(w, b)
	w.rng = common
}
