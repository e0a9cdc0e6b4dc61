package app

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// statefulModels are the settings of the models that steps of random pipelines are, by name. Each takes x and gives y
// and the number g.
var statefulModels = map[string]string{
	"plain": "{}",
	"rec":   "state: {pairs: [{input: h, output: hn}], initial: {h: 0.25}}",
	"tall":  "state: {pairs: [{input: h, output: hn}], initial: {h: h0.json}}", // its rows are along dimension 1
	"told":  "state: {pairs: [{input: h, output: hn}], start: first}",
	"stack": "state: {windows: [{input: past, of: x, steps: 3}]}",
}

// tallBegins is what h of tall is in the first step.
var tallBegins = []float32{0.5, -0.5, 0.125}

func statefulModel(kind string) []byte {
	rng := rand.New(rand.NewPCG(uint64(kind[0]), uint64(len(kind))))
	g := onnxgraph.New(kind).Input("x", onnxgraph.Float, "N", 2)
	all, width := []string{"x"}, int64(2)
	add := func(name string, n int64) { all, width = append(all, name), width+n }
	switch kind {
	case "rec", "told":
		g.Input("h", onnxgraph.Float, "N", 3)
		add("h", 3)
	case "tall":
		g.Input("h", onnxgraph.Float, 1, "N", 3).InitInt64s("axis", []int64{1}, 0)
		g.Node("Squeeze", []string{"h", "axis"}, []string{"flat"})
		add("flat", 3)
	case "stack":
		g.Input("past", onnxgraph.Float, "N", 3, 2)
		g.Node("Flatten", []string{"past"}, []string{"flat"}, onnxgraph.IntAttr("axis", 1))
		add("flat", 6)
	}
	if kind == "told" {
		g.Input("first", onnxgraph.Float, "N", 1)
		add("first", 1)
	}
	random := func(name string, shape ...int64) {
		values := make([]float32, shape[0]*shape[1])
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		g.InitFloats(name, shape, values...)
	}
	random("w", width, 3)
	random("b", 1, 3)
	random("v", 3, 2)
	random("u", 3, 1)
	g.Node("Concat", all, []string{"all"}, onnxgraph.IntAttr("axis", 1))
	g.Node("Gemm", []string{"all", "w", "b"}, []string{"sum"}).Node("Tanh", []string{"sum"}, []string{"new"})
	g.Node("MatMul", []string{"new", "v"}, []string{"y"}).Node("MatMul", []string{"new", "u"}, []string{"g"})
	g.Output("y", onnxgraph.Float, "N", 2).Output("g", onnxgraph.Float, "N", 1)
	switch kind {
	case "rec", "told":
		g.Node("Identity", []string{"new"}, []string{"hn"}).Output("hn", onnxgraph.Float, "N", 3)
	case "tall":
		g.Node("Unsqueeze", []string{"new", "axis"}, []string{"hn"}).Output("hn", onnxgraph.Float, 1, "N", 3)
	}
	return g.Marshal()
}

// drawStateful returns a random pipeline, and the settings of its model. Some states are wired by hand.
func drawStateful(rng *rand.Rand) (pipeline, settings string) {
	var steps, outputs, defaults, pairs []string
	n := 2 + rng.IntN(4)
	conditional, used := make([]bool, n), make([]bool, n)
	staged := rng.IntN(2) == 0
	for i := range n {
		inputs, more, from := "x: x", "", -1
		if i > 0 && rng.IntN(4) > 0 {
			from = rng.IntN(i)
			inputs, used[from], conditional[i] = fmt.Sprintf("x: s%d.y", from), true, conditional[from]
		}
		if i > 0 && staged && rng.IntN(2) == 0 {
			at := rng.IntN(i)
			used[at], conditional[i] = true, true
			more = fmt.Sprintf(", when: {output: s%d.g, %s: %.2f}", at, []string{"above", "below"}[rng.IntN(2)],
				rng.NormFloat64())
		}
		kinds := []string{"plain", "rec", "rec", "tall", "tall"}
		if !conditional[i] {
			kinds = append(kinds, "told", "told")
		}
		if !conditional[i] && from < 0 {
			kinds = append(kinds, "stack", "stack")
		}
		kind := kinds[rng.IntN(len(kinds))]
		recurrent := kind == "rec" || kind == "tall"
		if rng.IntN(4) == 0 && (recurrent || kind == "plain") {
			more += fmt.Sprintf(", repeat: %d, carry: {x: y", 2+rng.IntN(2))
			if recurrent {
				more += ", h: hn"
			}
			more += "}"
		}
		if recurrent && rng.IntN(5) == 0 {
			inputs += fmt.Sprintf(", h: hand%d", i)
			pairs = append(pairs, fmt.Sprintf("{input: hand%d, output: next%d}", i, i))
			outputs = append(outputs, fmt.Sprintf("next%d: s%d.hn", i, i))
			if conditional[i] {
				defaults = append(defaults, fmt.Sprintf("next%d: hand%d", i, i))
			}
		}
		steps = append(steps, fmt.Sprintf("- {name: s%d, model: %s, version: 1, inputs: {%s}%s}\n", i, kind, inputs, more))
	}
	for i := range n {
		if !used[i] || rng.IntN(2) == 0 {
			if outputs = append(outputs, fmt.Sprintf("o%d: s%d.y", i, i)); conditional[i] {
				defaults = append(defaults, fmt.Sprintf("o%d: %d", i, -i))
			}
		}
	}
	pipeline = fmt.Sprintf("steps:\n%soutputs: {%s}\njoined: %v\n", strings.Join(steps, ""), strings.Join(outputs, ", "),
		!staged)
	if len(defaults) > 0 {
		pipeline += fmt.Sprintf("defaults: {%s}\n", strings.Join(defaults, ", "))
	}
	settings = "max_latency: 0s\n"
	if len(pairs) > 0 {
		settings += fmt.Sprintf("state: {pairs: [%s]}\n", strings.Join(pairs, ", "))
	}
	return pipeline, settings
}

