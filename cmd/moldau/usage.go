package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/moldau-log/moldau/config"
)

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
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
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
