//go:build planted

package planted_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/moldau-log/moldau/internal/planted"
)

func TestOneBugAtATime(t *testing.T) {
	defer planted.Set(planted.None)
	for _, b := range planted.All() {
		planted.Set(b)
		for _, other := range planted.All() {
			if planted.On(other) != (other == b) {
				t.Errorf("with %s planted, On(%s) is %t", b, other, planted.On(other))
			}
		}
		if named, ok := planted.Named(b.String()); !ok || named != b {
			t.Errorf("%s is found as %s", b, named)
		}
	}
}

// TestTagLeavesItsMark: what TestNothingIsPlantedWithoutTheTag looks for is there in a binary with the tag.
func TestTagLeavesItsMark(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(binary, mark) {
		t.Error("a binary with the tag names no function of package planted")
	}
}
