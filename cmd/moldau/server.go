package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/moldau-log/moldau/config"
)

// serverCommand is the name of the command that runs a broker.
const serverCommand = "server"

func newServer(a *app) *cobra.Command {
	var file string
	var check bool
	own := pflag.NewFlagSet("server", pflag.ContinueOnError)
	config.AddFlags(own, config.Default())
	cmd := &cobra.Command{
		Use:   serverCommand,
		Short: "Run a broker",
		Long: `Run one broker until SIGTERM or SIGINT, which stop it in an orderly way: leaderships move to other brokers first. A second signal ends it at once.

Every flag is also a key of the YAML file given with --config and an environment variable: --session-timeout is session.timeout and
MOLDAU_SESSION_TIMEOUT. A flag is stronger than the environment, the environment than the file. See docs/configuration.md.`,
		Example: `  moldau server --data /var/lib/moldau                                  one broker alone
  moldau server --id 0 --data d0 --seeds a:9093,b:9093,c:9093 --bootstrap-expect 3 --advertise-peer a:9093 --advertise-grpc a:9094 --advertise-kafka a:9092
  moldau server --config /etc/moldau.yaml --check-config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, warnings, err := config.Load(config.Sources{Flags: own, Environ: a.environ, File: file})
			for _, w := range warnings {
				fmt.Fprintln(a.err, "warning:", w)
			}
			if err != nil {
				return usage("the configuration is not usable:\n%w", err)
			}
			if check {
				fmt.Fprintln(a.err, "the configuration is usable")
				return nil
			}
			return serve(cmd.Context(), cfg, newLogger(cfg.Log, a.err))
		},
	}
	cmd.Flags().AddFlagSet(own)
	cmd.Flags().StringVar(&file, "config", a.getenv(config.EnvConfig), "YAML file with the configuration; env MOLDAU_CONFIG")
	cmd.Flags().Lookup("config").DefValue = "" // help shows the default, not what the environment has made of it
	cmd.Flags().BoolVar(&check, "check-config", false, "say whether the configuration is usable, and start nothing")
	return cmd
}

// newLogger makes the process's logger.
func newLogger(cfg config.Log, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // Validate has refused anything else
	}
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
