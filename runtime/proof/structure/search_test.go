package structure_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/proof/structure"
	"github.com/weftserve/weft/runtime/tensor"
)

// generator makes random sketches out of all operators that have rules, statement by statement: each is kept if ONNX
// Runtime takes it.
type generator struct {
	rng   *rand.Rand
	dir   string
	opset int
	decls []string
	lines []string
	pool  []genValue
	made  int
	trace string // a file that gets each sketch before it runs
	more  []int  // operator sets besides genOpsets

	recipes []recipe
}

// genValue is a value of the sketch, and its shape with 2 and with 3 rows.
type genValue struct {
	name   string
	dtype  tensor.DType
	dims   tensor.Shape
	dims3  tensor.Shape
	shared bool // an input without rows
}

func (v genValue) rank() int { return len(v.dims) }

func (v genValue) String() string { return v.name }

var genOpsets = []int{9, 11, 12, 13, 15, 17, 18, 20, 21, 23}

// start draws the inputs.
func (g *generator) start() {
	all := slices.Concat(genOpsets, g.more)
	g.opset = all[g.rng.IntN(len(all))]
	g.decls, g.lines, g.pool, g.made = nil, nil, nil, 0
	types := []string{"float", "float", "float", "float", "float", "i64", "u8", "bool", "i32", "string"}
	for i := range 1 + g.rng.IntN(3) {
		g.declare(fmt.Sprintf("x%d", i), types[g.rng.IntN(len(types))], g.randomDims(1+g.rng.IntN(4), true))
	}
	for i := range g.rng.IntN(3) {
		g.declare(fmt.Sprintf("w%d", i), types[g.rng.IntN(len(types))], g.randomDims(g.rng.IntN(4), false))
	}
}

func (g *generator) randomDims(rank int, rows bool) []string {
	sizes := []string{"1", "2", "3", "4", "4", "T"}
	var dims []string
	for range rank {
		dims = append(dims, sizes[g.rng.IntN(len(sizes))])
	}
	if rows {
		at := 0
		if g.rng.IntN(3) == 0 {
			at = g.rng.IntN(rank)
		}
		dims[at] = "N"
	}
	return dims
}

func (g *generator) declare(name, dtype string, dims []string) {
	g.decls = append(g.decls, fmt.Sprintf("%s:%s[%s]", name, dtype, strings.Join(dims, ",")))
	v := genValue{name: name, dtype: runTypes[sketch.Types[dtype]], shared: !slices.Contains(dims, "N")}
	for _, d := range dims {
		n, err := strconv.ParseInt(d, 10, 64)
		if err != nil {
			n = 2
		}
		v.dims = append(v.dims, n)
		if d == "N" {
			n = 3
		}
		v.dims3 = append(v.dims3, n)
	}
	g.pool = append(g.pool, v)
}

func (g *generator) text(outs []string) string {
	return fmt.Sprintf("opset %d; %s; %s%s", g.opset, strings.Join(g.decls, " "), strings.Join(g.lines, ""),
		strings.Join(outs, ", "))
}

// open reads a sketch into ONNX Runtime.
func (g *generator) open(text string, wrappers ...string) (*sketch.Model, *ort.Session, *structure.Model, error) {
	if g.trace != "" {
		// ONNX Runtime ends the process on some graphs: this shows which.
		if err := os.WriteFile(g.trace, fmt.Append([]byte(text), wrappers), 0o600); err != nil {
			return nil, nil, nil, err
		}
	}
	s, err := sketch.Parse(text)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, w := range wrappers {
		s.Graph.Within(w)
	}
	path := filepath.Join(g.dir, "model.onnx")
	if err := os.WriteFile(path, s.Graph.Marshal(), 0o600); err != nil {
		return nil, nil, nil, err
	}
	m, err := structure.ReadFile(path)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("cannot be read: %w", err)
	}
	session, err := ort.Open(path, ort.Options{IntraOpThreads: 1})
	return s, session, m, err
}

// add appends a statement that makes so many values, if ONNX Runtime takes it.
func (g *generator) add(expression string, outputs int) bool {
	var names []string
	for i := range outputs {
		names = append(names, fmt.Sprintf("v%d_%d", g.made, i))
	}
	line := strings.Join(names, ", ") + " = " + expression + "; "
	g.lines = append(g.lines, line)
	s, session, _, err := g.open(g.text(names))
	if err == nil {
		err = g.probe(s, session, names)
		session.Close()
	}
	if err != nil {
		if strings.Contains(err.Error(), "parse") {
			panic(err)
		}
		g.lines = g.lines[:len(g.lines)-1]
		return false
	}
	g.made++
	return true
}

// probe learns the shapes of new values.
func (g *generator) probe(s *sketch.Model, session *ort.Session, names []string) error {
	var shapes [2][]tensor.Tensor
	for i, n := range []int{2, 3} {
		r := &trial{s: s, session: session, rng: rand.New(rand.NewPCG(3, 3)), sizes: map[string]int64{"T": 2}}
		share := r.draw(ordinary, nil)
		var members [][]tensor.Tensor
		for range n {
			members = append(members, r.draw(ordinary, share))
		}
		out, err := r.run(members...)
		if err != nil {
			return err
		}
		shapes[i] = out
	}
	for i, name := range names {
		a, b := shapes[0][i], shapes[1][i]
		if len(a.Shape) != len(b.Shape) || len(a.Shape) > 6 || extent(a.Shape) > 3000 {
			return fmt.Errorf("output %s is of no use", name)
		}
	}
	for i, name := range names {
		g.pool = append(g.pool, genValue{
			name: name, dtype: shapes[0][i].DType, dims: shapes[0][i].Shape,
			dims3: shapes[1][i].Shape,
		})
	}
	return nil
}

