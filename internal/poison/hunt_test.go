//go:build linux

package poison

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph/sketch"
)

// huntVariable asks for a hunt: seed,seconds. What it finds is printed as lines of testdata/poisons.txt.
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
