package structure_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/runtime/proof/structure"
)

// ruleLine is a line of testdata/rules.txt for one operator.
type ruleLine struct {
	want     string
	operator string // ms. and ml. stand for domains
	sketch   string
}

// name is the operator with the whole name of its domain.
func (l ruleLine) name() string {
	return strings.NewReplacer("ms.", "com.microsoft.", "ml.", "ai.onnx.ml.").Replace(l.operator)
}

func ruleLines(t testing.TB) []ruleLine {
	t.Helper()
	raw, err := os.ReadFile("testdata/rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	var lines []ruleLine
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		head, sketch, ok := strings.Cut(line, " : ")
		words := strings.Fields(head)
		if !ok || len(words) < 2 || !slices.Contains([]string{"yes", "no", "unproven"}, words[0]) {
			t.Fatalf("%q is no rule", line)
		}
		for _, op := range words[1:] {
			lines = append(lines, ruleLine{words[0], op, strings.ReplaceAll(sketch, "$", op)})
		}
	}
	return lines
}

// Each rule gives the right verdict on a graph that obeys and on one that does not, and ONNX Runtime agrees.
func TestRules(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 8 seconds on two processors")
	}
	initialise(t)
	for i, line := range ruleLines(t) {
		if race.Enabled && i%8 > 0 {
			continue // one goroutine proves and runs them
		}
		t.Run(line.operator, func(t *testing.T) {
			t.Parallel()
			s, err := sketch.Parse(line.sketch)
			if err != nil {
				t.Fatal(err)
			}
			session, m, err := openModel(t, s.Graph.Marshal())
			if err != nil && line.want != "unproven" {
				t.Fatalf("%s: %v", line.sketch, err)
			}
			v := m.Prove(s.Axes)
			if v.Proven != (line.want == "yes") {
				t.Errorf("%s: proven is %v: %s %s", line.sketch, v.Proven, v.Operator, v.Reason)
			}
			if v.Proven != (v.Reason == "") {
				t.Errorf("%s: reason %q", line.sketch, v.Reason)
			}
			if err != nil {
				return
			}
			defer session.Close()
			axes := v.Outputs
			if line.want != "yes" {
				axes = nil
			}
			found, ran := differs(session, s, 1, 30, axes)
			switch {
			case line.want == "yes" && found != "":
				t.Errorf("%s: %s", line.sketch, found)
			case line.want == "no" && found == "":
				t.Errorf("%s: ONNX Runtime shows no difference in %d trials", line.sketch, ran)
			case line.want == "yes" && ran < 15:
				t.Errorf("%s: only %d trials ran", line.sketch, ran)
			}
		})
	}
}

// What is known of a graph is known wherever it stands: in a function, in graphs of nodes, and in two of those, one in
// the other. ONNX Runtime agrees.
func TestRulesWithin(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	initialise(t)
	for i, line := range ruleLines(t) {
		if race.Enabled && i%8 > 0 {
			continue // one goroutine proves and runs them
		}
		plain := proveSketch(t, line.sketch)
		nested := nestedWrappers()
		for k, wrappers := range nested {
			if (i+k)%3 > 0 && os.Getenv(searchVariable) == "" {
				continue // each rule within a third of them, nightly within all
			}
			s, err := sketch.Parse(line.sketch)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range wrappers {
				s.Graph.Within(w)
			}
			v := readModel(t, s.Graph.Marshal()).Prove(s.Axes)
			// The proof does not tell apart the turns of a loop that a condition chooses between.
			turns := strings.HasPrefix(v.Reason, "which rows its output has depends on its condition") &&
				(slices.Contains(wrappers, "Loop") || slices.Contains(wrappers, "Scan"))
			if (v.Proven != plain.Proven || v.Mixes != plain.Mixes) && !turns {
				t.Errorf("within %v: %s: %+v, want %+v", wrappers, line.sketch, v, plain)
			}
			if k == i%len(nested) {
				runWithin(t, line, wrappers, s, v)
			}
		}
	}
}

// nestedWrappers are all ways to wrap a graph once or twice.
func nestedWrappers() (list [][]string) {
	for _, inner := range onnxgraph.Wrappers {
		list = append(list, []string{inner})
		for _, outer := range onnxgraph.Wrappers {
			list = append(list, []string{inner, outer})
		}
	}
	return list
}

// runWithin has ONNX Runtime run a wrapped rule, if it takes it.
func runWithin(t *testing.T, line ruleLine, wrappers []string, s *sketch.Model, v structure.Verdict) {
	if line.operator == "SimplifiedLayerNormalization" && slices.Contains(wrappers, "function") {
		return // it ends ONNX Runtime's process
	}
	session, _, err := openModel(t, s.Graph.Marshal())
	if err != nil {
		return
	}
	if found, _ := differs(session, s, 1, 10, v.Outputs); v.Proven && found != "" {
		t.Errorf("within %v: %s: %s", wrappers, line.sketch, found)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// A rule without a pair of graphs is not tested, and a test of an operator without a rule is a mistake.
func TestEachRuleHasAPair(t *testing.T) {
	yes, other := map[string]bool{}, map[string]bool{}
	for _, line := range ruleLines(t) {
		if line.want == "yes" {
			yes[line.name()] = true
		} else {
			other[line.name()] = true
		}
	}
	known := map[string]bool{}
	for _, name := range structure.Operators() {
		known[name] = true
		if !other[name] {
			t.Errorf("%s has no graph that breaks its rule", name)
		}
		if !yes[name] && !structure.NeverProven(name) {
			t.Errorf("%s has no graph that obeys its rule", name)
		}
	}
	for _, line := range ruleLines(t) {
		if !known[line.name()] {
			t.Errorf("there is a test of %s, which has no rule", line.name())
		}
	}
}
