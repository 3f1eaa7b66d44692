package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/moldau-log/moldau/config"
	"github.com/moldau-log/moldau/server"
)

// stopMargin is what an orderly stop may take beyond shutdown.drain: closing doors, flushing and marking logs, ending Raft.
const stopMargin = 30 * time.Second

// serve runs a broker until ctx ends, which stops it in an orderly way, or until it must not go on.
func serve(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	s, err := server.New(cfg, version, log)
	if err != nil {
		return fmt.Errorf("the broker cannot start: %w", err)
	}
	a := s.Addresses()
	log.Info("addresses", "kafka", a.Kafka, "grpc", a.GRPC, "peer", a.Peer, "http", a.HTTP, "data", cfg.Data)
	doors := []string{a.Kafka, a.GRPC, a.Peer, a.HTTP}
	for _, name := range slices.Sorted(maps.Keys(a.Listeners)) {
		log.Info("kafka listener", "name", name, "address", a.Listeners[name])
		doors = append(doors, a.Listeners[name])
	}
	if open := beyondLoopback(doors...); len(open) > 0 {
		log.Warn("PLAINTEXT WITHOUT AUTHENTICATION: everybody who reaches these ports can read and write everything", "addresses", open)
	}
	started := make(chan error, 1)
	go func() { started <- s.Start(ctx) }()
	err = await(ctx, s, started, log)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Shutdown.Drain+stopMargin)
	defer cancel()
	if stopErr := s.Stop(stop); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("the stop was not orderly: %w", stopErr))
	}
	if err == nil {
		log.Info("stopped")
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
			log.Info("stopping; a second signal ends the broker at once")
			if started != nil { // Start returns at once now
				<-started
			}
			return nil
		}
	}
}

// beyondLoopback lists the addresses that more than this machine can reach.
func beyondLoopback(addresses ...string) []string {
	var open []string
	for _, address := range addresses {
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			open = append(open, address)
		}
	}
	return open
}
