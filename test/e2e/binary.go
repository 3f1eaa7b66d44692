package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// build makes the binary once per test process when E2E_BIN does not name one.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "moldau-bin-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./cmd/moldau")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	return dir, cmd.Run()
})

// Binary is the directory that holds the built binaries.
func Binary(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("E2E_BIN"); dir != "" {
		return dir
	}
	dir, err := build()
	if err != nil {
		t.Fatalf("build the binary: %v", err)
	}
	return dir
}
