package main

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/moldau-log/moldau/client"
	"github.com/moldau-log/moldau/config"
)

// app is what every command is given: its streams, its environment and the global flags.
type app struct {
	in      io.Reader
	out     io.Writer // data
	err     io.Writer // talk
	environ []string

	servers []string
	output  string
	timeout time.Duration
	flags   *pflag.FlagSet // the global flags, to see which were given
}

const (
	defaultServer  = "localhost:9094"
	defaultTimeout = 30 * time.Second
	// knock bounds the first look whether anybody listens at all.
	knock = 2 * time.Second
)

func (a *app) addGlobalFlags(flags *pflag.FlagSet) {
	servers := []string{defaultServer}
	if env := a.getenv(config.EnvServer); env != "" {
		servers = strings.Split(env, ",")
	}
	flags.StringSliceVar(&a.servers, "server", servers, "brokers to ask, host:port of the gRPC port; repeatable, or with commas; env MOLDAU_SERVER")
	flags.StringVarP(&a.output, "output", "o", formatTable, "output format: "+strings.Join(formats, ", "))
	flags.DurationVar(&a.timeout, "timeout", defaultTimeout, "how long to try; without it a command gives up at once where no server listens")
	flags.Lookup("server").DefValue = "[" + defaultServer + "]" // help shows the default, not what the environment has made of it
	a.flags = flags
}

// checkGlobalFlags refuses values that no command can use.
func (a *app) checkGlobalFlags() error {
	if !slices.Contains(formats, a.output) {
		return usage("-o %q is not one of %s", a.output, strings.Join(formats, ", "))
	}
	if a.timeout <= 0 {
		return usage("--timeout %v is not above 0", a.timeout)
	}
	for _, server := range a.servers {
		if _, _, err := net.SplitHostPort(server); err != nil {
			return usage("--server %q is not host:port, such as %s", server, defaultServer)
		}
	}
	return nil
}

// warnOfEnvironment tells of variables that look like a misspelt one of ours. What a broker is started with is told where it is loaded.
func (a *app) warnOfEnvironment(cmd *cobra.Command) {
	if cmd.Name() == serverCommand {
		return
	}
	for _, w := range config.Misspelt(a.environ) {
		a.say("warning: %s", w)
	}
}

func (a *app) getenv(name string) string {
	for _, pair := range slices.Backward(a.environ) {
		if key, text, ok := strings.Cut(pair, "="); ok && key == name {
			return text
		}
	}
	return ""
}

// connect returns a client of the cluster. Unless --timeout was given, it fails at once when every server refuses the connection, which is what
// happens to somebody who has not started one.
func (a *app) connect(opts ...client.Option) (*client.Client, error) {
	if !a.flags.Changed("timeout") {
		if err := a.anybodyThere(); err != nil {
			return nil, err
		}
	}
	return a.newClient(opts...)
}

func (a *app) newClient(opts ...client.Option) (*client.Client, error) {
	base := []client.Option{client.WithSeeds(a.servers...), client.WithClientID("moldau-cli"), client.WithRequestTimeout(a.timeout)}
	c, err := client.New(append(base, opts...)...)
	if err != nil {
		return nil, usage("%w", err)
	}
	return c, nil
}

// anybodyThere knocks at every server. A slow or unresolvable one may still turn out well: only refusals count.
func (a *app) anybodyThere() error {
	var last error
	for _, server := range a.servers {
		conn, err := net.DialTimeout("tcp", server, knock)
		if err == nil {
			conn.Close()
			return nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		last = err
	}
	return &unreachable{servers: a.servers, err: last}
}

// isTerminal says whether a stream is a person's screen.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
