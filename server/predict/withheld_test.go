package predict

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// TestWhatCallersAreNotToldIsLogged: the whole error, with the names that lead to its request, and not for every
// request of a flood.
func TestWhatCallersAreNotToldIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := withheld{log: slog.New(slog.NewTextHandler(&log, nil))}
		f := &flight{req: &Request{ID: "r7"}, result: Result{Place: Place{Model: "policy", Version: 3}}}
		whole := &catalog.ModelError{Model: "policy", Version: 3, Err: errors.New("cannot open /tmp/secret/core.1")}
		lines := func() int { return strings.Count(log.String(), "\n") }

		w.tell(t.Context(), f, &Explanation{Text: "no number"}, errors.New("no number"))
		if lines() != 0 {
			t.Errorf("what callers are told is logged: %s", log.String())
		}
		for range 3 {
			w.tell(t.Context(), f, &Explanation{Text: "a part"}, whole)
		}
		if lines() != 1 {
			t.Errorf("three errors in an instant are logged as %s", log.String())
		}
		time.Sleep(withheldPause)
		w.tell(t.Context(), f, &Explanation{Text: "a part"}, whole)
		if lines() != 2 || !strings.Contains(log.String(), "others_since=2") {
			t.Errorf("after a pause the log is %s", log.String())
		}
		for _, part := range []string{
			"event=cause_withheld", "/tmp/secret/core.1", "model=policy", "version=3", "request_id=r7",
		} {
			if strings.Count(log.String(), part) != 2 {
				t.Errorf("%q is not in both lines of %s", part, log.String())
			}
		}
	})
}
