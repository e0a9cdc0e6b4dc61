package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/tools/lab/harness"
	"github.com/weftserve/weft/tools/lab/harness/harnesstest"
)

// TestRowsAreWrittenAsTheyCome: when the program is ended, no finding is lost.
func TestRowsAreWrittenAsTheyCome(t *testing.T) {
	r := newReport(t)
	r.tell("one", "a figure")
	r.judge("two", "more", "less", false)
	data, err := os.ReadFile(filepath.Join(r.dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	if err := json.Unmarshal(data, &rows); err != nil || len(rows) != 2 || rows[1].Verdict != failed {
		t.Errorf("rows %v, %v", rows, err)
	}
	if table, err := os.ReadFile(filepath.Join(r.dir, "report.md")); err != nil ||
		!strings.Contains(string(table), "a figure") {
		t.Errorf("%s, %v", table, err)
	}
}

// TestTimeIsUp: a check that was not made within the limit has failed, and the table says so.
func TestTimeIsUp(t *testing.T) {
	status, _, rows := checked(t, "--models", repository(t, nil), "--limit", "1ns")
	if status != statusFailed {
		t.Errorf("status %d, want %d", status, statusFailed)
	}
	for _, name := range checkNames() {
		if got := verdictOf(t, rows, name); got != failed {
			t.Errorf("%s is %q, want %q", name, got, failed)
		}
	}
}

// TestModelThatTakesTheServerAlong has a server that is killed as soon as it is ready if it has a certain model. The
// other one must still be compared.
func TestModelThatTakesTheServerAlong(t *testing.T) {
	models := repository(t, nil)
	if err := os.CopyFS(filepath.Join(models, "killer"), os.DirFS(filepath.Join(models, "policy"))); err != nil {
		t.Fatal(err)
	}
	frail := filepath.Join(t.TempDir(), "weft")
	script := fmt.Sprintf(`#!/bin/bash
[ -d "$2/killer" ] || exec %[1]s "$@"
exec %[1]s "$@" 2> >(while read -r line; do
  echo "$line" >&2
  case $line in *'"event":"ready"'*) kill -KILL $$ ;; esac
done)
`, harnesstest.Weft(t))
	if err := os.WriteFile(frail, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	status, _, rows := checked(t, "--weft", frail, "--models", models, "--only", "correctness")
	if status != statusFailed {
		t.Errorf("status %d, want %d", status, statusFailed)
	}
	name := "correctness: " + models
	if got := verdictOf(t, rows, name+": killer/1"); got != failed {
		t.Errorf("the model that ends the server is %q, want %q", got, failed)
	}
	if last := rows[len(rows)-1]; last.Check != name || last.Verdict != failed ||
		!strings.HasPrefix(last.Measured, "1 of 2 versions agree, 0 cannot") {
		t.Errorf("%+v, want one that agrees and a failure", last)
	}
}

// TestRandomAnswersAreNotCompared: a model that answers otherwise each time has no right answer.
func TestRandomAnswersAreNotCompared(t *testing.T) {
	models := repository(t, nil)
	g := onnxgraph.New("dice").Input(inputName, onnxgraph.Float, rowsDim, 4)
	g.Node("RandomNormalLike", []string{inputName}, []string{outputName})
	if err := harness.Write(filepath.Join(models, "dice", "1", "model.onnx"),
		g.Output(outputName, onnxgraph.Float, rowsDim, 4).Marshal()); err != nil {
		t.Fatal(err)
	}
	status, _, rows := checked(t, "--models", models, "--only", "correctness")
	if got := verdictOf(t, rows, "correctness: "+models+": dice/1"); got != skipped || status != 0 {
		t.Errorf("the verdict is %q with status %d, want %q", got, status, skipped)
	}
}

// TestOneCheckDoesNotEndTheOthers: a server that does not start fails each check, with its name.
func TestOneCheckDoesNotEndTheOthers(t *testing.T) {
	o := options{
		Weft: "/bin/true", Models: []string{repository(t, nil)}, Out: t.TempDir(), Device: cpu,
		Span: 100 * time.Millisecond, Limit: time.Hour,
	}
	s, err := newSuite(&o, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"correctness", "saturation", "weights", "policy", "memory"} {
		found := false
		for _, r := range s.report.rows {
			found = found || r.Check == name && r.Verdict == failed
		}
		if !found {
			t.Errorf("%s has no row that says that it failed: %v", name, s.report.rows)
		}
	}
}
