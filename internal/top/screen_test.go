package top

import (
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/types/known/timestamppb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestKeys presses keys, those of a case one after the other, and says which versions are shown then, and which of them
// is selected. Each file begins anew.
func TestKeys(t *testing.T) {
	atDemo(t, func(t *testing.T, _ *demo, s *screen) {
		datadriven.RunTest(t, "testdata/script/keys.txt", func(t *testing.T, d *datadriven.TestData) string {
			var said strings.Builder
			for key := range strings.FieldsSeq(d.Input) {
				press(t, s, key)
			}
			chosen, _ := s.selected()
			for _, v := range s.rows() {
				if said.WriteString(v.label); v == chosen {
					said.WriteString("*")
				}
				said.WriteString("  ")
			}
			return strings.TrimSpace(said.String()) + "\n"
		})
		long := append([]string{"f"}, slices.Repeat([]string{"a"}, 2*maxFilter)...)
		if press(t, s, long...); len(s.filter) != maxFilter {
			t.Errorf("a filter of %d", len(s.filter))
		}
	})
}

// TestFreeze: what is shown stays as it is while more happens.
func TestFreeze(t *testing.T) {
	atDemo(t, func(t *testing.T, d *demo, s *screen) {
		press(t, s, "space")
		before := screenText(s)
		feed(t, s, d, 8)
		s.Update(frameMsg{})
		if after := screenText(s); after != before {
			t.Errorf("the frozen picture changed:\n%s\n%s", before, after)
		}
		press(t, s, "space")
		if after := screenText(s); after == before || !strings.Contains(after, "live") {
			t.Errorf("the picture did not go on:\n%s", after)
		}
	})
}

// server is a server of one version that is told what to say.
func server(run string, now float64, requests ...float64) *weftv1.Activity {
	a := &weftv1.Activity{
		Run: run, Began: timestamppb.New(time.Unix(1000, 0)), NowMs: now, WindowMs: 10_000,
		Devices: []*weftv1.DeviceActivity{{Name: "cpu", Lanes: 1}},
		Versions: []*weftv1.VersionActivity{{
			Model: "m", Version: 1, Device: "cpu",
		}},
		Requests: &weftv1.RequestColumns{},
		Batches:  &weftv1.BatchColumns{},
	}
	for i, end := range requests {
		c := a.GetRequests()
		c.Number = append(c.Number, uint32(end))
		c.Version = append(c.Version, 1)
		c.ArrivalMs = append(c.ArrivalMs, end-10)
		c.EndMs = append(c.EndMs, end)
		c.End = append(c.End, uint32(weftv1.RequestEnd_REQUEST_END_LATE))
		b := a.GetBatches()
		b.Number = append(b.Number, uint32(i+1))
		b.Version = append(b.Version, 0)
		b.Lane = append(b.Lane, 0)
		b.StartMs = append(b.StartMs, end-5)
		b.DurationMs = append(b.DurationMs, 5)
	}
	return a
}

// TestRestart: another run of the server begins anew, and says so.
func TestRestart(t *testing.T) {
	s := seen(t, newDemo(), 0)
	s.Update(server("one", 5000, 4000, 4500))
	if len(s.history.requests) != 2 || strings.Contains(screenText(s), "restarted") {
		t.Fatalf("%d requests:\n%s", len(s.history.requests), screenText(s))
	}
	s.Update(lostMsg{errTest})
	if text := screenText(s); !strings.Contains(text, "connection lost") || !strings.Contains(text, errTest.Error()) {
		t.Errorf("while it is away:\n%s", text)
	}
	s.Update(server("two", 300, 200))
	text := screenText(s)
	if len(s.history.requests) != 1 || len(s.history.batches) != 1 || !strings.Contains(text, "restarted") ||
		strings.Contains(text, "lost ") && strings.Contains(text, errTest.Error()) {
		t.Errorf("%d requests:\n%s", len(s.history.requests), text)
	}
}

// TestSameAgain: a new connection to the same run reaches back over what is known.
func TestSameAgain(t *testing.T) {
	h := &history{}
	h.add(server("one", 5000, 4000, 4500))
	h.add(server("one", 6000, 4000, 4500, 5500))
	if len(h.requests) != 3 || len(h.batches) != 3 {
		t.Errorf("%d requests and %d batches, want 3", len(h.requests), len(h.batches))
	}
}

// TestBounds: however much a server says, so much is kept.
func TestBounds(t *testing.T) {
	h := &history{}
	many := make([]float64, maxRequests+maxBatches)
	for i := range many {
		many[i] = 60_000 + float64(i)/100
	}
	h.add(server("one", 70_000, many...))
	if len(h.requests) != maxRequests || len(h.batches) != maxBatches {
		t.Errorf("%d requests, %d batches", len(h.requests), len(h.batches))
	}
	for i := range 1000 {
		a := server("one", 70_000+1000*float64(i))
		a.FromMs = h.GetNowMs()
		h.add(a)
	}
	if len(h.samples) > maxSamples {
		t.Errorf("%d samples", len(h.samples))
	}
}

// TestTornColumns: a list that is shorter than its first does no harm.
func TestTornColumns(t *testing.T) {
	h := &history{}
	h.add(&weftv1.Activity{
		Run: "one", NowMs: 10, Requests: &weftv1.RequestColumns{Number: []uint32{1, 2}, Version: []uint32{9}},
		Batches: &weftv1.BatchColumns{Number: []uint32{1}}, Running: []*weftv1.RunningBatch{{Version: 7}},
	})
	if h.sentence() != "No model is loaded. Nobody was late or refused in the last 10 s." {
		t.Error(h.sentence())
	}
}

// TestSmall: where there is no room, it says so.
func TestSmall(t *testing.T) {
	atDemo(t, func(t *testing.T, _ *demo, s *screen) {
		for _, size := range [][2]int{{0, 0}, {1, 1}, {71, 24}, {80, 9}, {72, 10}, {200, 60}} {
			s.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			text := screenText(s)
			small := size[0] < leastWidth || size[1] < leastHeight
			if size[0] > 60 && strings.Contains(text, "weft top needs") != small {
				t.Errorf("%v:\n%s", size, text)
			}
			for _, page := range [][]string{{"enter", "enter"}, {"esc", "esc"}, {"?"}, {"?"}} {
				press(t, s, page...)
				_ = screenText(s) // no panic
			}
		}
	})
}
