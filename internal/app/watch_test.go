package app

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/sharedsched/shell"
)

// lines is a writer of log lines.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestOdditiesAreToldAsTheyAppear: an oddity that is there at the start is logged then, and a later one when it comes,
// each once.
func TestOdditiesAreToldAsTheyAppear(t *testing.T) {
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.SetManifest(t, repository, "walker", quick)
	mkdir := func(name string) {
		t.Helper()
		weftest.AddVersion(t, repository, "walker/"+name, 1) // a folder with any content
	}
	mkdir("v4")
	told := make(lines, 100)
	log := slog.New(slog.NewTextHandler(told, &slog.HandlerOptions{Level: slog.LevelWarn}))
	next := func() string {
		t.Helper()
		select {
		case line := <-told:
			return line
		case <-time.After(weftest.Patience):
			t.Fatal("nothing is told")
			return ""
		}
	}
	opened, listing, err := scan(&Settings{Repositories: []string{repository}}, log)
	if err != nil {
		t.Fatal(err)
	}
	if line := next(); !strings.Contains(line, "event=repository_entry_ignored") ||
		!strings.Contains(line, `v4\" is passed over`) {
		t.Errorf("at the start: %s", line)
	}
	s := config.DefaultServer()
	h, err := newHouse(&s, slog.New(slog.DiscardHandler), nil, host.Config{}, shell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	part := watchPart(opened, listing, 50*time.Millisecond, 50*time.Millisecond, nil, h, log)
	ended := make(chan error, 1)
	go func() { ended <- part.Run() }()
	for _, name := range []string{"v5", "v6"} {
		mkdir(name)
		if line := next(); !strings.Contains(line, "event=repository_entry_ignored") ||
			!strings.Contains(line, name+`\" is passed over`) {
			t.Errorf("when %s came: %s", name, line)
		}
	}
	if err := part.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := h.close(t.Context()); err != nil {
		t.Error(err)
	}
	if len(told) > 0 {
		t.Errorf("and %s", <-told)
	}
}
