package archtest

import (
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// reasonsPage lists the reasons of errors, on which callers branch.
const reasonsPage = "docs/reference/errors.md"

var (
	reasonName = regexp.MustCompile(`^[A-Z]+(_[A-Z]+)+$`)
	reasonRow  = regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| `([A-Z_]+)` \\|")
	capitals   = regexp.MustCompile(`([a-z])([A-Z])`)
	// makeReasons are the packages whose texts in capitals are reasons of errors.
	makeReasons = []string{"server/status", "server/access", "runtime/catalog", "sharedsched"}
	noReasons   = map[string]bool{"MODEL_HIDDEN": true, "RESOURCE_EXHAUSTED": true} // of the log, and a code
)

// errorReasons wants the page to list each reason that the code has, and no other, with the code that stands beside it.
func errorReasons(root fs.FS, t *tree) (complaints []string) {
	page, err := fs.ReadFile(root, reasonsPage)
	if err != nil {
		return []string{err.Error()}
	}
	listed := map[string]string{}
	for _, row := range reasonRow.FindAllStringSubmatch(string(page), -1) {
		listed[row[1]] = row[2]
	}
	made := map[string]string{} // with the code, if it is known
	for _, f := range t.files {
		if f.test || !slices.Contains(makeReasons, f.dir) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && reasonName.MatchString(text) {
					made[text] += ""
				}
			case *ast.CompositeLit:
				fields := map[string]ast.Expr{}
				for _, e := range n.Elts {
					if field, ok := e.(*ast.KeyValueExpr); ok {
						if key, ok := field.Key.(*ast.Ident); ok {
							fields[key.Name] = field.Value
						}
					}
				}
				code, _ := fields["code"].(*ast.SelectorExpr)
				if reason, ok := fields["reason"].(*ast.BasicLit); ok && code != nil {
					text, _ := strconv.Unquote(reason.Value)
					made[text] = strings.ToUpper(capitals.ReplaceAllString(code.Sel.Name, "${1}_$2"))
				}
			}
			return true
		})
	}
	for _, reason := range slices.Sorted(maps.Keys(made)) {
		switch code := listed[reason]; {
		case noReasons[reason]:
		case code == "":
			complaints = append(complaints, reasonsPage+" does not list the reason "+reason)
		case made[reason] != "" && made[reason] != code:
			complaints = append(complaints, reasonsPage+" has "+reason+" with "+code+", the code is "+made[reason])
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(listed)) {
		if _, ok := made[reason]; !ok {
			complaints = append(complaints, reasonsPage+" lists "+reason+", and no error has that reason")
		}
	}
	return complaints
}

func TestErrorReasons(t *testing.T) {
	holds(t, func(repo *tree) []string { return errorReasons(root, repo) })
	for _, c := range []struct{ row, src, part string }{
		{"| `B_WRONG` | `ABORTED` |", `var b = fault{code: codes.NotFound, reason: "B_WRONG"}`, "the code is NOT_FOUND"},
		{"", `const c = "C_NEW"`, "does not list the reason C_NEW"},
		{"| `A_GONE` | `NOT_FOUND` |", `const d = 1`, "lists A_GONE"},
	} {
		page := fstest.MapFS{reasonsPage: {Data: []byte(c.row)}}
		rule := func(t *tree) []string { return errorReasons(page, t) }
		wantComplaint(t, rule, map[string]string{"server/status/a.go": c.src}, c.part)
	}
}
