package lint

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBugsTellsWhatItsTestsTell: `make bugs` filters the output of its tests, and a planted bug that was not found has to fail it all the same.
func TestBugsTellsWhatItsTestsTell(t *testing.T) {
	for _, want := range []string{"0", "1"} {
		stand := filepath.Join(t.TempDir(), "go")
		if err := os.WriteFile(stand, []byte("#!/bin/sh\necho '=== RUN'\necho searched\nexit "+want+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("make", "-C", "../..", "bugs", "GO="+stand).CombinedOutput()
		if text := string(out); !strings.Contains(text, "searched") || strings.Contains(text, "=== RUN") {
			t.Errorf("printed\n%s", text)
		}
		var failed *exec.ExitError
		if got := errors.As(err, &failed); got != (want == "1") {
			t.Errorf("the tests exit with %s, make: %v", want, err)
		}
	}
}
