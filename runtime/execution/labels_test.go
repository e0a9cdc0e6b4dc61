package execution

import (
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
)

// TestProfilesTellModels: a profile that is taken while a batch runs says whose it is.
func TestProfilesTellModels(t *testing.T) {
	var profile strings.Builder
	u, _ := batched(func(b *tensor.Batch) error {
		if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
			t.Error(err)
		}
		return echo(b)
	})
	done := make(chan struct{})
	go func() { // like a batch thread: this one keeps its labels
		defer close(done)
		together(u, 'a')
	}()
	<-done
	if want := `labels: {"model":"m", "part":"batch", "version":"1"}`; !strings.Contains(profile.String(), want) {
		t.Errorf("no %s in\n%s", want, profile.String())
	}
}
