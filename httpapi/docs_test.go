package httpapi_test

import (
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/moldau-log/moldau/moldautest"
)

var documented = regexp.MustCompile("(?m)^\\| `(moldau_[a-z_]+)` \\|")

// names reads the metrics that docs/metrics.md documents.
func names(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, m := range documented.FindAllStringSubmatch(string(page), -1) {
		out[m[1]] = true
	}
	return out
}

func TestDocs_HaveWhatABrokerExports(t *testing.T) {
	b := moldautest.Start(t)
	resp, err := http.Get("http://" + b.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	docs, seen := names(t), 0
	for line := range strings.Lines(string(body)) {
		name, ok := strings.CutPrefix(line, "# TYPE moldau_")
		if !ok {
			continue
		}
		seen++
		if name = "moldau_" + strings.Fields(name)[0]; !docs[name] {
			t.Errorf("%s is exported and not in docs/metrics.md", name)
		}
	}
	if seen < 10 {
		t.Errorf("the broker exports %d families:\n%s", seen, body)
	}
}

// TestDocs_NameOnlyWhatTheCodeRegisters finds documented names that no package has any more.
func TestDocs_NameOnlyWhatTheCodeRegisters(t *testing.T) {
	docs := names(t)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for name := range docs {
			if strings.Contains(string(source), `"`+name+`"`) {
				delete(docs, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range docs {
		t.Errorf("%s is documented and registered nowhere", name)
	}
}
