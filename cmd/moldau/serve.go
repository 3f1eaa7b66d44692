package main

import (
	"context"
	"errors"
	"github.com/moldau-log/moldau/config"
	"log/slog"
)

func serve(context.Context, config.Config, *slog.Logger) error {
	return errors.New("this build cannot run a broker yet")
}
