package serving

import (
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
)

// TestWhoIsCharged: the caller where the model's fairness is by identity and a caller is known; but for shadows, which
// the operator asked for, the version.
func TestWhoIsCharged(t *testing.T) {
	known := &catalog.Caller{Name: "tenant", Weight: 3}
	for _, c := range []struct {
		name     string
		fairness modelrepo.Fairness
		call     catalog.Call
		want     string
	}{
		{"by identity", modelrepo.FairIdentity, catalog.Call{Caller: known}, "tenant"},
		{"nobody known", modelrepo.FairIdentity, catalog.Call{}, ""},
		{"a shadow", modelrepo.FairIdentity, catalog.Call{Caller: known, Shadow: true}, ""},
		{"by version", modelrepo.FairVersion, catalog.Call{Caller: known}, ""},
		{"by model", modelrepo.FairModel, catalog.Call{Caller: known}, ""},
	} {
		r := (&closing{}).replica(t, newKeeper(), nil)
		r.flow = r.flowFor(residency.Candidate{Manifest: &modelrepo.Manifest{Fairness: c.fairness}})
		c.call.Version = &catalog.Version{}
		task := r.taskOf(&Attempt{call: &c.call})
		if task.Identity != c.want || (task.Weight == 3) != (c.want != "") {
			t.Errorf("%s: %q of weight %v is charged, want %q", c.name, task.Identity, task.Weight, c.want)
		}
	}
}
