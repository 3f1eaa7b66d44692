package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// How often a broker is asked whether it is ready, and how long it may take to answer once.
const (
	readyPoll     = 5 * time.Millisecond
	readyPatience = 2 * time.Second
)

// metadataVersion is the last one without compact forms.
const metadataVersion = 8

func newReady(out io.Writer) *cobra.Command {
	var servers []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "ready", Short: "Wait until every one of --server says through Kafka's protocol that all of them are in the cluster and that there is a controller", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			start := time.Now()
			for _, address := range servers {
				if err := awaitBroker(ctx, address, len(servers)); err != nil {
					return &runError{err}
				}
			}
			_, err := fmt.Fprintf(out, "ready after %d ms\n", time.Since(start).Milliseconds())
			return err
		},
	}
	cmd.Flags().StringSliceVar(&servers, "server", defaultServers(protocolKafka), "brokers, host:port of the Kafka port")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait")
	return cmd
}

func awaitBroker(ctx context.Context, address string, brokers int) error {
	var last error // what the broker lacks, and not that time ran out while it was asked
	for {
		err := askBroker(ctx, address, brokers)
		switch {
		case err == nil:
			return nil
		case last == nil || !timedOut(err):
			last = err
		}
		if !pause(ctx, readyPoll) {
			return fmt.Errorf("%s is not ready: %w", address, last)
		}
	}
}

// timedOut reports whether an error says no more than that there was no answer in time.
func timedOut(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

// askBroker asks on a connection of its own, as every client's first question.
func askBroker(ctx context.Context, address string, brokers int) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	nc, hangUp, err := dialWithin(ctx, address)
	if err != nil {
		return err
	}
	defer hangUp()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = metadataVersion, []kmsg.MetadataRequestTopic{}
	body := req.AppendTo(nil)
	if _, err := nc.Write(append(appendHeader(nil, req.Key(), metadataVersion, 0, len(body)), body...)); err != nil {
		return err
	}
	answer, err := readAnswer(bufio.NewReader(nc), nil)
	if err != nil {
		return err
	}
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = metadataVersion
	if err := resp.ReadFrom(answer[4:]); err != nil {
		return err
	}
	switch {
	case len(resp.Brokers) < brokers:
		return fmt.Errorf("it knows %d brokers of %d", len(resp.Brokers), brokers)
	case resp.ControllerID < 0:
		return errors.New("it knows no controller")
	}
	return nil
}
