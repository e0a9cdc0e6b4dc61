package app

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// named are tensors of the Open Inference Protocol by name.
type named map[string]*tensorData

type tensorData struct {
	datatype string
	shape    []int64
	raw      []byte
	filled   int // rows
}

// rows is how many each input has.
const rows = 3

// row returns the bytes of one row.
func (d *tensorData) row(i int) []byte {
	n := len(d.raw) / rows
	return d.raw[i*n:][:n]
}

// fill sets all elements of a row. It panics if the number is none.
func (d *tensorData) fill(row int, number string) {
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		panic(err)
	}
	element := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(value)))
	if d.datatype == "INT64" {
		element = binary.LittleEndian.AppendUint64(nil, uint64(int64(value)))
	}
	to := d.row(row)
	copy(to, bytes.Repeat(element, len(to)/len(element)))
	d.filled++
}

// infer asks a version of a model for all of its outputs.
func infer(ctx context.Context, conn grpc.ClientConnInterface, model string, version int64, inputs named,
) (named, error) {
	q := &inference.ModelInferRequest{ModelName: model}
	if version > 0 {
		q.ModelVersion = strconv.FormatInt(version, 10)
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		in := inputs[name]
		q.Inputs = append(q.Inputs, &inference.ModelInferRequest_InferInputTensor{
			Name: name, Datatype: in.datatype, Shape: in.shape,
		})
		q.RawInputContents = append(q.RawInputContents, in.raw)
	}
	answer, err := inference.NewGRPCInferenceServiceClient(conn).ModelInfer(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("%s/%d: %w", model, version, err)
	}
	outputs := named{}
	for i, out := range answer.GetOutputs() {
		outputs[out.GetName()] = &tensorData{
			datatype: out.GetDatatype(), shape: out.GetShape(), raw: answer.GetRawOutputContents()[i],
		}
	}
	return outputs, nil
}

// randomInputs makes rows for each input of a model. Other open dimensions get a size of 20.
func randomInputs(ctx context.Context, conn grpc.ClientConnInterface, model string) (named, error) {
	client := inference.NewGRPCInferenceServiceClient(conn)
	about, err := client.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: model})
	if err != nil {
		return nil, err
	}
	rng, inputs := rand.New(rand.NewPCG(1, 0)), named{}
	for _, in := range about.GetInputs() {
		data := &tensorData{datatype: in.GetDatatype(), shape: slices.Clone(in.GetShape())}
		size := int64(1)
		for i, n := range data.shape {
			if n < 0 {
				data.shape[i] = 20
			}
			if i == 0 {
				data.shape[i] = rows
			}
			size *= data.shape[i]
		}
		for range size {
			switch data.datatype {
			case "FP32":
				data.raw = binary.LittleEndian.AppendUint32(data.raw, math.Float32bits(2*rng.Float32()-1))
			case "UINT8":
				data.raw = append(data.raw, byte(rng.Uint32()))
			default:
				return nil, fmt.Errorf("input %s is %s", in.GetName(), data.datatype)
			}
		}
		inputs[in.GetName()] = data
	}
	return inputs, nil
}

// byHand carries the states of steps: before adds the inputs that a step's file does not name, and after hears what it
// gave, and for which rows it did not run.
type byHand interface {
	before(s *modelrepo.Step, in named)
	after(s *modelrepo.Step, out named, left [rows]bool)
}

// chain asks the steps of a pipeline one after the other, all rows of them, and puts defaults into the rows that a
// condition leaves out. state may be nil.
func chain(ctx context.Context, conn grpc.ClientConnInterface, p *modelrepo.Pipeline, inputs named, state byHand,
) (named, error) {
	values, outputs := maps.Clone(inputs), named{}
	out := map[string][rows]bool{} // the rows that are left out, by step
	for _, s := range p.Steps {
		in, left := named{}, [rows]bool{}
		leave := func(from string) {
			step, _, _ := p.StepOf(from)
			for row := range left {
				left[row] = left[row] || out[step][row]
			}
		}
		for name, from := range s.Inputs {
			in[name] = values[from]
			leave(from)
		}
		if s.When != nil {
			leave(s.When.Output)
			for row := range left {
				bits := binary.LittleEndian.Uint32(values[s.When.Output].row(row))
				left[row] = left[row] || !s.When.Passes(float64(math.Float32frombits(bits)))
			}
		}
		out[s.Name] = left
		if state != nil {
			state.before(&s, in)
		}
		var gives named
		for range s.Repeat {
			var err error
			if gives, err = infer(ctx, conn, s.Model, s.Version, in); err != nil {
				return nil, err
			}
			for input, output := range s.Carry {
				in[input] = gives[output]
			}
			for name, value := range gives {
				values[s.Name+"."+name] = value
			}
		}
		if state != nil {
			state.after(&s, gives, left)
		}
	}
	for name, from := range p.Outputs {
		outputs[name] = values[from]
		step, _, _ := p.StepOf(from)
		for row, left := range out[step] {
			if in := inputs[string(p.Defaults[name])]; left && in != nil {
				copy(outputs[name].row(row), in.row(row))
			} else if left {
				outputs[name].fill(row, string(p.Defaults[name]))
			}
		}
	}
	return outputs, nil
}

