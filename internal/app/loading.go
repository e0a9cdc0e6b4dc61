package app

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/internal/progress"
	"github.com/weftserve/weft/runtime/catalog"
)

// loadingText says how far loading is, as in "loaded 3 of 20: pick/2 proving batching 12 of 40, 8s"; "" if nothing is
// being loaded. Failed versions count as loaded: they are not waited for.
func loadingText(s *catalog.Snapshot) string {
	settled, loading := 0, 0
	var name string // of the version that has been at it longest, and is not waiting for its turn
	var longest catalog.LoadProgress
	busy := 0
	for _, m := range s.Models.All() {
		for _, v := range m.Versions {
			if v.Loading == nil {
				settled++
				continue
			}
			loading++
			l := v.Loading()
			if l.Stage == catalog.StageWaiting {
				continue
			}
			if busy++; name == "" || l.Since.Before(longest.Since) {
				name, longest = fmt.Sprintf("%s/%d", v.Model, v.Number), l
			}
		}
	}
	if loading == 0 {
		return ""
	}
	text := fmt.Sprintf("loaded %d of %d", settled, settled+loading)
	if busy > 0 {
		text += fmt.Sprintf(": %s %s, %v", name, longest.Phrase(), time.Since(longest.Since).Round(time.Second))
	}
	if busy > 1 {
		text += fmt.Sprintf("; %d more under way", busy-1)
	}
	return text
}

// loadingLine shows the progress of loading in the last line of a terminal, below the log.
type loadingLine struct {
	*progress.Line

	models atomic.Pointer[func() *catalog.Snapshot] // nil: none is loaded yet
}

// newLoadingLine returns a line that shows nothing before follow. Write the log to it, so that both share the terminal.
func newLoadingLine(out io.Writer, verb string) *loadingLine {
	l := &loadingLine{}
	l.Line = progress.Start(out, verb, func() string {
		if models := l.models.Load(); models != nil {
			return loadingText((*models)())
		}
		return ""
	})
	return l
}

// follow shows the loading of these models from now on.
func (l *loadingLine) follow(models func() *catalog.Snapshot) { l.models.Store(&models) }
