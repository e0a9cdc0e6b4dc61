package archtest

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// explainedPanics wants every panic to be announced: in the comment of the function that panics, or on the panic's own
// line or the line above it. A panic that is not worth announcing should be a returned error.
func explainedPanics(t *tree) []string {
	var complaints []string
	for _, f := range t.files {
		if f.test || f.generated {
			continue
		}
		explained := map[int]bool{} // lines on which a comment about panicking ends, and those below them
		for _, group := range f.ast.Comments {
			if mentionsPanic(group) {
				line := f.fset.Position(group.End()).Line
				explained[line], explained[line+1] = true, true
			}
		}
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && mentionsPanic(fn.Doc) {
				continue
			}
			for _, pos := range panics(decl) {
				if !explained[f.fset.Position(pos).Line] {
					complaints = append(complaints, f.at(pos)+": a panic that no comment explains: "+
						"return an error, or say in the function's comment when it panics and why")
				}
			}
		}
	}
	return complaints
}

func mentionsPanic(group *ast.CommentGroup) bool {
	return group != nil && strings.Contains(strings.ToLower(group.Text()), "panic")
}

func panics(node ast.Node) []token.Pos {
	var found []token.Pos
	ast.Inspect(node, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if fn, ok := call.Fun.(*ast.Ident); ok && fn.Name == "panic" {
				found = append(found, call.Pos())
			}
		}
		return true
	})
	return found
}

func TestExplainedPanics(t *testing.T) { holds(t, explainedPanics) }

func TestExplainedPanicsComplain(t *testing.T) {
	wantComplaint(t, explainedPanics, map[string]string{"a/a.go": "func f() { panic(1) }\n"}, "a/a.go:2")
	wantComplaint(t, explainedPanics, map[string]string{
		"a/a.go": "// g may panic.\nfunc g() { panic(1) }\n\nfunc f() {\n\tpanic(2)\n}\n",
	}, "a/a.go:6")
	wantComplaint(t, explainedPanics, map[string]string{"a/a.go": "var _ = func() int { panic(1) }()\n"}, "a/a.go:2")
	wantNone(t, explainedPanics, map[string]string{
		"a/a.go":      "// It panics where shapes do not fit.\nfunc f() { panic(1) }\n",
		"a/b.go":      "func g() {\n\t// Panicking here keeps a bug from spreading.\n\tpanic(1)\n}\n",
		"a/c.go":      "func h() { panic(1) } // panic: a bug in the caller\n",
		"a/a_test.go": "func f() { panic(1) }\n",
	})
}
