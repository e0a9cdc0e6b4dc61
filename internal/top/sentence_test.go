package top

import (
	"testing"

	"github.com/weftserve/weft/internal/ask"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestSentence says who is late because of what.
func TestSentence(t *testing.T) {
	late, refused := weftv1.RequestEnd_REQUEST_END_LATE, weftv1.RequestEnd_REQUEST_END_REFUSED
	for name, tt := range map[string]struct {
		batches  []batch
		requests []ask.Request
		want     string
	}{
		"nobody": {nil, nil, "Nobody was late or refused in the last 10 s."},
		"long ago": {
			nil,
			[]ask.Request{{Arrival: 100, Started: 110, End: 120, How: late}},
			"Nobody was late or refused in the last 10 s.",
		},
		"another": {
			[]batch{{start: 19_000, end: 19_047, lane: 1}},
			[]ask.Request{{Arrival: 19_007, Started: 19_047, End: 19_050, How: late}},
			"1 request of walk v1 in the last 10 s was late: rank v1 had the device for 40 ms of the 40 ms that it waited.",
		},
		"itself": {
			[]batch{{start: 19_000, end: 19_010}, {start: 19_010, end: 19_030}},
			[]ask.Request{
				{Arrival: 19_000, Started: 19_030, End: 19_031, How: late},
				{Arrival: 19_000, Started: 19_030, End: 19_031, How: late},
			},
			"2 requests of walk v1 in the last 10 s were late: others of the same version had the device for 30 ms of the " +
				"30 ms that each waited.",
		},
		"its execution": {
			[]batch{{start: 19_001, end: 19_031}},
			[]ask.Request{{Arrival: 19_000, Started: 19_001, End: 19_031, How: late}},
			"1 request of walk v1 in the last 10 s was late: its own execution took 30 ms of 31 ms.",
		},
		"refused": {
			nil,
			[]ask.Request{{End: 19_000, How: refused, Reason: "QUEUE_FULL"}, {End: 19_000, How: refused, Reason: "QUEUE_FULL"}},
			"2 requests of walk v1 were lost: QUEUE_FULL.",
		},
		"cancelled": {
			nil,
			[]ask.Request{{End: 19_000, How: weftv1.RequestEnd_REQUEST_END_CANCELLED}},
			"Nobody was late or refused in the last 10 s.",
		},
	} {
		h := &history{Activity: &weftv1.Activity{NowMs: 20_000}}
		walk := &version{label: "walk v1", VersionActivity: &weftv1.VersionActivity{Device: "cpu"}}
		rank := &version{label: "rank v1", VersionActivity: &weftv1.VersionActivity{Device: "cpu"}}
		for _, b := range tt.batches {
			if b.of = walk; b.lane == 1 {
				b.of = rank
			}
			h.batches = append(h.batches, b)
		}
		for _, q := range tt.requests {
			h.requests = append(h.requests, request{q, walk})
		}
		if got := h.wronged(); got != tt.want {
			t.Errorf("%s: %s\nwant %s", name, got, tt.want)
		}
	}
}
