//go:build linux

package hunt

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph/sketch"
)

// huntVariable asks for a hunt: seed,seconds. What it finds is printed as lines of
// internal/poison/testdata/poisons.txt.
const huntVariable = "WEFT_POISON_HUNT"

// TestHunt looks for poisons.
func TestHunt(t *testing.T) {
	asked := os.Getenv(huntVariable)
	if asked == "" {
		t.Skip(huntVariable + "=seed,seconds hunts for poisons")
	}
	var seed uint64
	var seconds int
	if _, err := fmt.Sscanf(asked, "%d,%d", &seed, &seconds); err != nil {
		t.Fatal(err)
	}
	r := &runner{t: t}
	defer r.close()
	d := &drawing{rng: rand.New(rand.NewPCG(seed, 1))}
	ran, answers := map[string]int{}, map[string]int{}
	why := map[string]string{}
	found := map[string]int{}
	total := 0
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); total++ {
		c, template := d.candidate()
		e := r.try(c)
		ran[template]++
		switch {
		case e.Where == "parse":
			t.Fatalf("%+v: %s", c, e.Text)
		case e.Kind == answered && e.Bytes < largeAnswer:
			answers[template]++
			continue
		case e.Kind == failed:
			why[template] = e.Where + ": " + e.Text
			continue
		case e.Kind == answered:
			e.Kind = large
		}
		answers[template]++
		key := e.Kind + e.Where + template
		if found[key]++; found[key] <= 3 {
			fmt.Printf("\n%s %s %s\n\t%s\n\t%s\n# %.200s\n", "found", e.Kind, e.Where, c.Sketch, c.Inputs, e.Text)
		}
	}
	t.Logf("%d candidates", total)
	for _, template := range slices.Sorted(maps.Keys(ran)) {
		if answers[template] == 0 {
			t.Logf("never answered in %d: %s: %s", ran[template], template,
				strings.Join(strings.Fields(why[template]), " "))
		}
	}
}

// TestTemplates: each template makes models and requests that can be read, and that ONNX can hold.
func TestTemplates(t *testing.T) {
	d := &drawing{rng: rand.New(rand.NewPCG(1, 1))}
	drawn := map[string]bool{}
	for range 4 * len(templates) {
		c, template := d.candidate()
		drawn[template] = true
		m, err := sketch.Parse(c.Sketch)
		if err != nil {
			t.Fatal(err)
		}
		values, err := sketch.ParseValues(c.Inputs)
		if err != nil {
			t.Fatal(err)
		}
		if len(values) != len(m.Inputs) || len(m.Graph.Marshal()) == 0 {
			t.Errorf("%+v: %d values for %d inputs", c, len(values), len(m.Inputs))
		}
	}
	if len(drawn) < len(templates)*8/10 {
		t.Errorf("only %d of %d templates were drawn", len(drawn), len(templates))
	}
}

// TestTable runs each poison of internal/poison by itself, without a server, and compares its end with the table.
func TestTable(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a process for each")
	}
	table, err := os.ReadFile("../../../internal/poison/testdata/poisons.txt")
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{t: t}
	defer r.close()
	comment := regexp.MustCompile(`(?m)^#.*\n`)
	for block := range strings.SplitSeq(comment.ReplaceAllString(string(table), ""), "\n\n") {
		lines := strings.Split(strings.TrimSpace(block), "\n")
		if len(lines) < 2 {
			continue
		}
		head, c := strings.Fields(lines[0]), candidate{Sketch: strings.TrimSpace(lines[1])}
		if len(lines) > 2 {
			c.Inputs = strings.TrimSpace(lines[2])
		}
		name, kind, where := head[0], head[1], head[2]
		e := r.try(c)
		if e.Kind == answered && e.Bytes >= largeAnswer {
			e.Kind = large
		}
		much := []string{hung, memory, large} // a machine may show these for each other
		alike := e.Kind == kind || (kind == memory || kind == large) && slices.Contains(much, e.Kind)
		if !alike || e.Where != where {
			t.Errorf("%s: %s by %s, the table has %s by %s: %s", name, e.Kind, e.Where, kind, where, e.Text)
		}
	}
}
