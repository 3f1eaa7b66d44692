package lint

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/moldau-log/moldau"

// pkg is what `go list` says of a package.
type pkg struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", "./...")
	cmd.Dir = root(t)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("go list output: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestImports holds every package to its row of the table.
func TestImports(t *testing.T) {
	for _, p := range list(t) {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		rule, ok := table[rel]
		if !ok {
			t.Errorf("package %q has no row in the import table: decide where it belongs", rel)
			continue
		}
		for _, imp := range p.Imports {
			if bad := refuse(rule, imp); bad != "" {
				t.Errorf("%s imports %s: %s", rel, imp, bad)
			}
		}
		if len(p.GoFiles) > 0 && !hasPackageComment(t, p) {
			t.Errorf("%s has no package comment: say what it is, what it is not, who calls it", rel)
		}
	}
}

// everywhere are the packages that every other may import.
var everywhere = []string{"internal/invariant", "internal/planted"}

// refuse says why a row does not allow an import, or nothing.
func refuse(rule Rule, imp string) string {
	if inner, ok := strings.CutPrefix(imp, module+"/"); ok {
		if slices.Contains(everywhere, inner) || slices.ContainsFunc(rule.Imports, func(want string) bool { return matches(want, inner) }) {
			return ""
		}
		return "not in its row"
	}
	if strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
		if slices.ContainsFunc(rule.Modules, func(m string) bool { return strings.HasPrefix(imp, m) }) {
			return ""
		}
		return "third-party module not in its row"
	}
	if rule.Pure && slices.Contains(impure, imp) {
		return "pure packages decide only"
	}
	return ""
}

// impure are the standard packages that a pure package may not import.
var impure = []string{"os", "net", "sync", "sync/atomic", "context", "log", "log/slog", "math/rand", "math/rand/v2", "runtime", "os/signal"}

func matches(want, inner string) bool {
	if prefix, ok := strings.CutSuffix(want, "..."); ok {
		return strings.HasPrefix(inner, prefix)
	}
	return want == inner
}

func hasPackageComment(t *testing.T, p pkg) bool {
	t.Helper()
	for _, f := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if file.Doc != nil || strings.HasSuffix(f, ".pb.go") {
			return true
		}
	}
	return false
}

// TestPurePackagesReadNoClock parses pure packages for uses of package time that are not types or constants.
func TestPurePackagesReadNoClock(t *testing.T) {
	allowed := []string{"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}
	for _, p := range list(t) {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if !table[rel].Pure {
			continue
		}
		for _, f := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, f), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == "time" && id.Obj == nil && !slices.Contains(allowed, sel.Sel.Name) {
					t.Errorf("%s: pure package uses time.%s", fset.Position(n.Pos()), sel.Sel.Name)
				}
				return true
			})
			for _, g := range goStatements(file) {
				t.Errorf("%s: pure package starts a goroutine", fset.Position(g))
			}
		}
	}
}

func goStatements(file *ast.File) []token.Pos {
	var at []token.Pos
	ast.Inspect(file, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			at = append(at, g.Pos())
		}
		return true
	})
	return at
}

// TestFilesStaySmall fails a source file above 800 lines and a test above 1,200: then a concept wants out.
func TestFilesStaySmall(t *testing.T) {
	base := root(t)
	err := filepath.WalkDir(base, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin") && path != base {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		limit := 800
		if strings.HasSuffix(path, "_test.go") {
			limit = 1200
		}
		if n := strings.Count(string(text), "\n"); n > limit {
			t.Errorf("%s has %d lines, the limit is %s", strings.TrimPrefix(path, base+"/"), n, strconv.Itoa(limit))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