// chained compares the newest version of a pipeline with its steps.
func (s *script) chained(args []string) (string, error) {
	repository, err := modelrepo.Open(s.MkAbs(args[0]))
	s.Check(err)
	ctx := s.t.Context()
	var p *modelrepo.Pipeline
	for _, m := range repository.Scan().Models {
		if m.Name == args[1] && len(m.Selected) > 0 {
			p = m.Selected[len(m.Selected)-1].Pipeline
		}
	}
	if p == nil {
		return "", fmt.Errorf("%s has no pipeline %s", args[0], args[1])
	}
	inputs, err := randomInputs(ctx, s.r.conn, args[1])
	if err != nil {
		return "", err
	}
	got, err := infer(ctx, s.r.conn, args[1], 0, inputs)
	if err != nil {
		return "", err
	}
	want, err := chain(ctx, s.r.conn, p, inputs, nil)
	if err != nil {
		return "", err
	}
	var said strings.Builder
	for _, name := range slices.Sorted(maps.Keys(want)) {
		g, w := got[name], want[name]
		if g == nil || g.datatype != w.datatype || !slices.Equal(g.shape, w.shape) || !alike(g, w) {
			return "", fmt.Errorf("output %s is %v, and %v by the steps", name, g, w)
		}
		fmt.Fprintf(&said, "%s %s %v", name, g.datatype, g.shape)
		if w.filled > 0 {
			fmt.Fprintf(&said, ", %d left out", w.filled)
		}
		fmt.Fprintln(&said)
	}
	return said.String(), nil
}

// alike reports whether two tensors of one type and shape have the same elements, but for the order of sums: ONNX
// Runtime may fuse nodes of two steps.
func alike(a, b *tensorData) bool {
	if a.datatype != "FP32" {
		return bytes.Equal(a.raw, b.raw)
	}
	for i := 0; i < len(a.raw); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(a.raw[i:]))
		y := math.Float32frombits(binary.LittleEndian.Uint32(b.raw[i:]))
		if !(math.Abs(float64(x-y)) <= 1e-5*max(1, math.Abs(float64(y)))) {
			return false
		}
	}
	return true
}

// swap is a repository whose models "eye" and "hand" answer with their own numbers, so that an answer of their pipeline
// tells which versions made it.
type swap struct {
	t      *testing.T
	repo   string
	joined bool

	mu sync.Mutex
	// named has what the versions of the pipeline may answer. Guarded by mu.
	named map[string][][2]float32
	// newest is the version that answered last. Guarded by mu.
	newest string
}