// carried are the states of a pipeline's steps, by step and input, as its client would carry them.
type carried struct {
	*modelrepo.Pipeline
	states, inputs named // inputs are those of this request, with the states before it
	begins         bool
}

func floatRows(shape []int64, row ...float32) *tensorData {
	d := &tensorData{datatype: "FP32", shape: shape}
	for range rows {
		for _, v := range row {
			d.raw = binary.LittleEndian.AppendUint32(d.raw, math.Float32bits(v))
		}
	}
	return d
}

func (c *carried) state(name string, begins *tensorData) *tensorData {
	if c.states[name] == nil {
		c.states[name], c.inputs[name] = begins, begins
	}
	return c.states[name]
}

// name is what the state h of a step is called as an input of the pipeline.
func (c *carried) name(s *modelrepo.Step) string {
	for i := range c.Steps {
		if wired := c.Steps[i].Inputs["h"]; wired != "" && c.Steps[i].Name == s.Name {
			return wired
		}
	}
	return s.Name + ".h"
}

func (c *carried) before(s *modelrepo.Step, in named) {
	switch s.Model {
	case "rec":
		begin := float32(0.25)
		if s.Inputs["h"] != "" {
			begin = 0
		}
		in["h"] = c.state(c.name(s), floatRows([]int64{rows, 3}, begin, begin, begin))
	case "told":
		in["h"] = c.state(c.name(s), floatRows([]int64{rows, 3}, 0, 0, 0))
		in["first"] = floatRows([]int64{rows, 1}, 0)
		if c.begins {
			in["first"] = floatRows([]int64{rows, 1}, 1)
		}
	case "tall":
		begin := tallBegins
		if s.Inputs["h"] != "" {
			begin = make([]float32, 3)
		}
		in["h"] = c.state(c.name(s), floatRows([]int64{1, rows, 3}, begin...))
	case "stack":
		past := c.state(s.Name+".past", floatRows([]int64{rows, 3, 2}, 0, 0, 0, 0, 0, 0))
		next := &tensorData{datatype: "FP32", shape: past.shape}
		for i := range rows {
			next.raw = append(append(next.raw, past.row(i)[8:]...), c.inputs["x"].row(i)...)
		}
		in["past"], c.states[s.Name+".past"] = next, next
	}
}

func (c *carried) after(s *modelrepo.Step, out named, left [rows]bool) {
	if out["hn"] == nil {
		return
	}
	before, next := c.states[c.name(s)], *out["hn"]
	next.raw = bytes.Clone(next.raw)
	for i, left := range left {
		if left {
			copy(next.row(i), before.row(i))
		}
	}
	c.states[c.name(s)] = &next
}

