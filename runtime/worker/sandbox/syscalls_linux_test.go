package sandbox

import (
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
)

// TestForbiddenExist: a name that is misspelt would forbid nothing.
func TestForbiddenExist(t *testing.T) {
	for _, name := range slices.Concat(forbidden, ifGPU, []string{unseen}) {
		_, there := arch.X86_64.SyscallNames[name]
		_, elsewhere := arch.AARCH64.SyscallNames[name]
		if !there && !elsewhere {
			t.Errorf("there is no system call %s", name)
		}
	}
	if sorted := slices.Sorted(slices.Values(forbidden)); len(slices.Compact(sorted)) != len(forbidden) {
		t.Error("a system call is listed twice")
	}
}

// TestFilters: both filters can be made.
func TestFilters(t *testing.T) {
	for _, gpu := range []bool{false, true} {
		calls, err := (&Policy{GPU: gpu}).calls()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := calls.Assemble(); err != nil {
			t.Errorf("with a GPU %v: %v", gpu, err)
		}
	}
}
