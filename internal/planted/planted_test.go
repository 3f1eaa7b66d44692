package planted_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// mark is in every binary that can have a bug planted: the name of a function that is called.
var mark = []byte("moldau/internal/" + "planted.")

// TestNothingIsPlantedWithoutTheTag: the shipped binary, built without the tag, holds nothing of this package, not even a name.
func TestNothingIsPlantedWithoutTheTag(t *testing.T) {
	path := filepath.Join(t.TempDir(), "moldau")
	build := exec.Command("go", "build", "-o", path, "../../cmd/moldau")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(binary, []byte("moldau/replication.")) {
		t.Error("the binary does not name the functions of package replication, so that names prove nothing")
	}
	if bytes.Contains(binary, mark) {
		t.Error("the binary names functions of package planted")
	}
}
