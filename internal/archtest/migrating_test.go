package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const migratingPage = "docs/migrate/README.md"

// stated is a test that the page names: `FILE: TEST`, where FILE is the end of a Go file's path and TEST a function in
// it, or FILE is a file of scenarios or a script, and TEST how one of its comments begins.
var stated = regexp.MustCompile("`([^`:]+\\.(?:go|txt|txtar)): ([^`]+)`")

// migrating wants every row of the page's tables, which end in a column "test", to name tests that exist, and every
// scenario that states the behaviour of another system to have a row.
func migrating(root fs.FS, t *tree) []string {
	page, err := fs.ReadFile(root, migratingPage)
	if err != nil {
		return []string{err.Error()}
	}
	var complaints []string
	complain := func(line int, format string, args ...any) {
		complaints = append(complaints, fmt.Sprintf("%s:%d: %s", migratingPage, line, fmt.Sprintf(format, args...)))
	}
	named := map[string][]string{} // the tests that are named, by file
	last := ""                     // heading of the last column, "" outside tables
	for i, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		cell := strings.TrimSpace(cells[len(cells)-1])
		switch {
		case !strings.HasPrefix(line, "|"):
			last = ""
		case last == "":
			if last = cell; last != "test" {
				complain(i+1, "the last column is %q, want the test that states the row", last)
			}
		case strings.Trim(line, "|- ") == "": // the line below the heading
		default:
			references := stated.FindAllStringSubmatch(cell, -1)
			if rest := strings.TrimSpace(stated.ReplaceAllString(cell, "")); len(references) == 0 || rest != "" {
				complain(i+1, "%q names no test, want `FILE: TEST`", cell)
			}
			for _, r := range references {
				named[r[1]] = append(named[r[1]], r[2])
				if fault := missing(root, t, r[1], r[2]); fault != "" {
					complain(i+1, "%s", fault)
				}
			}
		}
	}
	if len(named) == 0 {
		complain(1, "no test is named")
	}
	scenarios, err := fs.Glob(root, "sharedsched/testdata/seed_*.txt")
	if err != nil {
		return append(complaints, err.Error())
	}
	for _, file := range scenarios {
		for _, comment := range comments(root, file) {
			if !slices.ContainsFunc(named[path.Base(file)],
				func(name string) bool { return strings.HasPrefix(comment, name) }) {
				complaints = append(complaints, fmt.Sprintf("%s: %q has no row in %s", file, comment, migratingPage))
			}
		}
	}
	return complaints
}

// missing says why a test cannot be found, "" if it is there.
func missing(root fs.FS, t *tree, file, test string) string {
	if path.Ext(file) != ".go" {
		at := path.Join("sharedsched/testdata", file)
		switch of, base := path.Split(file); {
		case path.Ext(file) == ".txtar": // such as app/serve.txtar
			at = path.Join("internal", of, "testdata", "script", base)
		case of != "": // such as residency/named.txt
			at = path.Join("runtime", of, "testdata", base)
			if _, err := fs.Stat(root, at); err != nil {
				at = path.Join("server", of, "testdata", base)
			}
		}
		if !slices.ContainsFunc(comments(root, at),
			func(comment string) bool { return strings.HasPrefix(comment, test) }) {
			return fmt.Sprintf("%s has no comment that begins with %q", at, test)
		}
		return ""
	}
	for _, f := range t.files {
		if !strings.HasSuffix("/"+f.path(), "/"+file) {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == test &&
				strings.HasPrefix(test, "Test") {
				return ""
			}
		}
		return fmt.Sprintf("%s has no test %s", f.path(), test)
	}
	return "there is no file " + file
}

// comments returns the first line of each comment in a scenario file, and the names of its scripts ("== name").
func comments(root fs.FS, file string) []string {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return nil
	}
	var found []string
	before := ""
	for line := range strings.Lines(string(text)) {
		if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok && !strings.HasPrefix(before, "#") {
			found = append(found, comment)
		} else if name, ok := strings.CutPrefix(strings.TrimSpace(line), "== "); ok {
			found = append(found, name)
		}
		before = line
	}
	return found
}

func TestMigrating(t *testing.T) {
	holds(t, func(repo *tree) []string { return migrating(root, repo) })
}

func TestMigratingComplains(t *testing.T) {
	const head = "| theirs | ours | test |\n|---|---|---|\n"
	for _, tt := range []struct{ page, want string }{
		{head + "| a | b | `a/b_test.go: TestThere` `seed_x.txt: one thing` |\n", ""},
		{head + "| a | b | `a/b_test.go: TestGone` `seed_x.txt: one thing` |\n", "a/b_test.go has no test TestGone"},
		{head + "| a | b | `a/b_test.go: helper` `seed_x.txt: one thing` |\n", "has no test helper"},
		{head + "| a | b | `b/b_test.go: TestThere` `seed_x.txt: one thing` |\n", "there is no file b/b_test.go"},
		{head + "| a | b | `seed_x.txt: one thing` `seed_x.txt: another` |\n", `begins with "another"`},
		{head + "| a | b | `seed_x.txt: one thing` |\n| a | b | |\n", `:4: "" names no test`},
		{head + "| a | b | `seed_x.txt: one thing` and more |\n", "names no test"},
		{"| theirs | ours |\n|---|---|\n", "the last column is"},
		{head + "| a | b | `c/d.txtar: a script` `seed_x.txt: one thing` |\n", ""},
		{head + "| a | b | `c/d.txtar: no script` `seed_x.txt: one thing` |\n", "d.txtar has no comment that begins with"},
		{head + "| a | b | `a/b_test.go: TestThere` |\n", `"one thing: and so on" has no row`},
	} {
		files := fstest.MapFS{
			"a/b_test.go":                        {Data: []byte("package b\nfunc TestThere() {}\nfunc helper() {}\n")},
			"sharedsched/testdata/seed_x.txt":    {Data: []byte("# one thing: and so on\n# that goes on\nrun\n----\n")},
			"sharedsched/testdata/overload.txt":  {Data: []byte("# nobody asks for this\n")},
			"internal/c/testdata/script/d.txtar": {Data: []byte("# a script of a server\nserve\n")},
			migratingPage:                        {Data: []byte(tt.page)},
		}
		tr, err := load(files)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(migrating(files, tr), "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s\ncomplaints %q, want %q", tt.page, got, tt.want)
		}
	}
}
