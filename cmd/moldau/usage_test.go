package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// foreign are pieces of the messages of cobra, pflag, strconv and time, which no person should have to read.
var foreign = []string{
	"strconv.", "invalid syntax", "value out of range", "arg(s)", "flags in the group", "flag needs an argument", "unknown shorthand", "invalid argument", "bad flag syntax",
	"time: ", "parse error", "for \"moldau", "Run 'moldau", "requires at least",
}

// TestEveryUsageMistake: exit 2, nothing on standard output, our words, and what to do, also while no broker runs.
func TestEveryUsageMistake(t *testing.T) {
	nobody := closedPort(t)
	for _, c := range []struct {
		args string
		says string
	}{
		{"tpoic list", `did you mean "topic"?`},
		{"foo", "`moldau --help` lists the commands"},
		{"topic lst", `did you mean "list"?`},
		{"help nope", "`moldau --help` lists the commands"},
		{"help topic list x", "`moldau help` lists them"},
		{"help topic nope", "`moldau topic --help` lists the commands"},
		{"completion nope", "`moldau completion --help` lists the commands"},
		{"completion bash x", `it takes no arguments, and "x" is one`},
		{"--sever x topic list", "did you mean --server?"},
		{"topic list --nothing-like-it", "`moldau topic list --help` lists the flags"},
		{"topic list -q", "unknown flag -q"},
		{"topic list -oq=", "is not one of table"},
		{"topic list --=x", "is not a flag; write --name"},
		{"topic list x", `it takes no arguments, and "x" is one`},
		{"topic list -o xml", "is not one of table"},
		{"version -o xml", "is not one of table"},
		{"log verify . -o xml", "is not one of table"},
		{"topic list --timeout 10", `--timeout "10" is not a duration`},
		{"topic list --timeout 0s", "is not above 0"},
		{"topic list --server nohost", "is not host:port"},
		{"topic list --server", "--server needs a value: brokers to ask"},
		{"topic list -o", "-o (--output) needs a value"},
		{"topic create", "an argument is missing; usage: moldau topic create NAME"},
		{"topic create a b", `the argument "b" is one too many; usage: moldau topic create NAME`},
		{"topic create a -p abc", `-p (--partitions) "abc" is not a whole number`},
		{"topic create a -p 99999999999", "is not a whole number from -2147483648 to 2147483647"},
		{"topic create a -p -3", "or 0 for the cluster's default"},
		{"topic create a -r 1.5", "is not a whole number"},
		{"topic create a -c novalue", "is not key=value"},
		{"topic create a --assignment 0,x", "is not a list of broker ids"},
		{"topic create a --dry-run=perhaps", `--dry-run "perhaps" is not true or false`},
		{"topic describe", "an argument is missing"},
		{"topic delete", "an argument is missing"},
		{"topic alter a", "nothing to change"},
		{"topic add-partitions a", "-p TOTAL is missing"},
		{"topic trim a -p x", `is not a list of whole numbers such as 0,1,2`},
		{"topic trim a -p -1", "partitions are numbered from 0"},
		{"topic trim a --before x", "is not a whole number"},
		{"topic trim a --before -2", "or -1 for the high watermark"},
		{"produce", "an argument is missing"},
		{"produce t -k x --key-delimiter :", "-k (--key) and --key-delimiter exclude each other"},
		{"produce t -p -3", "partitions are numbered from 0"},
		{"produce t -p abc", "is not a whole number"},
		{"produce t --acks most", "is not one of isr, leader, none"},
		{"produce t -z zip", "is not one of none, gzip"},
		{"produce t -H x", "is not name=value"},
		{"produce t --max-record-bytes many", "is not a size from 1KiB to 64MiB"},
		{"produce t --max-record-bytes 65MiB", "is not a size from 1KiB to 64MiB"},
		{"consume t -g g -p 0", "-g (--group) and -p (--partition) exclude each other"},
		{"consume t -p -1", "partitions are numbered from 0"},
		{"consume t -n many", "is not a whole number"},
		{"consume t --from nowhere", "is not start, end"},
		{"consume t --from @soon", "is not milliseconds since 1970"},
		{"consume t -f %z", "-f"},
		{"group describe", "an argument is missing"},
		{"group why a b", "one too many"},
		{"group reset g --to sideways", "is not start, end"},
		{"group reset g --to start --topic t:x", "is not TOPIC:PARTITION"},
		{"config get", "an argument is missing"},
		{"config get planet", "is not one of topic, broker, cluster"},
		{"config set topic", "an argument is missing"},
		{"config set", "2 arguments are missing"},
		{"config set topic t", "nothing to set"},
		{"config set topic t novalue", "is not key=value"},
		{"config unset cluster", "an argument is missing"},
		{"cluster reassign t", "give either --replicas or --cancel"},
		{"cluster reassign t --cancel", "is not TOPIC:PARTITION"},
		{"cluster reassign t:0 --replicas x", "is not a list of broker ids"},
		{"cluster elect t:-1", "is not TOPIC:PARTITION"},
		{"cluster elect --unclean", "name the partitions"},
		{"cluster unregister x", "is not a broker id"},
		{"cluster recover --backup x --rejoin", "--backup and --rejoin exclude each other"},
		{"cluster recover", "--data is missing"},
		{"dev --brokers x", "is not a whole number"},
		{"dev --brokers 0", "is not within 1 and 9"},
		{"dev --base-port 99999", "not within 1 and 65535"},
		{"dev --log-level loud", "is not one of debug, info, warn, error"},
		{"server --id x", "is not a whole number"},
		{"server --session-timeout 10", "is not a duration"},
		{"server extra", "it takes no arguments"},
		{"log dump", "an argument is missing"},
	} {
		got := cli(t, nobody, "", strings.Fields(c.args)...)
		if got.code != exitUsage || got.out != "" {
			t.Errorf("%s: exit %d, want 2; standard output %.60q; %s", c.args, got.code, got.out, got.err)
		}
		if !strings.Contains(got.err, c.says) {
			t.Errorf("%s: %q does not say %q", c.args, got.err, c.says)
		}
		for _, piece := range foreign {
			if strings.Contains(got.err, piece) {
				t.Errorf("%s: %q is not in our words: %q", c.args, got.err, piece)
			}
		}
	}
}

