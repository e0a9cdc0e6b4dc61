package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/config"
)

// TestWhereTheStateMayBe: not where a scan would take it for a model, or for a part of one.
func TestWhereTheStateMayBe(t *testing.T) {
	dir := t.TempDir()
	repository, link := filepath.Join(dir, "models"), filepath.Join(dir, "link")
	if err := errors.Join(os.MkdirAll(filepath.Join(repository, "walker", "1"), 0o755),
		os.Symlink(repository, link)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	const model = "would be taken for model"
	for state, want := range map[string]string{
		"auto": "", "none": "", "": "", "state": "", "models/.state": "", "models/.state/of/one": "",
		"models/walker/../../x": "", "models-state": "",
		"models": "is the repository itself", "link": "is the repository itself",
		"models/.":     "is the repository itself",
		"models/state": model, "models/walker": model, "models/walker/1": model, "link/walker/.state": model,
		"models/not/there/yet": model,
	} {
		c := Settings{Repositories: []string{"elsewhere", link}, Server: config.DefaultServer()}
		c.StateDir = state
		err := c.Check()
		if want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), "--state-dir: "+state+" "+want)) {
			t.Errorf("--state-dir %s: %v; want %q", state, err, want)
		}
	}
}
