package main

import (
	"errors"
	"fmt"
	"io"
	"math"
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

// exclusiveKey is the annotation of a command with its pairs of flags that exclude each other.
const exclusiveKey = "moldau_exclusive"

// exclusive says that at most one of two flags may be given. Completion knows it too.
func exclusive(cmd *cobra.Command, one, other string) {
	cmd.MarkFlagsMutuallyExclusive(one, other)
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[exclusiveKey] = strings.TrimSpace(cmd.Annotations[exclusiveKey] + " " + one + "," + other)
}

// strict makes every mistake that cobra finds in a command line a usage error in our words: it is the one place that translates them, with badFlag.
// A command that only holds others prints help, or refuses a word with the nearest command.
func strict(a *app, cmd *cobra.Command) {
	if cmd.HasSubCommands() {
		cmd.Args, cmd.RunE = cobra.ArbitraryArgs, onlyHolds
		return
	}
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if check != nil && check(cmd, args) != nil {
			return badArguments(cmd, check, args)
		}
		if err := checkExclusive(cmd); err != nil {
			return err
		}
		a.warnOfEnvironment(cmd)
		return a.checkGlobalFlags()
	}
}

// onlyHolds is what a command does that only holds others.
func onlyHolds(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, append(c.Aliases, c.Name())...)
	}
	if near := config.Nearest(args[0], names); near != "" {
		return usage("unknown command %q, did you mean %q?", args[0], near)
	}
	return usage("unknown command %q; `%s --help` lists the commands", args[0], cmd.CommandPath())
}

// mostArguments bounds the search for how many arguments a command needs.
const mostArguments = 10

// badArguments says whether arguments are missing or too many: whichever number the command's own check accepts next tells it.
func badArguments(cmd *cobra.Command, check cobra.PositionalArgs, args []string) error {
	fewest := 0
	for check(cmd, make([]string, fewest)) != nil && fewest < mostArguments {
		fewest++
	}
	what := ""
	switch missing := fewest - len(args); {
	case missing > 1:
		what = fmt.Sprintf("%d arguments are missing", missing)
	case missing == 1:
		what = "an argument is missing"
	case fewest == 0:
		what = fmt.Sprintf("it takes no arguments, and %q is one", args[0])
	default:
		what = fmt.Sprintf("the argument %q is one too many", args[fewest])
	}
	return usage("%s; usage: %s", what, cmd.UseLine())
}

func checkExclusive(cmd *cobra.Command) error {
	for pair := range strings.FieldsSeq(cmd.Annotations[exclusiveKey]) {
		one, other, _ := strings.Cut(pair, ",")
		if cmd.Flags().Changed(one) && cmd.Flags().Changed(other) {
			return usage("%s and %s exclude each other: give one of them", flagName(cmd.Flags().Lookup(one)), flagName(cmd.Flags().Lookup(other)))
		}
	}
	return nil
}

// flagName is a flag as people type it: -k, --key.
func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + " (--" + f.Name + ")"
	}
	return "--" + f.Name
}

// badFlag puts pflag's complaints into our words, with the nearest flag and what a value must look like.
func badFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var valueless *pflag.ValueRequiredError
	var value *pflag.InvalidValueError
	var syntax *pflag.InvalidSyntaxError
	list := fmt.Sprintf("`%s --help` lists the flags", cmd.CommandPath())
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return usage("unknown flag -%c in %q; %s", unknown.GetSpecifiedName()[0], "-"+unknown.GetSpecifiedShortnames(), list)
	case errors.As(err, &unknown):
		word := "--" + unknown.GetSpecifiedName()
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		if near := config.Nearest(word, names); near != "" {
			return usage("unknown flag %s, did you mean %s?", word, near)
		}
		return usage("unknown flag %s; %s", word, list)
	case errors.As(err, &valueless):
		return usage("%s needs a value: %s", flagName(valueless.GetFlag()), valueless.GetFlag().Usage)
	case errors.As(err, &value):
		return usage("%s %q is not %s", flagName(value.GetFlag()), value.GetValue(), wanted(value.GetFlag().Value.Type(), value.Unwrap()))
	case errors.As(err, &syntax):
		return usage("%q is not a flag; write --name, --name=value or --name value; %s", syntax.GetSpecifiedFlag(), list)
	}
	return usage("%w; %s", err, list)
}

// wanted says what a flag's value must be, by pflag's name of its type.
func wanted(kind string, cause error) string {
	switch kind {
	case "bool":
		return "true or false"
	case "int32":
		return fmt.Sprintf("a whole number from %d to %d", math.MinInt32, math.MaxInt32)
	case "int", "int64":
		return "a whole number, or it is too large"
	case "duration":
		return "a duration; write a number with a unit such as 250ms, 10s or 5m"
	case "int32Slice":
		return "a list of whole numbers such as 0,1,2"
	case "stringSlice":
		return "a list with commas; a value with quotes needs them in pairs"
	}
	return fmt.Sprintf("possible: %v", cause)
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
