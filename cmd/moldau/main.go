package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE) // a reader that went away is an error of the write, so that a group member can still leave in order
	go obey(signals, cancel, os.Exit)
	os.Exit(run(ctx, os.Args[1:], &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ()}))
}

// sameSignal is how long after the first signal another one counts as the same: timeout(1), for one, sends it to the process and to its group.
const sameSignal = 250 * time.Millisecond

// obey ends in an orderly way at the first signal, and at once at another.
func obey(signals <-chan os.Signal, cancel func(), exit func(int)) {
	<-signals
	cancel()
	same := time.After(sameSignal)
	for {
		select {
		case <-signals:
			continue
		case <-same:
		}
		break
	}
	<-signals
	exit(exitFailure)
}

// run executes one command line and gives its exit code.
func run(ctx context.Context, args []string, a *app) int {
	root := newRoot(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if errors.Is(err, syscall.EPIPE) {
		return exitDone // whoever reads standard output has enough
	}
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
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	a.addGlobalFlags(root.PersistentFlags())
	root.AddCommand(
		newServer(a), newDev(a), newTopic(a), newProduce(a), newConsume(a), newGroup(a), newConfig(a), newCluster(a), newLog(a), newVersion(a), newDocs(a),
	)
	root.SetFlagErrorFunc(badFlag)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetHelpCommand(newHelp(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd() // cobra would add both later, out of reach of strict
	for _, cmd := range everyCommand(root) {
		strict(a, cmd)
	}
	return root
}

// newHelp is `moldau help`; cobra's own takes any word for a topic and exits 0.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil && len(rest) == 0 {
				cmd.InitDefaultHelpFlag()
				return cmd.Help()
			}
			if err == nil && cmd.HasSubCommands() {
				return onlyHolds(cmd, rest)
			}
			return usage("%q is not a command; `moldau help` lists them", strings.Join(args, " "))
		},
	}
}
