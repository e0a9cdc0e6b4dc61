package top

import (
	"testing"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestSentence says who is late because of what.
func TestSentence(t *testing.T) {
	late, refused := weftv1.RequestEnd_REQUEST_END_LATE, weftv1.RequestEnd_REQUEST_END_REFUSED
	for name, tt := range map[string]struct {
		batches  []batch
		requests []request
		want     string
	}{
		"nobody": {nil, nil, "Nobody was late or refused in the last 10 s."},
		"long ago": {
			nil,
			[]request{{arrival: 100, started: 110, end: 120, how: late}},
			"Nobody was late or refused in the last 10 s.",
		},
		"another": {
			[]batch{{start: 19_000, end: 19_047, lane: 1}},
			[]request{{arrival: 19_007, started: 19_047, end: 19_050, how: late}},
			"1 request of walk v1 in the last 10 s was late: rank v1 had the device for 40 ms of the 40 ms that it waited.",
		},
		"itself": {
			[]batch{{start: 19_000, end: 19_010}, {start: 19_010, end: 19_030}},
			[]request{
				{arrival: 19_000, started: 19_030, end: 19_031, how: late},
				{arrival: 19_000, started: 19_030, end: 19_031, how: late},
			},
			"2 requests of walk v1 in the last 10 s were late: others of the same version had the device for 30 ms of the " +
				"30 ms that each waited.",
		},
		"its execution": {
			[]batch{{start: 19_001, end: 19_031}},
			[]request{{arrival: 19_000, started: 19_001, end: 19_031, how: late}},
			"1 request of walk v1 in the last 10 s was late: its own execution took 30 ms of 31 ms.",
		},
		"refused": {
			nil,
			[]request{{end: 19_000, how: refused, reason: "QUEUE_FULL"}, {end: 19_000, how: refused, reason: "QUEUE_FULL"}},
			"2 requests of walk v1 were lost: QUEUE_FULL.",
		},
		"cancelled": {
			nil,
			[]request{{end: 19_000, how: weftv1.RequestEnd_REQUEST_END_CANCELLED}},
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
			q.of = walk
			h.requests = append(h.requests, q)
		}
		if got := h.wronged(); got != tt.want {
			t.Errorf("%s: %s\nwant %s", name, got, tt.want)
		}
	}
}
