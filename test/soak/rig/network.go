//go:build linux

package rig

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Host is the number of the clients' end of a link: this process, on the bridge.
const Host = -1

// blackHole is a hardware address that nobody has: frames to it vanish.
const blackHole = "02:00:00:00:ff:ff"

// Address is where a broker, or Host, is found.
func Address(n int) string { return fmt.Sprintf("10.99.0.%d", 10+n) }

func hardware(n int) string { return fmt.Sprintf("02:00:00:00:00:%02x", 10+n) }

func namespace(n int) string { return fmt.Sprintf("broker-%d", n) }

// Network is a bridge in this process's network namespace and a namespace per broker on it. Neighbour entries are fixed, so that a link in one direction is cut
// by sending its frames to nobody: nothing is refused, packets are gone, as in a real partition.
type Network struct {
	brokers int

	mu  sync.Mutex      // guards cut
	cut map[[2]int]bool // from, to
}

// NewNetwork makes the network of n brokers.
func NewNetwork(n int) (*Network, error) {
	net := &Network{brokers: n, cut: map[[2]int]bool{}}
	steps := [][]string{
		{"link", "add", "soak", "type", "bridge"},
		{"link", "set", "soak", "address", hardware(Host), "up"},
		{"addr", "add", Address(Host) + "/24", "dev", "soak"},
	}
	for i := range n {
		end, port := fmt.Sprint("e", i), fmt.Sprint("p", i)
		steps = append(steps, [][]string{
			{"netns", "add", namespace(i)},
			{"link", "add", port, "type", "veth", "peer", "name", end},
			{"link", "set", end, "netns", namespace(i)},
			{"-n", namespace(i), "link", "set", end, "name", "eth0"},
			{"link", "set", port, "master", "soak"},
			{"link", "set", port, "up"},
			{"-n", namespace(i), "link", "set", "lo", "up"},
			{"-n", namespace(i), "addr", "add", Address(i) + "/24", "dev", "eth0"},
			{"-n", namespace(i), "link", "set", "eth0", "address", hardware(i), "up"},
		}...)
	}
	for _, s := range steps {
		if err := run("ip", s...); err != nil {
			return nil, err
		}
	}
	return net, net.Heal()
}

// Set lets packets from one end to another through, or not.
func (n *Network) Set(from, to int, through bool) error {
	if from == to {
		return nil
	}
	n.mu.Lock()
	n.cut[[2]int{from, to}] = !through
	n.mu.Unlock()
	mac := blackHole
	if through {
		mac = hardware(to)
	}
	args := []string{"neigh", "replace", Address(to), "lladdr", mac, "dev", "eth0", "nud", "permanent"}
	if from == Host {
		args[6] = "soak"
		return run("ip", args...)
	}
	return run("ip", append([]string{"-n", namespace(from)}, args...)...)
}

// Heal lets every packet through.
func (n *Network) Heal() error {
	for from := Host; from < n.brokers; from++ {
		for to := Host; to < n.brokers; to++ {
			if err := n.Set(from, to, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// Slow bounds what a broker receives and sends to a rate in kbit/s, with a queue of up to latency milliseconds; 0 ends it.
func (n *Network) Slow(broker, kbit, latency int) error {
	ends := [][]string{{"qdisc", "%s", "dev", fmt.Sprint("p", broker), "root"}, {"-n", namespace(broker), "qdisc", "%s", "dev", "eth0", "root"}}
	for _, args := range ends {
		verb := len(args) - 4
		if kbit == 0 {
			args[verb] = "del"
		} else {
			args[verb] = "replace"
			args = append(args, "tbf", "rate", fmt.Sprint(kbit, "kbit"), "burst", "16kb", "latency", fmt.Sprint(latency, "ms"))
		}
		if err := run("tc", args...); err != nil {
			return err
		}
	}
	return nil
}

// inNamespace runs f on a thread that is in a broker's network namespace: a process that it starts stays there.
func inNamespace(broker int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, which is in the wrong namespace, ends with this goroutine
		done <- func() error {
			fd, err := unix.Open("/run/netns/"+namespace(broker), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("rig: open namespace of broker %d: %w", broker, err)
			}
			defer unix.Close(fd)
			if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("rig: enter namespace of broker %d: %w", broker, err)
			}
			return f()
		}()
	}()
	return <-done
}
