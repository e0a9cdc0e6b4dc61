package app

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
)

// settlingMirror has a change once it was asked twice, as what comes later is wanted to be the same twice.
type settlingMirror struct{ asked atomic.Int64 }

func (m *settlingMirror) Dir() string { return "" }

func (m *settlingMirror) Refresh(context.Context) time.Duration {
	if m.asked.Add(1)%2 == 1 {
		return 3 * time.Second
	}
	return 0
}

// TestMirrorsTellTheWatch: with --watch-interval 0 a signal has what is new served, also if that settles later only.
func TestMirrorsTellTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask, on, m := make(chan time.Duration), make(chan time.Duration), &settlingMirror{}
		part := mirrorPart(map[string]Mirror{"s3://b": m}, 0, ask, on)
		ended := make(chan error)
		go func() { ended <- part.Run() }()
		ask <- 0
		for want := range int64(2) {
			select {
			case <-on:
				if asked := m.asked.Load(); asked != want+1 {
					t.Errorf("told after %d looks, want %d", asked, want+1)
				}
			case <-time.After(time.Minute):
				t.Errorf("not told of look %d", want+1)
			}
		}
		if err := part.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestPlaceCopiesRepositories that lie elsewhere, as a server would.
func TestPlaceCopiesRepositories(t *testing.T) {
	t.Setenv("WEFT_ROSTER", "weft-0,weft-1")
	dir := folder(t.TempDir())
	weftest.AddVersion(t, string(dir), "walker", 1)
	weftest.SetManifest(t, string(dir), "walker", quick)
	s := Settings{
		Repositories: []string{"s3://b"}, Server: config.DefaultServer(),
		OpenMirror: func(context.Context, string, *Settings, string, *slog.Logger) (Mirror, error) { return dir, nil },
	}
	s.Roster = "WEFT_ROSTER"
	var out, errs strings.Builder
	if err := Place(&s, Placing{}, &out, &errs); err != nil || !strings.Contains(out.String(), "walker") {
		t.Errorf("%v, %s%s", err, &out, &errs)
	}
}

// folder is a mirror that never changes.
type folder string

func (f folder) Dir() string { return string(f) }

func (f folder) Refresh(context.Context) time.Duration { return 0 }
