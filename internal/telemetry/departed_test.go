package telemetry_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// linesOf returns how many values of a version are on the page.
func linesOf(t *testing.T, tel *telemetry.Telemetry, version string) (n int) {
	t.Helper()
	for name := range values(t, tel) {
		if strings.Contains(name, "version="+version) {
			n++
		}
	}
	return n
}

// TestVersionsThatAreGoneLeaveThePage after an hour; a version that returns goes on, and no request is lost from the
// sums.
func TestVersionsThatAreGoneLeaveThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.state.Accounts = nil
		was := h.snapshot
		tel, _ := start(t, h)
		serve := func() {
			tel.BatchDone(batch)
			tel.RequestOffered("walker", false)
			tel.RequestDone(t.Context(), answered)
		}
		serve()
		tel.RequestOffered("walker", false)
		h.publish(&catalog.Version{Model: "walker", Number: 4, State: catalog.Loading})
		if linesOf(t, tel, "3") == 0 {
			t.Fatal("a version that just went is not on the page")
		}
		time.Sleep(time.Hour)
		if linesOf(t, tel, "3") == 0 {
			t.Error("a version has left the page within an hour")
		}
		time.Sleep(time.Second)
		values(t, tel) // forgets
		if n := linesOf(t, tel, "3"); n != 0 {
			t.Errorf("%d values of a version that was gone for an hour", n)
		}
		got := values(t, tel)
		if got["weft_requests_offered_total{method=Predict,model=walker}"] != "2" ||
			got["weft_requests_in_flight{method=Predict,model=walker}"] != "1" {
			t.Errorf("requests of a model that is there: %v", got)
		}

		h.snapshot = was
		serve()
		if got := values(t, tel)["weft_batch_size_per_flush{model=walker,version=3}"]; got != "2, sum 6" {
			t.Errorf("a version that returned has %q batches, want those from before, too", got)
		}
		const ended = "weft_requests_total{code=OK,method=Predict,model=walker,version=3}"
		if got := values(t, tel)[ended]; got != "1" { // as docs/reference/metrics.md has it
			t.Errorf("a version that returned has %q requests that ended, want those since", got)
		}

		tel.RequestDone(t.Context(), answered)
		h.snapshot = &catalog.Snapshot{}
		values(t, tel)
		time.Sleep(time.Hour + time.Second)
		values(t, tel)
		for name, value := range values(t, tel) {
			if strings.Contains(name, "model=walker") {
				t.Errorf("%s is %s of a model that was gone for an hour", name, value)
			}
		}
	})
}

// TestThePageIsBounded while versions with any names and numbers come and go.
func TestThePageIsBounded(t *testing.T) {
	race.Skip(t, "one goroutine at a time")
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.state = sharedsched.State{}
		tel, _ := start(t, h)
		random := rand.New(rand.NewPCG(1, 2))
		const each = 50
		var lines [12]int
		for hour := range lines {
			for n := range each {
				id := sharedsched.VersionID(1 + each*hour + n)
				v := &catalog.Version{
					Model: fmt.Sprintf("m%x", random.Uint64()), Number: random.Int64N(1 << 40), State: catalog.Ready,
					Device: "cpu", Scheduler: int32(id),
				}
				h.snapshot = &catalog.Snapshot{Models: catalog.ByName(&catalog.Model{
					Name: v.Model, Versions: []*catalog.Version{v},
				})}
				b := batch
				b.Version = id
				tel.BatchDone(b)
				tel.RequestOffered(v.Model, false)
				tel.RequestDone(t.Context(), &predict.Event{Model: v.Model, Version: v.Number, Code: "OK"})
			}
			lines[hour] = strings.Count(string(text(t, tel)), "\nweft_")
			time.Sleep(time.Hour + time.Second)
		}
		if last := lines[len(lines)-1]; last > lines[2]+100 {
			t.Errorf("lines of the page after each hour: %v", lines)
		}
	})
}
