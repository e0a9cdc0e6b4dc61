package app

import (
	"log/slog"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/sharedsched/fairq"
	"github.com/weftserve/weft/sharedsched/shell"
)

func TestFairnessWindowReachesTheScheduler(t *testing.T) {
	for _, want := range []time.Duration{0, 7 * time.Millisecond} {
		s := config.DefaultServer()
		s.FairnessWindow = config.Duration(want)
		h, err := newHouse(&s, slog.New(slog.DiscardHandler), host.Config{}, shell.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range h.scheduler.State().Devices {
			if d.Window != fairq.Tag(want) {
				t.Errorf("%s has a window of %v, want %v", d.Name, time.Duration(d.Window), want)
			}
		}
		if err := h.close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
