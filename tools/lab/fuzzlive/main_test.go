package main

import (
	"strings"
	"testing"

	"github.com/weftserve/weft/tools/lab/harness"
	"github.com/weftserve/weft/tools/lab/harness/harnesstest"
)

func TestMain(m *testing.M) { harnesstest.Main(m) }

// TestServerLivesThroughAShortRun of the real program, with hostile calls and with names that are new in each.
func TestServerLivesThroughAShortRun(t *testing.T) {
	program := harnesstest.Weft(t)
	var out strings.Builder
	for _, more := range []string{"--admin", "--names"} {
		args := []string{"--weft", program, "--executions", "20000", "--seed", "1", more}
		if err := run(t.Context(), args, harness.Output{Out: &out, Err: &out}); err != nil {
			t.Errorf("%s: %v", more, err)
		}
	}
	t.Log(out.String())
}

func TestOptionsAreChecked(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--weft=main.go --executions=0", "--executions 0: expected 1 or more"},
		{"--weft=main.go --connections=0", "--connections 0: expected 1 or more"},
		{"--weft=none/such", "no such file"},
	} {
		var out strings.Builder
		err := run(t.Context(), strings.Fields(tt.args), harness.Output{Out: &out, Err: &out})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want ...%s...", tt.args, err, tt.want)
		}
	}
}