// TestEveryCommandIsStrict: a command that is added later gets the same treatment, whatever it is.
func TestEveryCommandIsStrict(t *testing.T) {
	nobody := closedPort(t)
	for _, cmd := range everyCommand(newRoot(&app{})) {
		if cmd.Hidden || cmd.Name() == "help" {
			continue
		}
		path := strings.Fields(strings.TrimPrefix(cmd.CommandPath(), "moldau"))
		for _, bad := range [][]string{{"--no-such-flag-at-all"}, {"-o"}, {"--timeout=abc"}} {
			args := append(append([]string{}, path...), bad...)
			got := cli(t, nobody, "", args...)
			if got.code != exitUsage || !strings.HasPrefix(got.err, cmd.CommandPath()+": ") || strings.Contains(got.err, "time: ") {
				t.Errorf("%v: exit %d, %q", args, got.code, got.err)
			}
		}
		checkExclusiveIsOurs(t, cmd)
	}
}

// checkExclusiveIsOurs: flags that cobra knows to exclude each other are said to by exclusive, so that cobra's words never show.
func checkExclusiveIsOurs(t *testing.T, cmd *cobra.Command) {
	t.Helper()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		for _, pair := range f.Annotations["cobra_annotation_mutually_exclusive"] {
			if ours := strings.ReplaceAll(pair, " ", ","); !strings.Contains(cmd.Annotations[exclusiveKey], ours) {
				t.Errorf("%s: %s exclude each other in cobra's words; use exclusive", cmd.CommandPath(), pair)
			}
		}
	})
}

func TestEnvironment(t *testing.T) {
	address := sampleBroker().start(t)
	got := cliWith(t, []string{"MOLDAU_SERVR=a:1", "MOLDAU_PEER_ADR=x", "MOLDAU_SERVICE_HOST=10.0.0.1"}, address, "", "topic", "list")
	if got.code != exitDone || strings.Count(got.err, "warning: ") != 2 || !strings.Contains(got.err, "MOLDAU_SERVR is ignored, did you mean MOLDAU_SERVER?") ||
		!strings.Contains(got.err, "MOLDAU_PEER_ADR is ignored, did you mean MOLDAU_PEER_ADDR?") {
		t.Errorf("exit %d, %q", got.code, got.err)
	}
	// Help shows defaults, not what the environment has made of them.
	for _, c := range [][2]string{{"topic list --help", "(default [localhost:9094])"}, {"server --help", "env MOLDAU_CONFIG\n"}} {
		got := cliWith(t, []string{"MOLDAU_CONFIG=/etc/mine.yaml"}, "broker-7:9094", "", strings.Fields(c[0])...)
		if got.code != exitDone || !strings.Contains(got.out, c[1]) || strings.Contains(got.out, "broker-7") || strings.Contains(got.out, "mine.yaml") {
			t.Errorf("%s: exit %d\n%s", c[0], got.code, got.out)
		}
	}
}
