// Package harnesstest builds the server for tests that run it.
package harnesstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// folder holds the program; "" if no test has asked for it.
var folder string

var build = sync.OnceValues(func() (string, error) {
	var err error
	if folder, err = os.MkdirTemp("", "lab"); err != nil {
		return "", err
	}
	weft := filepath.Join(folder, "weft")
	said, err := exec.Command("go", "build", "-C", "../../..", "-o", weft, "./cmd/weft").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return weft, err
})

// Main runs the tests of a package whose folder lies in tools/lab, and removes the program that they had built.
func Main(m *testing.M) {
	status := m.Run()
	_ = os.RemoveAll(folder) // files left there do no harm
	os.Exit(status)
}

// Weft returns the server's program, which is built once. It skips the test if tests are to be short.
func Weft(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds and runs a server")
	}
	weft, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return weft
}
