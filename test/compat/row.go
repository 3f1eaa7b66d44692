package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	setupWait      = 15 * time.Minute  // a first setup downloads and compiles
	capabilityWait = 120 * time.Second // a capability ends within 90 s by itself, where the row does not ask for more
	cannot         = 77                // exit status of a client that has no such function
)

// result is one cell of the table.
type result struct {
	client, capability string
	pass               bool
	na                 bool   // the client cannot do this
	text               string // why it failed, or why it cannot
	took               time.Duration
}

// runner runs the scripts of one client.
type runner struct {
	name, dir, logs, cache, prefix string
	cluster                        *cluster
	second                         *secondCluster
}

// row sets the client up and runs those of its capabilities that are wanted.
func (r *runner) row(ctx context.Context, wanted func(capability string) bool) []result {
	out, err := r.script(ctx, setupWait, nil, "setup.sh")
	if err != nil {
		return []result{r.report("setup", err, out, 0)}
	}
	out, err = r.script(ctx, time.Minute, nil, "run.sh", "list")
	if err != nil {
		return []result{r.report("list", err, out, 0)}
	}
	var results []result
	for line := range strings.Lines(out.stdout) {
		capability, err := parseCapability(line)
		if err != nil {
			return append(results, r.report("list", err, output{}, 0))
		}
		if !wanted(capability.name) {
			continue
		}
		begin := time.Now()
		out, err := r.capability(ctx, capability)
		results = append(results, r.report(capability.name, err, out, time.Since(begin)))
		if ctx.Err() != nil {
			break
		}
	}
	return results
}

func (r *runner) capability(ctx context.Context, c capability) (output, error) {
	if !c.second {
		return r.script(ctx, c.limit, nil, "run.sh", c.name)
	}
	addr, err := r.second.bootstrap(ctx)
	if err != nil {
		return output{}, err
	}
	return r.script(ctx, c.limit, []string{"BROKERS2=" + addr}, "run.sh", c.name)
}

// capability is a line of run.sh list.
type capability struct {
	name   string
	limit  time.Duration // how long it may take
	second bool          // it wants a second cluster
}

// parseCapability reads the name, seconds=N where it may take longer than usual, and second-cluster.
func parseCapability(line string) (capability, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return capability{}, errors.New("run.sh list has an empty line")
	}
	c := capability{name: words[0], limit: capabilityWait}
	for _, word := range words[1:] {
		if word == "second-cluster" {
			c.second = true
			continue
		}
		seconds, ok := strings.CutPrefix(word, "seconds=")
		n, err := strconv.Atoi(seconds)
		if !ok || err != nil || n <= 0 {
			return capability{}, fmt.Errorf("run.sh list: %s: %q is neither seconds=N nor second-cluster", c.name, word)
		}
		c.limit = time.Duration(n) * time.Second
	}
	return c, nil
}

// output is what a script has written.
type output struct{ stdout, stderr string }

func (r *runner) report(capability string, err error, out output, took time.Duration) result {
	res := result{client: r.name, capability: capability, took: took, pass: err == nil}
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() == cannot:
		res.na, res.text = true, lastLine(out.stdout)
	case lastLine(out.stderr) != "" && !errors.Is(err, context.DeadlineExceeded):
		res.text = lastLine(out.stderr)
	default:
		res.text = err.Error()
	}
	fmt.Printf("%-20s %-16s %6.1fs  %s\n", r.name, capability, took.Seconds(), res.word())
	return res
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// script runs one script of the client's folder in a process group of its own, which is killed when the time is over. Both outputs are kept, and
// written to the logs.
func (r *runner) script(ctx context.Context, limit time.Duration, env []string, name string, args ...string) (output, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	path, err := filepath.Abs(filepath.Join(r.dir, name))
	if err != nil {
		return output{}, err
	}
	work, err := os.MkdirTemp(r.logs, "work-")
	if err != nil {
		return output{}, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = filepath.Dir(path)
	cmd.Env = append(os.Environ(), "BROKERS="+r.cluster.bootstrap(), "PREFIX="+r.prefix, "COMPAT_CACHE="+r.cache, "MOLDAU="+r.cluster.bin, "DATA_DIRS="+r.cluster.dataDirs(), "TMPDIR="+work)
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return output{}, err
	}
	// The outputs are ours to close: Wait must not close a pipe that is still read.
	reader, writer := io.Pipe()
	cmd.Stdout = writer
	stdout := make(chan string, 1)
	go func() { stdout <- r.listen(ctx, reader, stdin) }()
	err = cmd.Run()
	writer.Close()
	out := output{stdout: <-stdout, stderr: stderr.String()}
	if ctx.Err() != nil {
		err = fmt.Errorf("not finished after %s: %w", limit, ctx.Err())
	}
	log := filepath.Join(r.logs, strings.Join(append([]string{r.name, name}, args...), "-")+".log")
	if werr := os.WriteFile(log, []byte("--- stdout\n"+out.stdout+"--- stderr\n"+out.stderr), 0o644); werr != nil && err == nil {
		err = werr
	}
	return out, err
}

// listen collects what the client prints. At a line KILL a broker dies and comes back, then the client is told so.
func (r *runner) listen(ctx context.Context, from io.Reader, to io.WriteCloser) string {
	defer to.Close()
	var all strings.Builder
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		all.WriteString(line)
		if err != nil {
			return all.String()
		}
		if strings.TrimSpace(line) != "KILL" {
			continue
		}
		answer := "KILLED\n"
		if err := r.cluster.bounce(ctx); err != nil {
			answer = "FAILED " + err.Error() + "\n"
		}
		_, _ = io.WriteString(to, answer) // a client that has ended hears nothing; its status says the rest
	}
}
