package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionShape is `moldau version -o json`.
type versionShape struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.show(viewVersion(readVersion()))
		},
	}
}

func readVersion() versionShape {
	v := versionShape{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return v
}

func viewVersion(v versionShape) view {
	commit := v.Commit
	if commit != "" && v.Modified {
		commit += " (modified)"
	}
	return view{
		fields: []field{{"version", v.Version}, {"commit", orDash(commit)}, {"go", v.Go}, {"platform", v.Platform}},
		names:  []string{v.Version},
		value:  v,
	}
}
