package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A module with a tested and an untested function stands in for the product.
var small = map[string]string{
	"go.mod": "module " + module + "\n\ngo 1.26\n",
	"a/a.go": `package a

func Tested(n int) int {
	if n < 3 {
		n++
	}
	return n
}

func Untested(n int) int {
	if n > 3 {
		n--
	}
	return n
}
`,
	"a/a_test.go": `package a

import "testing"

func TestTested(t *testing.T) {
	for n, want := range map[int]int{2: 3, 3: 3} {
		if got := Tested(n); got != want {
			t.Errorf("Tested(%d) = %d, want %d", n, got, want)
		}
	}
}
`,
}

// TestBugsAreCaughtOrNot draws all bugs that the small module can have: the tests catch those of the tested function
// and no other, also once the code was moved to another file.
func TestBugsAreCaughtOrNot(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a test for each bug")
	}
	root := t.TempDir()
	for name, content := range small {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	product, err := list(root)
	if err != nil {
		t.Fatal(err)
	}
	bugs, err := product.draw(1, 8) // negate, off by one twice, and a statement dropped: of each function
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(root, "a/a.go"), filepath.Join(root, "a/moved.go")); err != nil {
		t.Fatal(err)
	}
	if product, err = list(root); err != nil {
		t.Fatal(err)
	}
	for _, b := range bugs {
		f := product.judge(b, false)
		want := map[string]string{"Tested": "own", "Untested": "none"}[b.Func]
		if f.By != want || (want == "own" && !strings.HasSuffix(f.Test, "TestTested")) {
			t.Errorf("%+v: caught by %s (%s), want %s", b, f.By, f.Test, want)
		}
	}
}