// TestStatefulSteps has random pipelines, joined and stepwise, with states of steps that their files do not name: each
// step of an episode is answered as the models answer one after the other, with the states carried by hand.
func TestStatefulSteps(t *testing.T) {
	root := t.TempDir()
	put := func(name string, content []byte) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for kind, settings := range statefulModels {
		put(kind+"/1/model.onnx", statefulModel(kind))
		put(kind+"/model.yaml", []byte(settings))
	}
	put("tall/h0.json", fmt.Appendf(nil, "[[%v, %v, %v]]", tallBegins[0], tallBegins[1], tallBegins[2]))
	pipelines := weftest.Times(12, 100)
	texts := make([]string, pipelines)
	for i := range texts {
		pipeline, settings := drawStateful(rand.New(rand.NewPCG(uint64(i), 47)))
		put(fmt.Sprintf("p%d/1/pipeline.yaml", i), []byte(pipeline))
		put(fmt.Sprintf("p%d/model.yaml", i), []byte(settings))
		texts[i] = pipeline
	}
	r := serveFrom(t, root, nil)
	r.awaitReady(t)
	var all sync.WaitGroup
	for i, text := range texts {
		all.Go(func() {
			p, err := modelrepo.ReadPipeline("pipeline.yaml", []byte(text))
			if err == nil {
				err = (&statefulEpisode{
					carried: carried{Pipeline: p, states: named{}, begins: true}, r: r, model: fmt.Sprintf("p%d", i),
					rng: rand.New(rand.NewPCG(uint64(i), 48)),
				}).run(t.Context())
			}
			if err != nil {
				t.Errorf("p%d: %v\n%s", i, err, text)
			}
		})
	}
	all.Wait()
}

// statefulEpisode is an episode of a pipeline.
type statefulEpisode struct {
	carried
	r     *running
	model string
	rng   *rand.Rand
}

func (e *statefulEpisode) run(ctx context.Context) error {
	for n := range uint64(8) {
		if err := e.step(ctx, n+1); err != nil {
			return fmt.Errorf("step %d: %w", n+1, err)
		}
	}
	return nil
}

// step does a step, which may be given up and sent again, in the episode; or in another one, from what was carried.
func (e *statefulEpisode) step(ctx context.Context, n uint64) error {
	x := floatRows([]int64{rows, 2}, 0, 0)
	for i := 0; i < len(x.raw); i += 4 {
		binary.LittleEndian.PutUint32(x.raw[i:], math.Float32bits(float32(e.rng.NormFloat64())))
	}
	q := &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: e.model}, EpisodeId: "one", Step: n, BeginEpisode: n == 1,
		Inputs: map[string]*weftv1.Tensor{}, OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
	}
	e.inputs = maps.Clone(e.states)
	e.inputs["x"] = x
	want, err := chain(ctx, e.r.conn, e.Pipeline, e.inputs, e)
	if err != nil {
		return err
	}
	e.begins = false
	for name, value := range e.states { // a client that wants the states names them
		if output := strings.TrimSuffix(name, ".h") + ".hn"; output != name+".hn" {
			want[output] = value
		} else if hand, is := strings.CutPrefix(name, "hand"); is {
			want["next"+hand] = value
		}
	}
	for name := range want {
		q.Outputs = append(q.Outputs, name)
	}
	q.Inputs["x"] = wire(x)
	if n > 1 && e.rng.IntN(4) == 0 { // it goes on elsewhere
		q.EpisodeId, q.BeginEpisode = fmt.Sprintf("from step %d", n), true
		for name, value := range e.inputs {
			if !strings.HasSuffix(name, ".past") { // that has the present x, too
				q.Inputs[name] = wire(value)
			}
		}
		for name, value := range e.states {
			if strings.HasSuffix(name, ".past") {
				q.Inputs[name] = wire(value)
			}
		}
		if _, err := e.ask(ctx, q, want); err != nil {
			return err
		}
		q.EpisodeId, q.BeginEpisode, q.Inputs = "one", false, map[string]*weftv1.Tensor{"x": wire(x)}
	}
	for n := e.rng.IntN(4); n > 2; n-- {
		short, cancel := context.WithTimeout(ctx, time.Duration(e.rng.IntN(3000))*time.Microsecond)
		_, _ = weftv1.NewPredictionServiceClient(e.r.conn).Predict(short, q)
		cancel()
	}
	first, err := e.ask(ctx, q, want)
	if err != nil || e.rng.IntN(3) > 0 {
		return err
	}
	again, err := e.ask(ctx, q, want)
	for name := range want {
		if err == nil && !bytes.Equal(first.GetOutputs()[name].GetRaw(), again.GetOutputs()[name].GetRaw()) {
			err = fmt.Errorf("%s has two answers", name)
		}
	}
	return err
}

func wire(d *tensorData) *weftv1.Tensor {
	return &weftv1.Tensor{Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: d.shape, Raw: d.raw}
}

