package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/moldau-log/moldau/config"
)

// TestExamplesOfSeveralBrokers: where a text shows the lines of several brokers of one machine, each has an id, a directory and addresses of its own for every door; and
// who says under which name the others reach one door of a broker says it of every door.
func TestExamplesOfSeveralBrokers(t *testing.T) {
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	config.AddFlags(flags, config.Default())
	var own, advertised []string
	flags.VisitAll(func(f *pflag.Flag) {
		if door, ok := strings.CutSuffix(f.Name, "-addr"); ok {
			own = append(own, "--"+f.Name)
			if door != "http" { // brokers do not tell each other where it is
				advertised = append(advertised, "--advertise-"+door)
			}
		}
	})
	if len(own) != 4 {
		t.Fatalf("doors: %v", own)
	}
	own = append(own, "--id", "--data")
	examples := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "cmd/moldau/*.go", "cmd/moldau/*/*.go"} {
		files, err := filepath.Glob(filepath.Join(root(t), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range serverLines(string(text)) {
				examples += len(part)
				if len(part) > 1 {
					differ(t, file, part, own)
				}
				for _, line := range part {
					allOrNone(t, file, line, advertised)
				}
			}
		}
	}
	if examples < 5 {
		t.Errorf("%d lines that start a broker were found", examples)
	}
}

// serverLines are the lines that start a broker of a cluster, those that follow each other together.
func serverLines(text string) [][]string {
	var parts [][]string
	var part []string
	for line := range strings.Lines(text + "\n\n") {
		if strings.Contains(line, "moldau server --id ") {
			part = append(part, line)
		} else if len(part) > 0 {
			parts, part = append(parts, part), nil
		}
	}
	return parts
}

func differ(t *testing.T, file string, lines, flags []string) {
	t.Helper()
	for _, flag := range flags {
		seen := map[string]bool{}
		for _, line := range lines {
			value := argument(line, flag)
			if value == "" || seen[value] {
				t.Errorf("%s: brokers on one machine need a %s each: %s", file, flag, line)
			}
			seen[value] = true
		}
	}
}

func allOrNone(t *testing.T, file, line string, flags []string) {
	t.Helper()
	n := 0
	for _, flag := range flags {
		if argument(line, flag) != "" {
			n++
		}
	}
	if n != 0 && n != len(flags) {
		t.Errorf("%s: only some of %v: %s", file, flags, line)
	}
}

// argument is the word after a flag, or nothing.
func argument(line, flag string) string {
	words := strings.Fields(line)
	for i, word := range words[:len(words)-1] {
		if word == flag {
			return words[i+1]
		}
	}
	return ""
}
