package app

import (
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/sharedsched/shell"
)

// TestModelsInASandbox loads, proves and warms up every model that there is in a confined worker.
func TestModelsInASandbox(t *testing.T) {
	race.Skip(t, "its goroutines are those of other tests, and each model takes a while")
	repositories := []string{"../../examples/models"}
	if more := os.Getenv("WEFT_TEST_MODELS"); more != "" {
		repositories = append(repositories, more)
	}
	locales := t.TempDir() // one of the models wants one; without localedef that one fails
	_ = exec.CommandContext(t.Context(), "localedef", "-i", "en_US", "-f", "UTF-8", locales+"/en_US.UTF-8").Run()
	t.Setenv("LOCPATH", locales)
	repository, err := modelrepo.Open(repositories...)
	if err != nil {
		t.Fatal(err)
	}
	log := &weftest.Log{}
	s := config.DefaultServer()
	h, err := newHouse(&s, slog.New(log), nil, host.Config{TryOnce: true}, shell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.models.Reconcile(t.Context(), repository.Scan()); err != nil {
		t.Fatal(err)
	}
	serving, failed := tally(h.models.Snapshot())
	there, err := os.ReadDir(locales)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range failed {
		if !strings.Contains(f.cause, "no version directory") && (len(there) > 0 || !strings.Contains(f.cause, "LOCPATH")) {
			t.Errorf("%s: %s", f.name, f.cause)
		}
	}
	if serving == 0 || len(log.Event("worker_died")) > 0 {
		t.Errorf("%d serve; %v", serving, log.Lines("worker"))
	}
	if err := h.close(t.Context()); err != nil {
		t.Error(err)
	}
	if len(log.Event("worker_sandboxed")) != 1 {
		t.Skipf("they were not confined: %v", log.Lines("sandbox"))
	}
}
