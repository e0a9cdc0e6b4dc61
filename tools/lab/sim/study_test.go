package sim

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func small(workers int) *Study {
	return &Study{
		Families: Families([]Maker{
			Core(Ours, CoreOptions{}),
			{Name: "fifo", New: func(e *Env) Policy { return &script{env: e, next: inOrder(1)} }},
		}),
		Workloads: []Workload{Suite()[0], Bursts()[0]}, Variants: Families(Variants()[:2]), Scenes: Scenes()[3:5],
		Loads:  []float64{0.5, 2},
		Effort: Effort{Span: time.Second, Seeds: 2, Precision: 0.1}, Workers: workers,
	}
}

// TestFindingsDoNotDependOnWorkers: which runs go on at the same time does not matter.
func TestFindingsDoNotDependOnWorkers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 2 seconds")
	}
	one, many := small(1).Run(), small(5).Run()
	if diff := cmp.Diff(one, many, cmpopts.IgnoreFields(Findings{}, "Study")); diff != "" {
		t.Errorf("findings of one and of five workers differ (-one +five):\n%s", diff)
	}
	for _, family := range one.Study.Families {
		for _, w := range one.Study.Workloads {
			c := one.Carried[Pair{family.Name, w.Name}]
			if c.G99 == 0 || len(c.Curve) != 2 || c.Curve[0] < c.Curve[1] {
				t.Errorf("%s on %s: %+v", family.Name, w.Name, c)
			}
		}
	}
}

func TestMarkdown(t *testing.T) {
	s := small(1)
	s.Workloads = []Workload{{Name: "a", About: "first"}, {Name: "b", About: "second"}}
	s.Scenes = []Scene{{Name: "crowd", About: "many", Group: Adversity, Isolation: true}}
	s.Families = append(s.Families, Family{Name: FamilyNexus, Members: []Maker{{Name: "one"}, {Name: "other"}}})
	f := Findings{
		Study: s,
		Carried: map[Pair]Carried{
			{Ours, "a"}: {G99: 1}, {Ours, "b"}: {G99: 1},
			{"fifo", "a"}: {G99: 0.5}, {"fifo", "b"}: {G99: 0.8},
			{FamilyNexus, "a"}:         {G99: 0.4, Tuned: []string{"one"}},
			{FamilyNexus, "b"}:         {G99: 0.9, Tuned: []string{"one", "one", "other"}},
			{"least slack first", "a"}: {G99: 0.5}, {"least slack first", "b"}: {G99: 0.5},
			{"no shares", "a"}: {}, {"no shares", "b"}: {G99: 1},
		},
		Scenes: map[Pair]Seen{
			{Ours, "crowd"}: {Watched: 0.9876, Wasted: 0.012}, {"fifo", "crowd"}: {Watched: 0.5},
			{FamilyNexus, "crowd"}:         {Watched: 0.25, Policy: "other"},
			{"least slack first", "crowd"}: {Watched: 0.75}, {"no shares", "crowd"}: {Watched: 0.25},
		},
	}
	var b bytes.Buffer
	if err := f.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| policy | a | b | geomean: weft / it | worst: weft / it |\n|---|--:|--:|--:|--:|\n| weft | 1.00 | 1.00 | " +
			"1.00 | 1.00 |\n" +
			"| fifo | 0.50 | 0.80 | 1.58 | 1.25 |\n" +
			"| Nexus | 0.40 | 0.90 | 1.67 | 1.11 |\n| the best of the others | 0.50 | 0.90 | 1.49 | 1.11 |\n\n- **a**",
		"| weft / | a | b | geomean | worst |\n|---|--:|--:|--:|--:|\n| Nexus | 2.50 | 1.11 | 1.67 | 1.11 |\n" +
			"| the best of the others | 2.00 | 1.11 | 1.49 | 1.11 |\n\n- **Nexus**: round robin",
		"| workload or scene | Nexus |\n|---|---|\n| a | one |\n| b | one, one, other |\n| crowd | other |\n",
		"\n- **a**: first.\n- **b**: second.\n",
		"| least slack first | 0.50 | 0.50 | 0.50 |\n| no shares | 0.00 | 1.00 | - |\n",
		"| variant | crowd |\n|---|--:|\n| weft | 0.988 |\n| least slack first | 0.750 |\n| no shares | 0.250 " +
			"|\n",
		"| policy | crowd |\n|---|--:|\n| weft | 0.988 |\n| fifo | 0.500 |\n| Nexus | 0.250 |\n\n- **crowd**: many.\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no\n%s\nin\n%s", want, &b)
		}
	}
	if err := f.Markdown(broken{}); !errors.Is(err, errBroken) {
		t.Errorf("error %v of a writer that fails", err)
	}
}

type broken struct{}

var errBroken = errors.New("broken")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

// TestScenes: the flows that should not suffer are in the scene, and ask for no more than their share.
func TestScenes(t *testing.T) {
	for _, s := range Scenes() {
		p := Maker{Name: "fifo", New: func(e *Env) Policy { return &script{env: e, next: inOrder(1)} }}
		r := s.Workload.Play(&p, s.Load, 5*time.Second, 1)
		watched := s.watch(r, 5*time.Second)
		total := r.Total()
		if watched.Offered == 0 || (s.Watched != nil || s.From != nil) == (watched.Offered == total.Offered) {
			t.Errorf("%s: %d of %d requests are watched", s.Name, watched.Offered, total.Offered)
		}
		modest := InShare(s.Workload.Models, r)
		for i := range s.Workload.Models {
			if s.Watched != nil && s.Watched(&s.Workload.Models[i]) && !modest[i] {
				t.Errorf("%s: %s asks for more than its share and should not suffer", s.Name, s.Workload.Models[i].Name)
			}
		}
	}
}

func TestRatios(t *testing.T) {
	if mean, worst := ratios([]float64{1, 8, 1}, []float64{2, 2, 1}); mean != "1.26" || worst != "0.50" {
		t.Errorf("geometric mean %s, least %s; want 1.26 and 0.50", mean, worst)
	}
	if mean, worst := ratios([]float64{1, 0}, []float64{2, 2}); mean != "-" || worst != "-" {
		t.Errorf("with a zero: %s and %s", mean, worst)
	}
}