// put puts a file into the repository, as a whole.
func (s *swap) put(model string, number int, name string, data []byte) {
	s.t.Helper()
	made := s.t.TempDir()
	version := filepath.Join(s.repo, model, strconv.Itoa(number))
	err := errors.Join(os.WriteFile(filepath.Join(made, name), data, 0o600),
		os.MkdirAll(filepath.Dir(version), 0o755))
	if _, there := os.Stat(version); there == nil {
		err = errors.Join(err, os.Rename(filepath.Join(made, name), filepath.Join(version, name)))
	} else {
		err = errors.Join(err, os.Rename(made, version))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// step puts a version of a model there that adds a number to the row.
func (s *swap) step(model string, number int, says float32) {
	s.t.Helper()
	g := onnxgraph.New(model).Input("x", onnxgraph.Float, "N", nil).Output("y", onnxgraph.Float, "N", nil)
	g.InitFloats("zero", nil, 0).InitFloats("own", nil, says).InitInt64s("first", []int64{1}, 0)
	g.InitInt64s("column", []int64{1}, 1)
	g.Node("Slice", []string{"x", "first", "column", "column"}, []string{"one"})
	g.Node("Mul", []string{"one", "zero"}, []string{"nothing"})
	g.Node("Add", []string{"nothing", "own"}, []string{"number"})
	g.Node("Concat", []string{"x", "number"}, []string{"y"}, onnxgraph.IntAttr("axis", 1))
	s.put(model, number, modelrepo.ModelFile, g.Marshal())
}

// pipeline puts a version of the pipeline there.
func (s *swap) pipeline(number, eye, hand int, says float32) {
	s.t.Helper()
	s.name(number, says, float32(hand))
	s.put("policy", number, modelrepo.PipelineFile, fmt.Appendf(nil, "steps:\n"+
		"- {name: see, model: eye, version: %d, inputs: {x: x}}\n"+
		"- {name: act, model: hand, version: %d, inputs: {x: see.y}}\n"+
		"outputs: {y: act.y}\njoined: %v\n", eye, hand, s.joined))
}

// name says what a version of the pipeline may answer.
func (s *swap) name(number int, eye, hand float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version := strconv.Itoa(number)
	s.named[version] = append(s.named[version], [2]float32{eye, hand})
}

// ask asks the pipeline, and compares the versions that made the answer with the ones that its version names.
func (s *swap) ask(ctx context.Context, client inference.GRPCInferenceServiceClient) error {
	answer, err := client.ModelInfer(ctx, &inference.ModelInferRequest{
		ModelName: "policy", RawInputContents: [][]byte{make([]byte, 4)},
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{1, 1}}},
	})
	if err != nil {
		return err
	}
	var made [2]float32
	if raw := answer.GetRawOutputContents(); len(raw) != 1 || len(raw[0]) != 12 {
		return fmt.Errorf("answer %v", answer)
	}
	for i := range made {
		made[i] = math.Float32frombits(binary.LittleEndian.Uint32(answer.GetRawOutputContents()[0][4*i+4:]))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest = answer.GetModelVersion(); !slices.Contains(s.named[s.newest], made) {
		return fmt.Errorf("version %s was made by %v; want one of %v", s.newest, made, s.named[s.newest])
	}
	return nil
}

// TestPipelinesAreSwappedWhole: while versions of a pipeline and of its steps come, change and go, each request is
// answered, and by versions that one pipeline.yaml named together.
func TestPipelinesAreSwappedWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	for _, joined := range []bool{true, false} {
		t.Run(fmt.Sprintf("joined %v", joined), func(t *testing.T) { swapped(t, joined) })
	}
}

func swapped(t *testing.T, joined bool) {
	t.Helper()
	s := &swap{t: t, repo: t.TempDir(), joined: joined, named: map[string][][2]float32{}}
	remove := func(model string, number int) {
		gone := filepath.Join(t.TempDir(), "gone")
		if err := os.Rename(filepath.Join(s.repo, model, strconv.Itoa(number)), gone); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	for _, model := range []string{"eye", "hand"} {
		s.step(model, 1, 1)
		s.step(model, 1<<20, -1) // the newest, which no pipeline names
	}
	s.pipeline(1, 1, 1, 1)
	r := serveFrom(t, s.repo, func(a *App) { a.WatchInterval = config.Duration(20 * time.Millisecond) })
	r.awaitReady(t)
	var (
		client  = inference.NewGRPCInferenceServiceClient(r.conn)
		wanted  = int64(weftest.Times(2000, 100_000))
		asked   atomic.Int64
		callers sync.WaitGroup
	)
	ctx, stop := context.WithCancel(t.Context())
	for range 8 {
		callers.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				if err := s.ask(t.Context(), client); err != nil {
					t.Error(err)
				}
				asked.Add(1)
			}
		})
	}
	swaps := 1
	for eye, hand := 1, 1; !t.Failed() && (asked.Load() < wanted || swaps < 12); {
		before, beforeHand := eye, hand
		swaps++
		eye = swaps
		s.step("eye", eye, float32(eye))
		if swaps%2 == 0 || swaps%3 == 1 { // the other one was removed, see below
			hand = swaps
			s.step("hand", hand, float32(hand))
		}
		s.pipeline(swaps, eye, hand, float32(eye))
		answers := func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return t.Failed() || s.newest == strconv.Itoa(swaps)
		}
		weftest.Until(t, fmt.Sprintf("version %d answers", swaps), answers)
		remove("eye", before)
		remove("policy", swaps-1)
		if hand != beforeHand {
			remove("hand", beforeHand)
		}
		switch swaps % 3 {
		case 0: // the pipeline goes on without the files
			remove("eye", eye)
			remove("hand", hand)
		case 1: // it is loaded anew
			s.name(swaps, float32(eye)+0.5, float32(hand))
			s.step("eye", eye, float32(eye)+0.5)
		}
	}
	stop()
	callers.Wait()
	t.Logf("%d requests, %d versions", asked.Load(), swaps)
}
