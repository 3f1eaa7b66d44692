package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/moldau-log/moldau/config"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE) // a reader that went away is an error of the write, so that a group member can still leave in order
	go func() {
		<-signals
		cancel() // an orderly end
		<-signals
		os.Exit(exitFailure) // at once
	}()
	os.Exit(run(ctx, os.Args[1:], &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ()}))
}

// run executes one command line and gives its exit code.
func run(ctx context.Context, args []string, a *app) int {
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		complain(a.err, cmd, err)
	}
	return exitCode(err)
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "moldau",
		Short: "A replicated, partitioned log: broker and command line",
		Long: `Moldau is a replicated, partitioned log in one binary.

  moldau dev                                       a broker to try things on
  echo hello | moldau produce greetings            write
  moldau consume greetings --from start -n 1       read`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	a.addGlobalFlags(root.PersistentFlags())
	root.AddCommand(
		newServer(a), newDev(a), newTopic(a), newProduce(a), newConsume(a), newGroup(a), newConfig(a), newCluster(a), newLog(a), newVersion(a), newDocs(a),
	)
	root.SetFlagErrorFunc(badFlag)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	for _, cmd := range everyCommand(root) {
		refuseUnknown(cmd)
	}
	return root
}

func everyCommand(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		all = append(all, everyCommand(c)...)
	}
	return all
}

// refuseUnknown makes a command that only holds others print help, or refuse a word with the nearest command; and makes wrong arguments of the
// others a usage error.
func refuseUnknown(cmd *cobra.Command) {
	if !cmd.HasSubCommands() {
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil {
					return usage("%w; usage: %s", err, cmd.UseLine())
				}
				return nil
			}
		}
		return
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		if near := config.Nearest(args[0], names); near != "" {
			return usage("unknown command %q, did you mean %q?", args[0], near)
		}
		return usage("unknown command %q; `%s --help` lists the commands", args[0], cmd.CommandPath())
	}
}

// badFlag adds the nearest flag to cobra's complaint.
func badFlag(cmd *cobra.Command, err error) error {
	word, ok := strings.CutPrefix(err.Error(), "unknown flag: ")
	if !ok {
		return usage("%w", err)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *flag) { names = append(names, "--"+f.Name) })
	if near := config.Nearest(word, names); near != "" {
		return usage("unknown flag %s, did you mean %s?", word, near)
	}
	return usage("unknown flag %s; `%s --help` lists the flags", word, cmd.CommandPath())
}

// complain prints an error: what failed, why, and what to do.
func complain(w io.Writer, cmd *cobra.Command, err error) {
	if silent(err) {
		return
	}
	fmt.Fprintf(w, "%s: %s\n", cmd.CommandPath(), reason(err))
	if hint := remedy(err); hint != "" {
		fmt.Fprintln(w, hint)
	}
}
