package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/record"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// stepOf is an entry of an episode, with a number of the state that the recorded server kept (0: it kept none).
func stepOf(state, steps int64, change func(*record.Entry)) *record.Entry {
	q := weftest.Request("walker", 1)
	q.EpisodeId = "e"
	e := &record.Entry{Request: q, Response: &weftv1.PredictResponse{}, State: state, Steps: steps, Code: "OK"}
	if change != nil {
		change(e)
	}
	return e
}

func begins(e *record.Entry) { e.Request.BeginEpisode = true }

func ends(e *record.Entry) { e.Request.EndOfEpisode = true }

func failed(e *record.Entry) { e.Response, e.Code = nil, "Unavailable" }

func numbered(n uint64, begin bool) func(*record.Entry) {
	return func(e *record.Entry) { e.Request.Step, e.Request.BeginEpisode = n, begin }
}

func bringing(values int64) func(*record.Entry) {
	return func(e *record.Entry) { e.Request.Inputs["h"] = &weftv1.Tensor{Shape: []int64{1, values}} }
}

func TestStepsOfEpisodes(t *testing.T) {
	alone := func(e *record.Entry) { e.Request.EpisodeId = "" }
	for name, tt := range map[string]struct {
		entries []*record.Entry
		want    []string // "": sent by itself
	}{
		"without an episode": {[]*record.Entry{stepOf(0, 0, alone)}, []string{""}},
		"whole": {
			[]*record.Entry{stepOf(7, 1, nil), stepOf(7, 0, nil), stepOf(0, 0, failed), stepOf(7, 2, ends), stepOf(7, 0, ends)},
			[]string{"p1 begins", retried, failedStep, "p1 ends", retried},
		},
		"a retry ends it": {
			[]*record.Entry{stepOf(7, 1, nil), stepOf(7, 0, ends), stepOf(8, 1, nil)},
			[]string{"p1 begins", "p1 ends " + retried, "p2 begins"},
		},
		"gap, and begun again": {
			[]*record.Entry{stepOf(7, 1, nil), stepOf(7, 3, nil), stepOf(7, 4, nil), stepOf(7, 1, nil), stepOf(7, 2, nil)},
			[]string{"p1 begins", "p1 " + afterLost, "p1 " + afterLost, "p1 begins", "p1"},
		},
		"no beginning":   {[]*record.Entry{stepOf(7, 3, nil), stepOf(0, 0, nil)}, []string{begunOff, begunOff}},
		"brings it all":  {[]*record.Entry{stepOf(0, 0, bringing(4)), stepOf(0, 0, bringing(4))}, []string{"p1", "p2"}},
		"brings a frame": {[]*record.Entry{stepOf(0, 0, bringing(1))}, []string{begunOff}},
		"the recorded model kept no state": {
			[]*record.Entry{
				stepOf(0, 0, begins), stepOf(0, 0, nil), stepOf(0, 0, begins), stepOf(0, 0, ends), stepOf(0, 0, nil),
			},
			[]string{"p1 begins", "p1", "p1 begins", "p1 ends", begunOff},
		},
		"its copies of steps": {
			[]*record.Entry{
				stepOf(0, 0, numbered(1, true)), stepOf(0, 0, numbered(1, true)), stepOf(0, 0, numbered(2, false)),
				stepOf(0, 0, numbered(1, false)), stepOf(0, 0, numbered(3, false)), stepOf(0, 0, numbered(1, true)),
			},
			[]string{"p1 begins", retried, "p1", retried, "p1", "p1 begins"},
		},
	} {
		s := episodes{
			kept: []*weftv1.TensorSpec{{Name: "h", Shape: []int64{-1, 4}}}, prefix: "p", live: map[episodeKey]*episode{},
		}
		var got []string
		for _, e := range tt.entries {
			next := s.next(e)
			var text []string
			if next.of != nil {
				text = append(text, next.of.name)
			}
			if next.begins {
				text = append(text, "begins")
			}
			if next.ends {
				text = append(text, "ends")
			}
			if next.unsent != "" {
				text = append(text, next.unsent)
			}
			got = append(got, strings.Join(text, " "))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestAFailedStep: what follows it in its episode is not sent, and other episodes go on. In the end all are ended, the
// one whose step failed too: it may have been done. So they are where the replay is interrupted.
func TestAFailedStep(t *testing.T) {
	for interrupted, want := range map[time.Duration]map[string][]string{
		time.Hour: {
			"p1": {"1 at 0s, false", "2 at 1s, false", "2 at 3s, true", "1 at 4s, true"},
			"p2": {"1 at 0s, false", "2 at 1s, false", "3 at 2s, false", "3 at 3s, true"},
		},
		1500 * time.Millisecond: {
			"p1": {"1 at 0s, false", "2 at 1s, false", "2 at 2s, true", "1 at 3s, true"},
			"p2": {"1 at 0s, false", "2 at 1s, false", "2 at 2s, true"},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), interrupted)
			defer cancel()
			var mu sync.Mutex
			sent, unsent := map[string][]string{}, 0
			s := &sender{
				speed: 1, concurrency: 8, choose: func(*weftv1.PredictRequest) {}, episodes: episodes{prefix: "p"},
				done: func(r replayed) {
					mu.Lock()
					defer mu.Unlock()
					if r.unsent == afterLost {
						unsent++
					}
				},
				predict: func(ctx context.Context, q *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
					if q.GetEndOfEpisode() && ctx.Err() != nil {
						t.Error("the replay's end keeps it from ending an episode")
					}
					mu.Lock()
					sent[q.GetEpisodeId()] = append(sent[q.GetEpisodeId()],
						fmt.Sprintf("%d at %v, %v", q.GetStep(), time.Since(start), q.GetEndOfEpisode()))
					mu.Unlock()
					time.Sleep(time.Second)
					if q.GetEpisodeId() == "p1" && q.GetStep() == 2 {
						return nil, errors.New("no")
					}
					return &weftv1.PredictResponse{}, nil
				},
			}
			if err := s.run(ctx, func(yield func(*record.Entry, error) bool) {
				for steps := range int64(3) {
					_ = yield(stepOf(7, steps+1, nil), nil) && yield(stepOf(8, steps+1, nil), nil)
				}
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, sent); diff != "" {
				t.Errorf("interrupted after %v (-want +got):\n%s", interrupted, diff)
			}
			if late := slices.Max(s.late.ascending()); interrupted == time.Hour &&
				(unsent != 1 || s.sent != 5 || late != 2*time.Second) {
				t.Errorf("%d were sent, late by %v, and %d not", s.sent, late, unsent)
			}
		})
	}
}
