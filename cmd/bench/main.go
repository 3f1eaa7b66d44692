package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

// The exit codes, as those of the moldau command.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, out, talk io.Writer) int {
	root := newRoot(out, talk)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(talk)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(talk, "%s: %v\n", cmd.CommandPath(), err)
	if _, running := err.(*runError); running {
		return exitFailure
	}
	return exitUsage
}

// runError is a failure of the run itself; any other error is one of usage.
type runError struct{ err error }

func (e *runError) Error() string { return e.err.Error() }
func (e *runError) Unwrap() error { return e.err }

func newRoot(out, talk io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use: "bench", Short: "Load a cluster and measure it", Version: version, SilenceErrors: true, SilenceUsage: true,
	}
	for _, c := range []struct {
		name, short string
		parts       parts
	}{
		{"produce", "Append batches", parts{produce: true}},
		{"consume", "Read a backlog to its end, or follow the end with --tail", parts{consume: true}},
		{"mixed", "Append and follow the end at once; the latency of reading is from append to delivery", parts{produce: true, consume: true}},
	} {
		s := defaultSettings()
		cmd := &cobra.Command{
			Use: c.name, Short: c.short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := s.validate(); err != nil {
					return err
				}
				result, err := measure(cmd.Context(), c.name, c.parts, s, talk)
				if err != nil {
					return &runError{err}
				}
				return result.print(out, s.Output)
			},
		}
		s.addFlags(cmd.Flags(), c.parts)
		root.AddCommand(cmd)
	}
	root.AddCommand(newReady(out))
	return root
}

// print writes the result as JSON or for people.
func (r *result) print(out io.Writer, format string) error {
	if format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return r.printText(out)
}
