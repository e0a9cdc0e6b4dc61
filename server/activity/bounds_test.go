package activity_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// done tells of a request that ended just now and took so long.
func (h *house) done(t *testing.T, e predict.Event, took time.Duration) {
	t.Helper()
	h.number++
	e.Number, e.Ended = h.number, time.Now()
	e.Arrived = e.Ended.Add(-took)
	h.log.RequestDone(t.Context(), &e)
}

// A flood of refusals does not push out the few requests that were late.
func TestAFloodHidesNoLateRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		time.Sleep(time.Second)
		h.done(t, predict.Event{
			ID: "late", Model: "pick", Version: 7, Ending: predict.Answered, Target: time.Millisecond,
		}, time.Second)
		for range 70_000 {
			h.done(t, predict.Event{Model: "pick", Version: 7, Ending: predict.Refused, Reason: "QUEUE_FULL"}, 0)
		}
		list := h.log.Requests("pick", weftv1.RequestEnd_REQUEST_END_LATE, 10)
		if ids := list.GetRequests().GetId(); len(ids) != 1 || ids[0] != "late" {
			t.Errorf("late are %q", ids)
		}
		all := h.log.Requests("", 0, 10)
		if n, forgotten := all.GetInLastMinute(), all.GetForgotten(); n != 70_001 || forgotten != 70_000-65_536 {
			t.Errorf("%d in the last minute, of which %d are forgotten", n, forgotten)
		}
		if e := h.log.Explain("late"); e.GetEnd() != weftv1.RequestEnd_REQUEST_END_LATE {
			t.Errorf("of the late request: %v", e)
		}
	})
}

// Names are told apart to their end, although only their beginnings are shown. That of an episode leads to its latest
// request, unless a request has it.
func TestLongNamesAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		time.Sleep(time.Second)
		long := strings.Repeat("a", 100)
		for i := range 3 {
			h.done(t, predict.Event{ID: long + strconv.Itoa(i), Model: "pick", Version: 7}, 0)
		}
		for i, name := range []string{long + "3", long + "3", long + "2"} {
			step := predict.Step{Episode: name, Number: uint64(i + 1)}
			h.done(t, predict.Event{Model: "pick", Version: 7, Ending: predict.Refused, Step: step}, 0)
		}
		if e := h.log.Explain(long + "3"); e.GetNumber() != 5 || e.GetStep() != 2 {
			t.Errorf("the episode leads to request %d, step %d", e.GetNumber(), e.GetStep())
		}
		listed := h.log.Requests("", weftv1.RequestEnd_REQUEST_END_REFUSED, 2).GetRequests()
		if got := fmt.Sprint(listed.GetEpisode(), listed.GetStep()); got != "["+long[:64]+" "+long[:64]+"] [3 2]" {
			t.Errorf("listed are %s", got)
		}
		for i := range 3 {
			if e := h.log.Explain(long + strconv.Itoa(i)); e.GetNumber() != uint32(i+1) || e.GetId() != long[:64] {
				t.Errorf("name %d leads to request %d, %q", i, e.GetNumber(), e.GetId())
			}
		}
		if e := h.log.Explain(long); e != nil {
			t.Errorf("the beginning leads to request %d", e.GetNumber())
		}
	})
}

// What ran in quarantine was in no batch: it ended when the request did.
func TestARequestInQuarantineHasTimesThatAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		time.Sleep(5 * time.Second)
		out := sharedsched.Outcome{Executions: 2, Queue: 10 * time.Millisecond, Compute: 2 * time.Second, Device: "gpu"}
		h.done(t, predict.Event{
			ID: "q", Model: "pick", Version: 7, Ending: predict.Answered, Target: 20 * time.Millisecond,
			Execution: predict.Execution{Rows: 1, Outcome: out},
		}, 2010*time.Millisecond)
		e := h.log.Explain("q")
		if e.GetAdmittedMs() != 0 || e.GetStartedMs() != 10 || e.GetComputedMs() != 2010 || e.GetEndedMs() != 2010 {
			t.Errorf("%v", e)
		}
		if story := strings.Join(e.GetStory(), " "); !strings.Contains(story, "It ran by itself for 2000 ms") ||
			!strings.Contains(story, "mostly because of its own execution") {
			t.Errorf("%q", e.GetStory())
		}
	})
}

