package telemetry

import (
	"context"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

// parade shows one version after the other, beside one that stays.
type parade struct{ snapshot *catalog.Snapshot }

func (p *parade) Snapshot() *catalog.Snapshot                  { return p.snapshot }
func (p *parade) Predict(context.Context, *catalog.Call) error { return nil }
func (p *parade) Epoch() time.Time                             { return time.Time{} }
func (p *parade) State() sharedsched.State                     { return sharedsched.State{} }
func (p *parade) VersionName(sharedsched.VersionID) string     { return "" }
func (p *parade) slot(*catalog.Model, *catalog.Version) string { return "" }
func (p *parade) show(versions ...*catalog.Version) *catalog.Snapshot {
	return &catalog.Snapshot{Models: catalog.ByName(&catalog.Model{Name: "walker", Versions: versions})}
}

// TestLabelsOfGoneVersionsAreBounded; those of a version that stays are kept.
func TestLabelsOfGoneVersionsAreBounded(t *testing.T) {
	p := &parade{}
	stays := &catalog.Version{Model: "walker", Number: 1, State: catalog.Ready, Device: "cpu", Scheduler: 1}
	p.snapshot = p.show(stays)
	vs := versions{slot: p.slot}
	vs.watch(p, p)
	kept := vs.of(1, "cpu")
	for n := range int32(3 * maxGone) {
		p.snapshot = p.show(stays,
			&catalog.Version{Model: "walker", Number: int64(n) + 2, State: catalog.Ready, Device: "cpu", Scheduler: n + 2})
		if s := vs.of(sharedsched.VersionID(n+2), "cpu"); !s.serving {
			t.Fatalf("version %d has no labels", n+2)
		}
	}
	if n := vs.table.Load().byID.Len(); n > maxGone+4 || n < 2 {
		t.Errorf("labels of %d versions are kept, want up to %d", n, maxGone)
	}
	if vs.of(1, "cpu") != kept {
		t.Error("the version that stays has other labels")
	}
}