// tally counts the findings of a search.
type tally struct {
	graphs, proven, refused, independent int
	operators                            map[string]int // in proven graphs
	wrong                                []string
	missed                               map[string]int // by operator in the way
	examples                             map[string]string
}

// search makes so many graphs, and compares the proofs about them with ONNX Runtime's results.
func search(t *testing.T, seed uint64, graphs int) *tally {
	t.Helper()
	initialise(t)
	g := &generator{rng: rand.New(rand.NewPCG(seed, 5)), dir: t.TempDir()}
	g.readRecipes(t)
	c := &tally{operators: map[string]int{}, missed: map[string]int{}, examples: map[string]string{}}
	if os.Getenv(searchVariable) != "" {
		g.trace = filepath.Join(os.TempDir(), fmt.Sprintf("structure-search-%d.txt", seed))
	}
	for c.graphs < graphs {
		g.start()
		for statements := 1 + g.rng.IntN(5); statements > 0; statements-- {
			for range 6 {
				if g.statement() {
					break
				}
			}
		}
		if g.made == 0 {
			continue
		}
		g.judge(t, c)
	}
	return c
}

// prune leaves only the statements that the outputs need: a statement that nobody needs still runs, and may fail
// in a batch.
func (g *generator) prune(outs []string) {
	needed := map[string]bool{}
	for _, out := range outs {
		needed[out] = true
	}
	var lines []string
	for _, line := range slices.Backward(g.lines) {
		names, expression, _ := strings.Cut(line, " = ")
		if !slices.ContainsFunc(strings.Split(names, ", "), func(name string) bool { return needed[name] }) {
			continue
		}
		for _, name := range strings.FieldsFunc(expression,
			func(r rune) bool { return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z') }) {
			needed[name] = true
		}
		lines = append(lines, line)
	}
	slices.Reverse(lines)
	g.lines = lines
}

// wrappers draws what a graph is put into.
func (g *generator) wrappers(text string) (all []string) {
	for g.rng.IntN(3) == 0 && len(all) < 3 {
		all = append(all, onnxgraph.Wrappers[g.rng.IntN(len(onnxgraph.Wrappers))])
	}
	// Some end ONNX Runtime's process: equations that do not fit, and functions with operators of later sets.
	if strings.Contains(text, "LayerNormalization") && slices.Contains(all, "function") {
		return nil
	}
	return all
}

// judge compares one graph.
func (g *generator) judge(t *testing.T, c *tally) {
	var outs []string
	for i := range min(g.made, 1+g.rng.IntN(2)) {
		outs = append(outs, g.pool[len(g.pool)-1-i].name)
	}
	g.prune(outs)
	text := g.text(outs)
	wrappers := g.wrappers(text)
	if strings.Contains(text, "Einsum") && strings.Contains(text, "= Squeeze(") {
		return
	}
	s, session, m, err := g.open(text, wrappers...)
	if err != nil {
		if s == nil {
			t.Fatal(err)
		}
		c.refused++
		return
	}
	text += fmt.Sprint(wrappers)
	defer session.Close()
	c.graphs++
	v := m.Prove(s.Axes)
	times := 6
	axes := v.Outputs
	if !v.Proven {
		axes = nil
	}
	found, ran := differs(session, s, g.rng.Uint64(), times, axes)
	switch {
	case v.Proven && found != "":
		c.wrong = append(c.wrong, text+": "+found)
	case v.Proven:
		c.proven++
		for _, op := range s.Ops {
			c.operators[op]++
		}
	case found == "" && ran > 0:
		c.independent++
		op, _, _ := strings.Cut(v.Operator, " ")
		c.missed[op+": "+v.Reason[:min(50, len(v.Reason))]]++
		c.examples[op+": "+v.Reason[:min(50, len(v.Reason))]] = text
	}
}

func (c *tally) report(t *testing.T) {
	t.Helper()
	t.Logf("%d graphs: %d proven (%d wrong), %d not proven although no difference was found: %.1f %% of those without "+
		"one are proven",
		c.graphs, c.proven, len(c.wrong), c.independent, 100*float64(c.proven)/float64(max(1, c.proven+c.independent)))
	for _, w := range c.wrong {
		t.Errorf("proven, and yet: %s", w)
	}
}

const searchVariable = "WEFT_STRUCTURE_SEARCH"

// The proof is compared with ONNX Runtime on graphs that nobody thought of. WEFT_STRUCTURE_SEARCH=seed,graphs makes the
// search long and logs more of it.
func TestSearch(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	seed, graphs := uint64(1), 100
	if race.Enabled {
		graphs = 40 // one goroutine proves and runs them
	}
	long := os.Getenv(searchVariable)
	if long != "" {
		if _, err := fmt.Sscanf(long, "%d,%d", &seed, &graphs); err != nil {
			t.Fatal(err)
		}
	}
	c := search(t, seed, graphs)
	c.report(t)
	if c.proven < graphs/8 {
		t.Errorf("only %d of %d graphs were proven: the search is of no use", c.proven, graphs)
	}
	if long == "" {
		return
	}
	reasons := slices.Collect(maps.Keys(c.missed))
	slices.SortFunc(reasons, func(a, b string) int { return c.missed[b] - c.missed[a] })
	for _, r := range reasons[:min(25, len(reasons))] {
		t.Logf("%5d missed: %s\n      %s", c.missed[r], r, c.examples[r])
	}
	var unseen []string
	for _, name := range structure.Operators() {
		short := name[strings.LastIndex(name, ".")+1:]
		if c.operators[short] == 0 && !structure.NeverProven(name) {
			unseen = append(unseen, name)
		}
	}
	t.Logf("in no proven graph: %v", unseen)
}
