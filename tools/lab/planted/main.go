// Program planted plants one-line bugs in the product and says which tests catch them: a measure of the tests, as
// mutation analysis has it (DeMillo, Lipton and Sayward, "Hints on test data selection", 1978).
//
//	planted draw --seed 1 --count 200 > bugs.json    # draws bugs that compile, over all product packages by lines
//	planted run bugs.json > found.json               # runs the tests against each; goes on where it was interrupted
//	planted report found.json
//
// A bug is caught by a test that fails twice with it. The tests are those of its package, first the short ones, and
// then those of the packages that import it directly. No file of the checkout is changed: the Go command's overlay
// plants each bug, also in programs that tests build.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("expected draw, run or report; each says what it takes with --help")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	root := flags.String("root", ".", "the product's checkout")
	switch args[0] {
	case "draw":
		seed := flags.Uint64("seed", 1, "of what is drawn")
		count := flags.Int("count", 200, "how many bugs")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		tree, err := list(*root)
		if err != nil {
			return err
		}
		bugs, err := tree.draw(*seed, *count)
		if err != nil {
			return err
		}
		for _, b := range bugs {
			fmt.Println(line(b))
		}
		return nil
	case "run":
		out := flags.String("out", "found.json", "where what was found is appended; bugs that stand there are not run again")
		whole := flags.Bool("whole", false, "run the long tests of importing packages, too: minutes for each bug")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		tree, err := list(*root)
		if err != nil {
			return err
		}
		bugs, err := read[bug](flags.Arg(0))
		if err != nil {
			return err
		}
		return tree.hunt(bugs, *out, *whole)
	case "report":
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		all, err := read[found](flags.Arg(0))
		report(all)
		return err
	}
	return fmt.Errorf("%q: expected draw, run or report", args[0])
}

// tree is the product's module.
type tree struct {
	root     string
	packages []*pkg
}

type pkg struct {
	Dir, ImportPath                    string
	GoFiles, CgoFiles                  []string
	Imports, TestImports, XTestImports []string
}

// files returns the paths of its code.
func (p *pkg) files() (all []string) {
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		all = append(all, filepath.Join(p.Dir, name))
	}
	return all
}

// Folders that are not the product: what only tests stand on, examples, tools, and generated code.
var outside = []string{
	"/scripts", "/tools", "/examples", "/proto/gen", "/internal/weftest", "/internal/archtest", "/internal/hostile",
	"/internal/bench", "/internal/poison", "/internal/race", "/server/servertest", "/gpu/gputest",
	"/sharedsched/schedtest", "/runtime/worker/sandbox/sandboxtest",
}

const module = "github.com/weftserve/weft"

func list(root string) (*tree, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(context.Background(), "go", "list",
		"-json=Dir,ImportPath,GoFiles,CgoFiles,Imports,TestImports,XTestImports", "./...")
	command.Dir = root
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	t := &tree{root: root}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		p := &pkg{}
		if err := d.Decode(p); err != nil {
			return nil, err
		}
		t.packages = append(t.packages, p)
	}
	return t, nil
}

// product returns the packages in which bugs are planted.
func (t *tree) product() (all []*pkg) {
	for _, p := range t.packages {
		if !slices.ContainsFunc(outside, func(o string) bool {
			return strings.HasPrefix(strings.TrimPrefix(p.ImportPath, module)+"/", o+"/")
		}) {
			all = append(all, p)
		}
	}
	return all
}

// importers returns the packages whose code or tests import one directly.
func (t *tree) importers(of string) (all []string) {
	for _, p := range t.packages {
		if p.ImportPath != of && slices.Contains(slices.Concat(p.Imports, p.TestImports, p.XTestImports), of) {
			all = append(all, p.ImportPath)
		}
	}
	return all
}

// line returns a value in JSON. It panics for one that JSON does not have: there is none.
func line(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// read returns the values of a file with one in JSON on each line.
func read[T any](name string) (all []T, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); d.More(); {
		var v T
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, v)
	}
	return all, nil
}
