package routing_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/routing"
)

func TestShadowsAreSampledByWholeEpisodes(t *testing.T) {
	s := serving(1, weights(90, 10), catalog.Shadow{Version: 3, Sample: 0.25}, catalog.Shadow{Version: 4, Sample: 0.5})
	r := routing.NewRouter(routing.Config{})
	third, fourth, both, canary := 0, 0, 0, 0
	for i := range manyEpisodes {
		first := mustRoute(t, r, s, routing.Request{Episode: episodeName(i), RequestID: "1"})
		if i%100 == 0 {
			for _, id := range []string{"2", "3", ""} {
				again := mustRoute(t, r, s, routing.Request{Episode: episodeName(i), RequestID: id, Serial: uint64(i)})
				if diff := cmp.Diff(first.Shadows, again.Shadows); diff != "" {
					t.Fatalf("an episode is shown in part:\n%s", diff)
				}
			}
		}
		shown := map[int64]bool{}
		for _, shadow := range first.Shadows {
			shown[shadow.Version] = true
		}
		if shown[3] {
			third++
			if first.Slot == "b" {
				canary++
			}
		}
		if shown[4] {
			fourth++
		}
		if shown[3] && shown[4] {
			both++
		}
	}
	wantShare(t, "shown to 3", third, manyEpisodes, 0.25)
	wantShare(t, "shown to 4", fourth, manyEpisodes, 0.5)
	wantShare(t, "shown to both", both, manyEpisodes, 0.125)
	wantShare(t, "in the canary, of those shown to 3", canary, third, 0.1)
}

func TestGreaterSampleKeepsTheLesser(t *testing.T) {
	shown := func(sample float64, i int) bool {
		s := serving(1, nil, catalog.Shadow{Version: 1, Sample: sample})
		return len(mustRoute(t, routing.NewRouter(routing.Config{}), s,
			routing.Request{Episode: episodeName(i)}).Shadows) == 1
	}
	lost, won := 0, 0
	for i := range 2000 {
		switch less, more := shown(0.1, i), shown(0.2, i); {
		case less && !more:
			lost++
		case more && !less:
			won++
		}
	}
	if lost != 0 {
		t.Errorf("%d of 2000 episodes are lost to a greater sample", lost)
	}
	wantShare(t, "won by a greater sample", won, 2000, 0.1)
}

func TestShadowsByRequest(t *testing.T) {
	s := serving(1, nil, catalog.Shadow{Version: 1, Sample: 0.25, PerRequest: true})
	r := routing.NewRouter(routing.Config{})
	const episodes, requests = 1000, 100
	byID, bySerial, partly := 0, 0, 0
	for i := range episodes {
		n := 0
		for j := range requests {
			// Every client counts its requests from 0.
			n += len(mustRoute(t, r, s, routing.Request{Episode: episodeName(i), RequestID: episodeName(j)}).Shadows)
			bySerial += len(mustRoute(t, r, s,
				routing.Request{Episode: episodeName(i), Serial: uint64(i*requests + j)}).Shadows)
		}
		byID += n
		if n > 0 && n < requests {
			partly++
		}
	}
	wantShare(t, "shown by request id", byID, episodes*requests, 0.25)
	wantShare(t, "shown by serial", bySerial, episodes*requests, 0.25)
	if partly < episodes*9/10 {
		t.Errorf("only %d of %d episodes are shown in part", partly, episodes)
	}
}

func TestShadowIsReadyAndAnother(t *testing.T) {
	all := []catalog.Shadow{
		{Version: 1, Sample: 1},
		{Version: 2, Sample: 1},
		{Version: 3, Sample: 1},
		{Version: 4, Sample: 1},
		{Version: 9, Sample: 1},
	}
	s := serving(1, weights(1), all...)
	s.Model("m").Versions[2] = version("m", 3, catalog.Loading)
	r := routing.NewRouter(routing.Config{})
	for range 2 { // the second time from the pin
		route := mustRoute(t, r, s, routing.Request{Episode: "e"})
		if diff := cmp.Diff([]catalog.Shadow{all[1], all[3]}, route.Shadows); diff != "" {
			t.Errorf("shadows beside version 1 (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 9}, func() (v []int64) {
		for _, shadow := range s.Model("m").Traffic.Shadow {
			v = append(v, shadow.Version)
		}
		return v
	}()); diff != "" {
		t.Errorf("routing changed the table:\n%s", diff)
	}
}
