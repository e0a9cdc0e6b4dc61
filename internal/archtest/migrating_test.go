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

const (
	migratingPages = "docs/migrate/*.md"
	migratingTests = "internal/archtest/testdata/migrating.txt"
)

// stated is a test that migratingTests names: `FILE: TEST`, where FILE is the end of a Go file's path and TEST a function
// in it, or FILE is a file of scenarios or a script, and TEST how one of its comments begins.
var stated = regexp.MustCompile(`^([^:]+\.(?:go|txt|txtar)): (.+)$`)

// migrating wants every row of the pages' tables to have a line in migratingTests that names tests that exist, every
// line there to have a row, and every scenario that states the behaviour of another system to be named.
func migrating(root fs.FS, t *tree) []string {
	text, err := fs.ReadFile(root, migratingTests)
	if err != nil {
		return []string{err.Error()}
	}
	var complaints []string
	complain := func(file string, line int, format string, args ...any) {
		complaints = append(complaints, fmt.Sprintf("%s:%d: %s", file, line, fmt.Sprintf(format, args...)))
	}
	named := map[string][]string{}       // the tests that are named, by file
	lines := map[string]map[string]int{} // where a row has its tests, by page and first cell
	page := ""
	for i, line := range strings.Split(string(text), "\n") {
		if heading, ok := strings.CutPrefix(line, "== "); ok {
			page = heading
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, " | ")
		if lines[page] == nil {
			lines[page] = map[string]int{}
		}
		if lines[page][cells[0]] > 0 {
			complain(migratingTests, i+1, "the row %q of %s has a line already", cells[0], page)
		}
		lines[page][cells[0]] = i + 1
		if len(cells) == 1 {
			complain(migratingTests, i+1, "%q names no test, want ROW | FILE: TEST", line)
		}
		for _, cell := range cells[1:] {
			reference := stated.FindStringSubmatch(cell)
			if reference == nil {
				complain(migratingTests, i+1, "%q names no test, want FILE: TEST", cell)
				continue
			}
			named[reference[1]] = append(named[reference[1]], reference[2])
			if fault := missing(root, t, reference[1], reference[2]); fault != "" {
				complain(migratingTests, i+1, "%s", fault)
			}
		}
	}
	names, err := fs.Glob(root, migratingPages)
	if err != nil {
		return append(complaints, err.Error())
	}
	rows := 0
	for _, name := range names {
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return append(complaints, err.Error())
		}
		table := 0 // lines of the table so far; the first two are its head
		for i, line := range strings.Split(string(content), "\n") {
			if !strings.HasPrefix(line, "|") {
				table = 0
				continue
			}
			if table++; table <= 2 {
				continue
			}
			rows++
			key, _, _ := strings.Cut(strings.Trim(line, "|"), "|")
			key = strings.ReplaceAll(strings.TrimSpace(key), "`", "")
			if lines[name][key] == 0 {
				complain(name, i+1, "the row %q has no line of its own in %s", key, migratingTests)
			}
			delete(lines[name], key) // so that a second row of this name has none
		}
	}
	if rows == 0 {
		complain(migratingPages, 1, "there is no table")
	}
	for page, left := range lines {
		for key, line := range left {
			complain(migratingTests, line, "%s has no row %q", page, key)
		}
	}
	scenarios, err := fs.Glob(root, "sharedsched/testdata/seed_*.txt")
	if err != nil {
		return append(complaints, err.Error())
	}
	for _, file := range scenarios {
		for _, comment := range comments(root, file) {
			if !slices.ContainsFunc(named[path.Base(file)],
				func(name string) bool { return strings.HasPrefix(comment, name) }) {
				complaints = append(complaints, fmt.Sprintf("%s: %q is not in %s", file, comment, migratingTests))
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
	const head = "| theirs | ours |\n|---|---|\n"
	const row, tested = head + "| `a` b | c |\n", "== docs/migrate/X.md\na b | a/b_test.go: TestThere | seed_x.txt: one thing\n"
	for _, tt := range []struct{ page, tests, want string }{
		{row, tested, ""},
		{row, "# a comment\n\n" + tested, ""},
		{"text\n\n" + row + "\n" + head + "| d | |\n", tested + "d | c/d.txtar: a script\n", ""},
		{row, strings.Replace(tested, "TestThere", "TestGone", 1), "migrating.txt:2: a/b_test.go has no test TestGone"},
		{row, strings.Replace(tested, "TestThere", "helper", 1), "has no test helper"},
		{row, strings.Replace(tested, "a/b_test", "b/b_test", 1), "there is no file b/b_test.go"},
		{row, tested[:len(tested)-1] + " | seed_x.txt: another\n", `begins with "another"`},
		{row, tested[:len(tested)-1] + " | and more\n", `"and more" names no test`},
		{row + "| d | e |\n", tested, `docs/migrate/X.md:4: the row "d" has no line of its own`},
		{row + "| a b | e |\n", tested, `docs/migrate/X.md:4: the row "a b" has no line of its own`},
		{row + "| d | e |\n", tested + "d\n", `"d" names no test`},
		{row, tested + "a b | seed_x.txt: one thing\n", `migrating.txt:3: the row "a b" of docs/migrate/X.md has a line already`},
		{row, tested + "d | seed_x.txt: one thing\n", `migrating.txt:3: docs/migrate/X.md has no row "d"`},
		{row, tested + "== docs/migrate/Y.md\nd | seed_x.txt: one thing\n", `docs/migrate/Y.md has no row "d"`},
		{"no table\n", "", "there is no table"},
		{row, tested[:len(tested)-1] + " | c/d.txtar: no script\n", "d.txtar has no comment that begins with"},
		{row, "== docs/migrate/X.md\na b | a/b_test.go: TestThere\n", `"one thing: and so on" is not in`},
	} {
		files := fstest.MapFS{
			"a/b_test.go":                        {Data: []byte("package b\nfunc TestThere() {}\nfunc helper() {}\n")},
			"sharedsched/testdata/seed_x.txt":    {Data: []byte("# one thing: and so on\n# that goes on\nrun\n----\n")},
			"sharedsched/testdata/overload.txt":  {Data: []byte("# nobody asks for this\n")},
			"internal/c/testdata/script/d.txtar": {Data: []byte("# a script of a server\nserve\n")},
			"docs/migrate/X.md":                  {Data: []byte(tt.page)},
			migratingTests:                       {Data: []byte(tt.tests)},
		}
		tr, err := load(files)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(migrating(files, tr), "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s\n%s\ncomplaints %q, want %q", tt.page, tt.tests, got, tt.want)
		}
	}
}