func (e *statefulEpisode) ask(ctx context.Context, q *weftv1.PredictRequest, want named,
) (a *weftv1.PredictResponse, err error) {
	client := weftv1.NewPredictionServiceClient(e.r.conn)
	for {
		if a, err = client.Predict(ctx, q); status.Code(err) == codes.ResourceExhausted {
			continue
		}
		if err != nil {
			return nil, err
		}
		for name, w := range want {
			got := a.GetOutputs()[name]
			if !alike(&tensorData{datatype: "FP32", raw: got.GetRaw()}, w) || len(got.GetRaw()) != len(w.raw) {
				return nil, fmt.Errorf("%s of episode %s is %v, want %v", name, q.GetEpisodeId(), got.GetRaw(), w.raw)
			}
		}
		return a, nil
	}
}

// TestStatefulStepsAreReplaced: when the files of a step change, an episode of its pipeline is lost, begins anew or
// goes on, as on_version_change of the pipeline says, or else of the step; with other settings of the step it goes on.
func TestStatefulStepsAreReplaced(t *testing.T) {
	s := &swap{t: t, repo: t.TempDir()}
	step := func(says float32) { // adds up x, and says
		g := onnxgraph.New("sum").Input("x", onnxgraph.Float, "N", 1).Input("h", onnxgraph.Float, "N", 1)
		g.InitFloats("own", nil, says).Node("Add", []string{"x", "h"}, []string{"sum"})
		g.Node("Add", []string{"sum", "own"}, []string{"y"}).Node("Identity", []string{"y"}, []string{"hn"})
		g.Output("y", onnxgraph.Float, "N", 1).Output("hn", onnxgraph.Float, "N", 1)
		s.put("m", 1, modelrepo.ModelFile, g.Marshal())
	}
	step(0)
	weftest.SetManifest(t, s.repo, "m", "state: {pairs: [{input: h, output: hn}]}")
	of := map[string]string{
		"refuse": "{}", "reset": "state: {on_version_change: reset}", "carry": "state: {on_version_change: carry}",
	}
	var pipelines []string
	for change, settings := range of {
		for _, joined := range []bool{true, false} {
			name := fmt.Sprintf("%s_%v", change, joined)
			pipelines = append(pipelines, name)
			s.put(name, 1, modelrepo.PipelineFile, fmt.Appendf(nil, "steps:\n"+
				"- {name: a, model: m, version: 1, inputs: {x: x}}\noutputs: {y: a.y}\njoined: %v\n", joined))
			weftest.SetManifest(t, s.repo, name, settings)
		}
	}
	r := serveFrom(t, s.repo, func(a *App) { a.WatchInterval = config.Duration(20 * time.Millisecond) })
	r.awaitReady(t)
	ask := func(model, episode string, begin bool) (float32, error) {
		x := &tensorData{shape: []int64{1, 1}, raw: binary.LittleEndian.AppendUint32(nil, math.Float32bits(1))}
		a, err := weftv1.NewPredictionServiceClient(r.conn).Predict(t.Context(), &weftv1.PredictRequest{
			Model: &weftv1.ModelSpec{Name: model}, EpisodeId: episode, BeginEpisode: begin,
			Inputs:         map[string]*weftv1.Tensor{"x": wire(x)},
			OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
		})
		if err != nil {
			return 0, err
		}
		return math.Float32frombits(binary.LittleEndian.Uint32(a.GetOutputs()["y"].GetRaw())), nil
	}
	begins := 0
	until := func(want float32) { // new episodes begin so
		t.Helper()
		for _, model := range pipelines {
			weftest.Until(t, model, func() bool {
				begins++
				y, err := ask(model, fmt.Sprint("begins ", begins), true)
				return err == nil && y == want
			})
		}
	}
	expect := func(want map[string]float32) {
		t.Helper()
		for _, model := range pipelines {
			change, _, _ := strings.Cut(model, "_")
			y, err := ask(model, "one", false)
			if w := want[change]; y != w || w == 0 && status.Code(err) != codes.NotFound || w != 0 && err != nil {
				t.Errorf("%s: %v, %v; want %v", model, y, err, w)
			}
		}
	}
	for _, model := range pipelines {
		if y, err := ask(model, "one", true); y != 1 || err != nil {
			t.Fatalf("%s: %v, %v", model, y, err)
		}
	}
	weftest.SetManifest(t, s.repo, "m", "state: {pairs: [{input: h, output: hn}], initial: {h: 5}}")
	until(6)
	expect(map[string]float32{"refuse": 2, "reset": 2, "carry": 2})
	step(100)
	until(106)
	expect(map[string]float32{"reset": 106, "carry": 103})
}