// TestStepsOfEpisodes: a story names the episode, and what became of the step there.
func TestStepsOfEpisodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		time.Sleep(5 * time.Second)
		for id, test := range map[string]struct {
			step predict.Step
			want string
		}{
			"none":  {predict.Step{}, "for pick v7, wanted within 20 ms. It was answered after 2000 ms"},
			"named": {predict.Step{Episode: "r/1", Waited: time.Microsecond}, `It belongs to episode "r/1". `},
			"waited": {
				predict.Step{Episode: "r/1", Number: 7, Waited: 1500 * time.Millisecond, Skipped: 2},
				`It is step 7 of episode "r/1", before which 2 were left out, and waited 1500 ms for the step before it. It was ` +
					"answered after 2000 ms: 1980 ms later than wanted, mostly because of waiting for the step of its episode before it.",
			},
			"again": {
				predict.Step{Episode: "r/1", Number: 7, Repeated: true},
				`It is step 7 of episode "r/1". It came again: it got the answer that there was, and nothing ran.`,
			},
		} {
			h.done(t, predict.Event{
				ID: id, Model: "pick", Version: 7, Ending: predict.Answered, Target: 20 * time.Millisecond, Step: test.step,
			}, 2*time.Second)
			e := h.log.Explain(id)
			if story := strings.Join(e.GetStory(), " "); !strings.Contains(story, test.want) {
				t.Errorf("%s: %s", id, story)
			}
			if s := test.step; e.GetEpisode() != s.Episode || e.GetStep() != s.Number || e.GetSkippedSteps() != s.Skipped ||
				e.GetRepeated() != s.Repeated || e.GetTurnMs() != s.Waited.Seconds()*1000 {
				t.Errorf("%s: %v", id, e)
			}
		}
	})
}

// What the caller of a refused request was told is kept, cut where it is long, as long as there is room.
func TestARefusalIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		time.Sleep(time.Second)
		refuse := func(id, model, message string) {
			h.done(t, predict.Event{
				ID: id, Model: model, Ending: predict.Refused, Reason: "INVALID_ARGUMENT", Message: message,
			}, 0)
		}
		refuse("short", "pick", "inputs[\"x\"].shape: expected [?,4], got [1]")
		refuse("long", "pick", strings.Repeat("a", 198)+"éé")
		refuse("unknown", "", "no model is named \"x\"; there is \"pick\"")
		for id, want := range map[string]string{
			"short":   "Its caller was told: inputs[\"x\"].shape: expected [?,4], got [1]",
			"long":    "Its caller was told: " + strings.Repeat("a", 197) + "...",
			"unknown": "It was refused after 0 us: INVALID_ARGUMENT.", // others may not see these models
		} {
			if story := h.log.Explain(id).GetStory(); story[len(story)-1] != want {
				t.Errorf("%s: %q", id, story)
			}
		}
		for range 30_000 {
			refuse("", "pick", strings.Repeat("b", 200))
		}
		if story := strings.Join(h.log.Explain("short").GetStory(), " "); !strings.HasSuffix(story, "INVALID_ARGUMENT.") {
			t.Errorf("%q", story)
		}
	})
}

// The newest second of a history is one that is over and counted, not one that will be.
func TestAHistoryEndsWithASecondThatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		time.Sleep(500 * time.Millisecond)
		go h.log.Run(t.Context()) // it ticks half a second after each second's end
		for range 300 {
			h.ask(t.Context(), h.kinds[0], "x", 1, 0)
			time.Sleep(19 * time.Millisecond)
			rates := h.log.History("", 0, false).GetRequestsPerSecond()
			if n := len(rates); n > 1 && rates[n-1] < 40 {
				t.Fatalf("rates end with %v", rates[max(0, n-3):])
			}
		}
	})
}
