package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/moldau-log/moldau/config"
	"github.com/moldau-log/moldau/server"
)

// stopTimeout bounds an orderly stop after the drain: closing the doors and the logs.
const stopTimeout = 30 * time.Second

// serve runs a broker until ctx ends, which stops it in an orderly way, or until it must not go on.
func serve(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	s, err := server.New(cfg, version, log)
	if err != nil {
		return err
	}
	a := s.Addresses()
	log.Info("addresses", "grpc", a.GRPC, "peer", a.Peer, "http", a.HTTP)
	log.Warn("this version does not serve the Kafka protocol; the port of --kafka-addr is not open", "kafka_addr", cfg.Kafka.Addr)
	log.Warn("PLAINTEXT WITHOUT AUTHENTICATION: everybody who reaches these ports can read and write everything")
	started := make(chan error, 1)
	go func() { started <- s.Start(ctx) }()
	err = await(ctx, s, started, log)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Shutdown.Drain+stopTimeout)
	defer cancel()
	if stopErr := s.Stop(stop); stopErr != nil && err == nil {
		err = fmt.Errorf("the stop was not orderly: %w", stopErr)
	}
	return err
}

// await returns when the broker is to stop: nil when that is what ctx says.
func await(ctx context.Context, s *server.Server, started <-chan error, log *slog.Logger) error {
	for {
		select {
		case err := <-started:
			if err != nil && ctx.Err() == nil {
				return err
			}
			if ctx.Err() != nil {
				return nil
			}
			log.Info("serving")
			started = nil
		case err := <-s.Fatal():
			return err
		case <-ctx.Done():
			if started != nil { // Start returns at once now
				<-started
			}
			log.Info("stopping")
			return nil
		}
	}
}
