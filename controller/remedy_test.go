package controller

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestRemedyNamesRealSections: what an operator is pointed to in bad times is there.
func TestRemedyNamesRealSections(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`docs/operations\.md, ([^)]+)\)`).FindAllStringSubmatch(remedyStore, -1)
	if len(named) != strings.Count(remedyStore, "docs/operations.md") || len(named) == 0 {
		t.Fatalf("%q", named)
	}
	for _, m := range named {
		if !strings.Contains(string(page), "\n## "+m[1]+"\n") {
			t.Errorf("docs/operations.md has no section %q", m[1])
		}
	}
}
