package decisions

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// to is a traffic that leads to versions; none for none.
func to(versions ...int64) *catalog.Traffic {
	t := &catalog.Traffic{Source: "SetTraffic"}
	for _, n := range versions {
		t.Split = append(t.Split, catalog.Slot{Name: strconv.FormatInt(n, 10), Version: n, Weight: 1})
	}
	return t
}

// TestWhatWinsOverWhat is the table of docs/reference/state-directory.md. Versions 1 to 3 are ready. The decisions
// are in the order in which they were made, and "what answers" a request that names neither version nor label.
func TestWhatWinsOverWhat(t *testing.T) {
	type say func(Model) Model
	file := func(traffic *catalog.Traffic, labels map[string]int64, policy string) say {
		return func(m Model) Model {
			m, _ = m.Follow(Manifest{Traffic: traffic, Labels: labels, Policy: policy}, time.Time{})
			return m
		}
	}
	manifest := func(versions ...int64) say { return file(to(versions...), nil, "") }
	nothing := file(nil, nil, "")
	set := func(versions ...int64) say { return func(m Model) Model { return m.Divide(to(versions...)) } }
	rollBack := func(m Model) Model { return m.Divide(to(2)).RollBack(catalog.RolledBack{Version: 3}) }
	label := func(version int64) say { return func(m Model) Model { return m.Label("l", Label{Version: version}) } }
	for name, c := range map[string]struct {
		said []say
		want string // the version that answers, the label's, and the revision of the traffic
	}{
		"nothing: the newest":                     {[]say{nothing}, "[3] 0 1"},
		"the manifest":                            {[]say{manifest(1)}, "[1] 0 1"},
		"SetTraffic over the manifest":            {[]say{manifest(1), set(2)}, "[2] 0 2"},
		"SetTraffic, and the same manifest again": {[]say{manifest(1), set(2), manifest(1)}, "[2] 0 2"},
		"SetTraffic, and the manifest with other matters": {[]say{
			manifest(1), set(2),
			file(to(1), map[string]int64{"l": 1}, "all"),
		}, "[2] 1 2"},
		"a changed manifest over SetTraffic":   {[]say{manifest(1), set(2), manifest(3)}, "[3] 0 3"},
		"a changed manifest, and back":         {[]say{manifest(1), set(2), manifest(3), manifest(1)}, "[1] 0 4"},
		"traffic taken out of the manifest":    {[]say{manifest(1), set(2), nothing}, "[3] 0 3"},
		"an empty traffic is none":             {[]say{nothing, set(2), manifest()}, "[2] 0 2"},
		"SetTraffic to none over the manifest": {[]say{manifest(1), set()}, "[3] 0 2"},
		"a rollback":                           {[]say{nothing, rollBack}, "[2] 0 2"},
		"a rollback, then none":                {[]say{nothing, rollBack, set()}, "[2] 0 3"},
		"a rollback, then others":              {[]say{nothing, rollBack, set(1), set()}, "[2] 0 4"},
		"a rollback, then its name":            {[]say{nothing, rollBack, set(1, 3), set()}, "[3] 0 4"},
		"a rollback, then in the manifest":     {[]say{manifest(1), rollBack, manifest(3), nothing}, "[3] 0 4"},
		"a rollback, then out of the manifest": {[]say{manifest(3), rollBack, nothing}, "[2] 0 3"},
		"a rollback, then the same manifest":   {[]say{manifest(3), rollBack, manifest(3)}, "[2] 0 2"},
		"a rollback, then a label":             {[]say{nothing, rollBack, label(3), set()}, "[2] 3 3"},
		"a rollback twice":                     {[]say{nothing, rollBack, rollBack, set(3), set()}, "[3] 0 5"},
		"a label":                              {[]say{nothing, label(1)}, "[3] 1 1"},
		"a label over the manifest":            {[]say{file(nil, map[string]int64{"l": 2}, ""), label(1)}, "[3] 1 1"},
		"a label, and the same manifest": {[]say{
			file(nil, map[string]int64{"l": 2}, ""), label(1),
			file(to(1), map[string]int64{"l": 2, "k": 1}, ""),
		}, "[1] 1 2"},
		"a changed manifest over a label": {[]say{
			file(nil, map[string]int64{"l": 2}, ""), label(1),
			file(nil, map[string]int64{"l": 3}, ""),
		}, "[3] 3 1"},
		"a label out of the manifest": {
			[]say{file(nil, map[string]int64{"l": 2}, ""), label(1), nothing},
			"[3] 0 1",
		},
		"a label that was removed": {[]say{file(nil, map[string]int64{"l": 2}, ""), label(0)}, "[3] 0 1"},
		"a label that was removed, and changed": {[]say{
			file(nil, map[string]int64{"l": 2}, ""), label(0),
			file(nil, map[string]int64{"l": 1}, ""),
		}, "[3] 1 1"},
		"a label that was set and removed": {[]say{nothing, label(1), label(0)}, "[3] 0 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var m Model
			for i, say := range c.said {
				before := fmt.Sprintf("%+v", m)
				next := say(m)
				if after := fmt.Sprintf("%+v", m); before != after {
					t.Fatalf("the %d. changed what was before it: %s, was %s", i+1, after, before)
				}
				// Keeping the state in between changes nothing.
				text, err := encode("m", next)
				if err != nil {
					t.Fatal(err)
				}
				if _, m, err = decode("m", text); err != nil {
					t.Fatal(err)
				}
			}
			model := &catalog.Model{Name: "m", RolledBack: m.RolledBack}
			for n := range int64(3) {
				model.Versions = append(model.Versions, &catalog.Version{Number: n + 1, State: catalog.Ready})
			}
			var answers []int64
			for _, s := range m.Traffic.Split {
				answers = append(answers, s.Version)
			}
			if len(answers) == 0 {
				answers = append(answers, model.Newest().Number)
			}
			if got := fmt.Sprint(answers, m.Labelled()["l"], m.Traffic.Revision); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestByHandHoldsUntilThePolicyChanges.
func TestByHandHoldsUntilThePolicyChanges(t *testing.T) {
	m, _ := Model{}.Follow(Manifest{Policy: "latest 1"}, time.Time{})
	m.ByHand = map[int64]ByHand{1: {Loaded: true}}
	if next, changed := m.Follow(Manifest{Policy: "latest 1", Labels: map[string]int64{"l": 1}},
		time.Time{}); changed || !next.ByHand[1].Loaded {
		t.Errorf("with the same policy: %v, %v", next, changed)
	}
	if next, changed := m.Follow(Manifest{Policy: "all"}, time.Time{}); !changed || len(next.ByHand) > 0 {
		t.Errorf("with another policy: %v, %v", next, changed)
	}
	if !m.Label("l", Label{Version: 4}).Names(4) || !m.Divide(to(5)).Names(5) || m.Names(1) ||
		slices.Contains([]bool{m.Names(4), m.Names(5)}, true) {
		t.Error("what is named by traffic or a label")
	}
}

// TestUnbatchedHoldsUntilTheBatchesChange, of each files once, and of the latest of them.
func TestUnbatchedHoldsUntilTheBatchesChange(t *testing.T) {
	says := Manifest{Batching: "b"}
	m, _ := Model{}.Follow(says, time.Time{})
	for n := range maxUnbatched + 2 {
		for again := range 2 {
			var news bool
			m, news = m.Unbatch(Unbatched{Version: 1, Files: strconv.Itoa(n), Batching: "b", Why: "rows meet"})
			if news == (again == 1) {
				t.Fatalf("finding %d: news %v", n, news)
			}
		}
	}
	if next, changed := m.Follow(says, time.Time{}); changed || len(next.Unbatched) != maxUnbatched ||
		next.Unbatched[0].Files != "2" {
		t.Errorf("with the same batches: %v, %d from %v on", changed, len(next.Unbatched), next.Unbatched[0])
	}
	if next, changed := m.Follow(Manifest{Batching: "c"}, time.Time{}); !changed || len(next.Unbatched) > 0 {
		t.Errorf("with other batches: %v, %v", changed, next.Unbatched)
	}
}

// TestWhoTookTheTrafficAway: the manifest where it says nothing any more, and nobody where nobody ever said anything.
func TestWhoTookTheTrafficAway(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	m, _ := Model{}.Follow(Manifest{}, time.Time{})
	if got := *m.Traffic; got.Source != "default" || got.By != "" || !got.At.IsZero() {
		t.Errorf("nobody said anything: %+v", got)
	}
	m, _ = m.Follow(Manifest{Traffic: to(1)}, at)
	m, _ = m.Follow(Manifest{}, at)
	if got := *m.Traffic; got.Source != "default" || got.By != "model.yaml" || got.At != at {
		t.Errorf("taken out of the manifest: %+v", got)
	}
}

// TestInForce reports decisions of run time, and not those of a manifest.
func TestInForce(t *testing.T) {
	m, _ := Model{}.Follow(Manifest{Traffic: to(1), Labels: map[string]int64{"l": 1}}, time.Time{})
	if got := m.InForce(); len(got) > 0 || m.Highest() != 0 {
		t.Errorf("nothing was decided: %v, of version %d", got, m.Highest())
	}
	if m, _ = m.Follow(Manifest{}, time.Time{}); len(m.InForce()) > 0 {
		t.Errorf("nothing was decided: %v", m.InForce())
	}
	decided := to(1, 2)
	decided.By = "me"
	m = m.Divide(decided).RollBack(catalog.RolledBack{Version: 3}).Label("k", Label{Version: 2})
	m.ByHand = map[int64]ByHand{4: {Loaded: true}, 1: {Loaded: true}, 5: {}}
	m.Unbatched = []Unbatched{{Version: 6, Files: "a"}, {Version: 2, Files: "b"}}
	const want = "[split [1: version 1, weight 1 2: version 2, weight 1] shadow [] revision 3 source SetTraffic by " +
		"me " +
		"at 0001-01-01 00:00:00 +0000 UTC " +
		"rolled_back [3] unbatched [6 2] labels map[k:2] loaded_by_hand [1 4] unloaded_by_hand [5]]"
	if got := fmt.Sprint(m.InForce()); got != want || m.Highest() != 5 {
		t.Errorf("%s, of version %d, want\n%s", got, m.Highest(), want)
	}
}
