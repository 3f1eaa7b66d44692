package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/moldau-log/moldau/config"
	"github.com/moldau-log/moldau/server"
)

const (
	maxDevBrokers = 9
	devBasePort   = 9092 // of the Kafka port of broker 0; the others follow
	portStep      = 100  // from broker to broker
	devReadyPoll  = 5 * time.Millisecond
)

// devFlags are the flags of `moldau dev`.
type devFlags struct {
	brokers  int
	data     string
	basePort int
	logLevel string
}

func newDev(a *app) *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run brokers in one process, to try things on",
		Long: `Run one or more brokers in one process, on loopback only, and create topics when they are first used.
Broker i listens on 9092+100i (Kafka), 9094+100i (gRPC), 9093+100i (brokers among themselves) and 9644+100i (HTTP). Without --data everything is gone at the end.`,
		Example: "  moldau dev\n  moldau dev --brokers 3 --data ./dev-data",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDev(cmd.Context(), a, f) },
	}
	cmd.Flags().IntVar(&f.brokers, "brokers", 1, "how many brokers")
	cmd.Flags().StringVar(&f.data, "data", "", "directory to keep; default: a temporary one that is removed at the end")
	cmd.Flags().IntVar(&f.basePort, "base-port", devBasePort, "port that the others are counted from")
	cmd.Flags().StringVar(&f.logLevel, "log-level", "warn", "debug, info, warn or error")
	return cmd
}

func runDev(ctx context.Context, a *app, f devFlags) error {
	if f.brokers < 1 || f.brokers > maxDevBrokers {
		return usage("--brokers %d is not within 1 and %d", f.brokers, maxDevBrokers)
	}
	if last := f.basePort + portStep*(f.brokers-1) + 9644 - devBasePort; f.basePort < 1 || last > math.MaxUint16 {
		return usage("--base-port %d: the ports from it to %d are not within 1 and %d", f.basePort, last, math.MaxUint16)
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, f.logLevel) {
		return usage("--log-level %q is not one of debug, info, warn, error", f.logLevel)
	}
	if f.data == "" {
		dir, err := os.MkdirTemp("", "moldau-dev-")
		if err != nil {
			return fmt.Errorf("make a data directory: %w", err)
		}
		defer os.RemoveAll(dir)
		f.data = dir
	}
	log := newLogger(config.Log{Level: f.logLevel, Format: "text"}, a.err)
	began := time.Now()
	var servers []*server.Server
	for i := range f.brokers {
		srv, err := server.New(devConfig(f, i), version, log)
		if err != nil {
			return hinted(errors.Join(fmt.Errorf("broker %d cannot start: %w", i, err), stopAll(ctx, servers)),
				"Another broker may run already; --base-port moves all ports.")
		}
		servers = append(servers, srv)
	}
	err := startAll(ctx, servers)
	if err == nil {
		err = a.show(viewDev(f, servers, time.Since(began)))
	}
	if err == nil {
		err = waitForEnd(ctx, servers)
	}
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, stopAll(ctx, servers))
}

// devConfig is the configuration of broker i.
func devConfig(f devFlags, i int) config.Config {
	cfg := config.Default()
	at := func(offset int) string { return fmt.Sprintf("127.0.0.1:%d", f.basePort+portStep*i+offset) }
	cfg.ID, cfg.Data = int32(i), filepath.Join(f.data, fmt.Sprintf("broker-%d", i))
	cfg.Kafka.Addr, cfg.Peer.Addr, cfg.GRPC.Addr, cfg.HTTP.Addr = at(0), at(1), at(2), at(9644-devBasePort)
	cfg.Log.Level, cfg.Topic.AutoCreate, cfg.GRPCReflection, cfg.Shutdown.Drain = f.logLevel, true, true, time.Second
	if f.brokers > 1 {
		cfg.BootstrapExpect = int32(f.brokers)
		for j := range f.brokers {
			cfg.Seeds = append(cfg.Seeds, fmt.Sprintf("127.0.0.1:%d", f.basePort+portStep*j+1))
		}
	}
	return cfg
}

// startAll starts the brokers side by side, for they need each other, and waits until all are in service.
func startAll(ctx context.Context, servers []*server.Server) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, srv := range servers {
		all.Go(func() error {
			if err := srv.Start(ctx); err != nil {
				return err
			}
			for {
				if ready, _ := srv.Ready(); ready {
					return nil
				}
				select {
				case <-time.After(devReadyPoll):
				case err := <-srv.Fatal():
					return err
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
	}
	return all.Wait()
}

// waitForEnd waits for ctx, or for the first broker that cannot go on.
func waitForEnd(ctx context.Context, servers []*server.Server) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, srv := range servers {
		all.Go(func() error {
			select {
			case err := <-srv.Fatal():
				return err
			case <-ctx.Done():
				return nil
			}
		})
	}
	return all.Wait()
}

func stopAll(ctx context.Context, servers []*server.Server) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopMargin)
	defer cancel()
	var all errgroup.Group
	for _, srv := range servers {
		all.Go(func() error { return srv.Stop(bounded) })
	}
	return all.Wait()
}

// devShape is one broker in `moldau dev -o json`.
type devShape struct {
	Broker int    `json:"broker"`
	Kafka  string `json:"kafka"`
	GRPC   string `json:"grpc"`
	HTTP   string `json:"http"`
	Peer   string `json:"peer"`
	Data   string `json:"data"`
}

func viewDev(f devFlags, servers []*server.Server, took time.Duration) view {
	v := view{fields: []field{{"moldau", version}}}
	var shapes []devShape
	for i, srv := range servers {
		at := srv.Addresses()
		s := devShape{Broker: i, Kafka: at.Kafka, GRPC: at.GRPC, HTTP: "http://" + at.HTTP, Peer: at.Peer, Data: filepath.Join(f.data, fmt.Sprintf("broker-%d", i))}
		shapes = append(shapes, s)
		v.fields = append(v.fields, field{fmt.Sprintf("broker %d", i), fmt.Sprintf("kafka %s   grpc %s   metrics %s/metrics   data %s", s.Kafka, s.GRPC, s.HTTP, s.Data)})
		v.names = append(v.names, s.GRPC)
	}
	servers0 := ""
	if f.basePort != devBasePort {
		servers0 = "MOLDAU_SERVER=" + shapes[0].GRPC + " "
	}
	v.fields = append(v.fields,
		field{"flush", "every record is on disk before it is acknowledged"},
		field{"ready", fmt.Sprintf("in %d ms; Ctrl-C stops it", took.Milliseconds())},
		field{"next", "echo hello | " + servers0 + "moldau produce greetings && " + servers0 + "moldau consume greetings --from start -n 1"})
	v.value = shapes
	return v
}
