package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// askAgain are the functions of test/e2e that call a function until it is content.
var askAgain = []string{"Eventually", "eventually", "awaitTopic"}

// endForGood are its helpers that end a test only for what waiting does not mend, or after they have waited.
var endForGood = append([]string{"run", "Log", "directories", "newClient", "kafkaClient", "waitFor"}, askAgain...)

// TestWhoAsksAgainIsNotEndedByAnAnswer: a question that is repeated until its answer is the expected one may fail on the way, say while no broker listens. So it is not asked
// through a helper that ends the test on a failure. A test may still end itself over an answer that no later one mends.
func TestWhoAsksAgainIsNotEndedByAnAnswer(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root(t), "test", "e2e", "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("test/e2e: %d files, %v", len(paths), err)
	}
	files := token.NewFileSet()
	calls := map[string][]string{} // what each function calls, by its name without a receiver
	var asked []*ast.FuncLit       // what is called again and again
	for _, path := range paths {
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				calls[f.Name.Name] = append(calls[f.Name.Name], called(f)...)
				asked = append(asked, givenTo(f, askAgain)...)
			}
		}
	}
	if len(asked) < 20 {
		t.Errorf("%d questions that are asked again: the harness has other names for them now", len(asked))
	}
	for _, f := range asked {
		for _, name := range called(f) {
			if calls[name] != nil && ends(calls, name, nil) {
				t.Errorf("%s: %s ends the test on the first failure, and is asked again", files.Position(f.Pos()), name)
			}
		}
	}
}

// ends reports whether a function ends its test, by itself or through another.
func ends(calls map[string][]string, name string, above []string) bool {
	if slices.Contains(endForGood, name) || slices.Contains(above, name) {
		return false
	}
	return slices.ContainsFunc(calls[name], func(next string) bool {
		return next == "Fatal" || next == "Fatalf" || ends(calls, next, append(above, name))
	})
}

// called lists the names of what is called in n.
func called(n ast.Node) (names []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			names = append(names, calledBy(c))
		}
		return true
	})
	return names
}

// calledBy is the name of what a call calls, without a receiver or package.
func calledBy(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// givenTo lists the function literals that n gives to one of the named functions.
func givenTo(n ast.Node, names []string) (out []*ast.FuncLit) {
	ast.Inspect(n, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && slices.Contains(names, calledBy(c)) {
			for _, a := range c.Args {
				if f, ok := a.(*ast.FuncLit); ok {
					out = append(out, f)
				}
			}
		}
		return true
	})
	return out
}
