package main

import (
	"github.com/spf13/cobra"

	"github.com/moldau-log/moldau/config"
)

func newDocs(a *app) *cobra.Command {
	docs := &cobra.Command{Use: "docs", Short: "Print reference pages"}
	docs.AddCommand(&cobra.Command{
		Use:   "config",
		Short: "Print every configuration key of a broker, as Markdown",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return config.Reference(a.out) },
	})
	return docs
}
