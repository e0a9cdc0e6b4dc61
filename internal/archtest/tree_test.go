package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

const (
	module     = "github.com/weftserve/weft"
	laboratory = "tools/lab" // a module of its own, which keeps the same rules
)

// tree is the module's hand-written and generated Go, parsed, with any build tags.
type tree struct {
	topLevel []string // names in the root folder, folders with a trailing slash
	files    []sourceFile
}

// sourceFile is one Go file; dir and name are slash-separated and relative to the module's root.
type sourceFile struct {
	dir, name string
	test      bool // ends in _test.go
	generated bool
	lines     int
	fset      *token.FileSet
	ast       *ast.File
}

func (f sourceFile) path() string { return path.Join(f.dir, f.name) }

// at formats a position in the file for a complaint.
func (f sourceFile) at(pos token.Pos) string {
	return f.path() + ":" + strconv.Itoa(f.fset.Position(pos).Line)
}

// imports returns the file's import paths.
func (f sourceFile) imports() []string {
	var paths []string
	for _, spec := range f.ast.Imports {
		if importPath, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, importPath)
		}
	}
	return paths
}

// uses returns every selection of one of the names from the package of that import path; renamed
// imports are followed.
func (f sourceFile) uses(importPath string, names ...string) []*ast.SelectorExpr {
	var local string
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil && p == importPath {
			local = path.Base(p)
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	if local == "" {
		return nil
	}
	var found []*ast.SelectorExpr
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && slices.Contains(names, sel.Sel.Name) {
			found = append(found, sel)
		}
		return true
	})
	return found
}

// load parses every Go file of the module and of the laboratory. Other modules, testdata and hidden folders are left
// out, as the go command leaves them out.
func load(root fs.FS) (*tree, error) {
	t := &tree{}
	entries, err := fs.ReadDir(root, ".")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() {
			name += "/"
		}
		t.topLevel = append(t.topLevel, name)
	}
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && name != path.Dir(laboratory) && notOurs(root, name) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" || strings.HasPrefix(path.Base(name), "_") {
			return nil
		}
		file, err := parse(root, name)
		if err != nil {
			return err
		}
		t.files = append(t.files, file)
		return nil
	})
	return t, err
}

func notOurs(root fs.FS, dir string) bool {
	base := path.Base(dir)
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "node_modules" {
		return true
	}
	_, err := fs.Stat(root, path.Join(dir, "go.mod"))
	return err == nil && dir != laboratory
}

func parse(root fs.FS, name string) (sourceFile, error) {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return sourceFile{}, err
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return sourceFile{}, err
	}
	return sourceFile{
		dir:       path.Dir(name),
		name:      path.Base(name),
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(parsed),
		lines:     bytes.Count(src, []byte("\n")),
		fset:      fset,
		ast:       parsed,
	}, nil
}

// root holds the files of the repository.
var root = os.DirFS(filepath.Join("..", ".."))

// repository is the tree these tests stand in, parsed once.
var repository = sync.OnceValues(func() (*tree, error) { return load(root) })

// holds fails the test with every complaint that the rule has about this repository.
func holds(t *testing.T, rule func(*tree) []string) {
	t.Helper()
	repo, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	if len(repo.files) < 10 {
		t.Fatalf("the walk found %d Go files only", len(repo.files))
	}
	for _, complaint := range rule(repo) {
		t.Error(complaint)
	}
}

// complaintsAbout runs a rule on a sample tree: file path → source. A source without a package clause
// gets one.
func complaintsAbout(t *testing.T, rule func(*tree) []string, sample map[string]string) []string {
	t.Helper()
	files := fstest.MapFS{}
	for name, src := range sample {
		if path.Ext(name) == ".go" && !strings.Contains(src, "package ") {
			src = "package " + strings.ReplaceAll(path.Base(path.Dir(name)), ".", "x") + "\n" + src
		}
		files[name] = &fstest.MapFile{Data: []byte(src)}
	}
	sampleTree, err := load(files)
	if err != nil {
		t.Fatal(err)
	}
	return rule(sampleTree)
}

// wantComplaint checks that the rule has exactly one complaint about the sample and that it names part.
func wantComplaint(t *testing.T, rule func(*tree) []string, sample map[string]string, part string) {
	t.Helper()
	got := complaintsAbout(t, rule, sample)
	if len(got) != 1 || !strings.Contains(got[0], part) {
		t.Errorf("complaints %q, want exactly one that names %q", got, part)
	}
}

// wantNone checks that the rule accepts the sample.
func wantNone(t *testing.T, rule func(*tree) []string, sample map[string]string) {
	t.Helper()
	if got := complaintsAbout(t, rule, sample); len(got) != 0 {
		t.Errorf("complaints %q, want none", got)
	}
}

func TestLoadSkipsWhatIsNotOurs(t *testing.T) {
	sample := map[string]string{
		"a/a.go":                    "",
		"a/testdata/t.go":           "not even Go",
		".weft/x.go":                "not even Go",
		"other/go.mod":              "module other",
		"other/t.go":                "not even Go",
		"tools/go.mod":              "module tools",
		"tools/lab/go.mod":          "module lab",
		"tools/lab/l/l.go":          "",
		"b/node_modules/c/d/e.go":   "not even Go",
		"b/b_windows.go":            "//go:build never\n\npackage b\n",
		"b/_ignored.go":             "not even Go",
		"proto/gen/weft/v1/x.pb.go": "// Code generated by a test. DO NOT EDIT.\n\npackage weftv1\n",
	}
	complaintsAbout(t, func(tr *tree) []string {
		var got []string
		for _, f := range tr.files {
			got = append(got, f.path())
			if f.generated != strings.HasPrefix(f.dir, "proto/gen") {
				t.Errorf("%s: generated = %v", f.path(), f.generated)
			}
		}
		want := []string{"a/a.go", "b/b_windows.go", "proto/gen/weft/v1/x.pb.go", "tools/lab/l/l.go"}
		if !slices.Equal(got, want) {
			t.Errorf("loaded %v, want %v", got, want)
		}
		return nil
	}, sample)
}
