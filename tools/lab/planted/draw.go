package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// bug is a piece of a line and what is planted in its stead.
type bug struct {
	File string `json:"file"` // from the module's root
	Func string `json:"func"`
	Kind string `json:"kind"` // negate, drop, off-by-one, swap
	Line string `json:"line"` // its first line, without space around it: by that it is found again in a file that changed
	At   int    `json:"at"`   // where Old begins in Line
	Old  string `json:"old"`
	New  string `json:"new"`
}

// draw draws bugs that compile: a line first, among all lines of the product, and then one of the bugs that can be
// planted there.
func (t *tree) draw(seed uint64, count int) (bugs []bug, err error) {
	random := rand.New(rand.NewPCG(seed, 0))
	type file struct {
		pkg   *pkg
		name  string
		lines [][]bug
	}
	var files []file
	total := 0
	for _, p := range t.product() {
		for _, name := range p.files() {
			lines, err := t.possible(name)
			if err != nil {
				return nil, err
			}
			files = append(files, file{p, name, lines})
			total += len(lines)
		}
	}
	drawn := map[bug]bool{}
	for len(bugs) < count {
		n := random.IntN(total)
		i := 0
		for ; n >= len(files[i].lines); i++ {
			n -= len(files[i].lines)
		}
		here := files[i].lines[n]
		if len(here) == 0 {
			continue
		}
		b := here[random.IntN(len(here))]
		if drawn[b] {
			continue
		}
		drawn[b] = true
		if err := t.compiles(b, files[i].pkg); err != nil {
			continue
		}
		bugs = append(bugs, b)
	}
	return bugs, nil
}

// possible returns the bugs that can be planted in each line of a file; none in one that was generated.
func (t *tree) possible(name string) ([][]bug, error) {
	source, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(parsed) {
		return nil, nil
	}
	relative, err := filepath.Rel(t.root, name)
	if err != nil {
		return nil, err
	}
	text := strings.Split(string(source), "\n")
	lines := make([][]bug, len(text))
	for _, d := range parsed.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || f.Body == nil {
			continue
		}
		plant := func(kind string, from, to token.Pos, with string) {
			at, end := set.Position(from), set.Position(to)
			if at.Line != end.Line {
				return
			}
			whole := text[at.Line-1]
			trimmed := strings.TrimSpace(whole)
			lines[at.Line-1] = append(lines[at.Line-1], bug{
				File: relative, Func: f.Name.Name, Kind: kind, Line: trimmed, At: at.Column - 1 - strings.Index(whole, trimmed),
				Old: whole[at.Column-1 : end.Column-1], New: with,
			})
		}
		of := func(n ast.Node) string {
			return string(source[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
		}
		ast.Inspect(f.Body, func(n ast.Node) bool { collect(n, of, plant); return true })
	}
	return lines, nil
}

// collect plants what can be planted at a node.
func collect(n ast.Node, of func(ast.Node) string, plant func(kind string, from, to token.Pos, with string)) {
	switch n := n.(type) {
	case *ast.IfStmt:
		plant("negate", n.Cond.Pos(), n.Cond.End(), "!("+of(n.Cond)+")")
	case *ast.ExprStmt:
		plant("drop", n.Pos(), n.End(), "")
	case *ast.DeferStmt:
		plant("drop", n.Pos(), n.End(), "")
	case *ast.IncDecStmt:
		plant("drop", n.Pos(), n.End(), "")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			plant("drop", n.Pos(), n.End(), "")
		}
	case *ast.BasicLit:
		if v, err := strconv.ParseInt(n.Value, 0, 63); err == nil && n.Kind == token.INT {
			plant("off-by-one", n.Pos(), n.End(), strconv.FormatInt(v+1, 10))
		}
	case *ast.BinaryExpr:
		other := map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}[n.Op]
		if other != "" {
			plant("off-by-one", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other)
		}
		if n.Op == token.LAND || n.Op == token.LOR {
			plant("negate", n.X.Pos(), n.X.End(), "!("+of(n.X)+")")
			plant("negate", n.Y.Pos(), n.Y.End(), "!("+of(n.Y)+")")
		}
	case *ast.CallExpr:
		for i := range len(n.Args) - 1 {
			if a, b := of(n.Args[i]), of(n.Args[i+1]); a != b {
				plant("swap", n.Args[i].Pos(), n.Args[i+1].End(), b+", "+a)
			}
		}
	}
}

// find returns a bug's file with the bug in it. Where the file is gone or has no such line in such a function, the one
// place of the product that has is taken: code that was moved.
func (t *tree) find(b bug) (name, source string, err error) {
	name = filepath.Join(t.root, b.File)
	if places := t.places(name, b); len(places) > 0 {
		return name, places[0], nil
	}
	found := 0
	for _, p := range t.product() {
		for _, f := range p.files() {
			for _, place := range t.places(f, b) {
				name, source = f, place
				found++
			}
		}
	}
	if found != 1 {
		return "", "", fmt.Errorf("%d places have %q in a func %s", found, b.Line, b.Func)
	}
	return name, source, nil
}

// places returns the file with the bug in it, once for each place where it can be.
func (t *tree) places(name string, b bug) (all []string) {
	lines, err := t.possible(name)
	if err != nil {
		return nil // the file is gone
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	text := strings.SplitAfter(string(content), "\n")
	for i, here := range lines {
		for _, other := range here {
			if other.File = b.File; other != b {
				continue
			}
			before := len(text[i]) - len(strings.TrimLeft(text[i], " \t")) + b.At
			all = append(all, strings.Join(text[:i], "")+text[i][:before]+b.New+text[i][before+len(b.Old):]+
				strings.Join(text[i+1:], ""))
			break
		}
	}
	return all
}

// plant writes an overlay with a bug and returns the flag of the Go command that plants it.
func (t *tree) plant(b bug, folder string) (flag string, where *pkg, err error) {
	name, source, err := t.find(b)
	if err != nil {
		return "", nil, err
	}
	for _, p := range t.packages {
		if p.Dir == filepath.Dir(name) {
			where = p
		}
	}
	changed := filepath.Join(folder, "planted.go")
	overlay := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(changed, []byte(source), 0o600); err != nil {
		return "", nil, err
	}
	replaced := line(map[string]any{"Replace": map[string]string{name: changed}})
	if err := os.WriteFile(overlay, []byte(replaced), 0o600); err != nil {
		return "", nil, err
	}
	return "-overlay=" + overlay, where, nil
}

func (t *tree) compiles(b bug, p *pkg) error {
	folder, err := os.MkdirTemp("", "planted-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	flag, _, err := t.plant(b, folder)
	if err != nil {
		return err
	}
	command := exec.CommandContext(context.Background(), "go", "build", flag, "-o", os.DevNull, p.ImportPath)
	command.Dir = t.root
	return command.Run()
}
