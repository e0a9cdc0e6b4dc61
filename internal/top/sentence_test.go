package top

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestSentence has batches (MODEL START END) and requests for walk v1 (END ARRIVAL STARTED ENDED [REASON]) in the last
// seconds before 20,000 ms, and says who was late because of what.
func TestSentence(t *testing.T) {
	datadriven.RunTest(t, "testdata/script/sentence.txt", func(t *testing.T, d *datadriven.TestData) string {
		h := &history{Activity: &weftv1.Activity{NowMs: 20_000}}
		versions := map[string]*version{}
		for _, model := range []string{"walk", "rank"} {
			versions[model] = &version{label: model + " v1", VersionActivity: &weftv1.VersionActivity{Device: "cpu"}}
		}
		for line := range strings.Lines(d.Input) {
			var what string
			var q request
			if _, err := fmt.Sscan(line, &what, &q.Arrival, &q.Started); err != nil {
				t.Fatal(err)
			}
			if of := versions[what]; of != nil {
				h.batches = append(h.batches, batch{of: of, start: q.Arrival, end: q.Started})
				continue
			}
			_, _ = fmt.Sscan(line, &what, &q.Arrival, &q.Started, &q.End, &q.Reason) // there may be no reason
			q.How, q.of = weftv1.RequestEnd(weftv1.RequestEnd_value["REQUEST_END_"+strings.ToUpper(what)]), versions["walk"]
			h.requests = append(h.requests, q)
		}
		return h.wronged() + "\n"
	})
}
