package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/cockroachdb/datadriven"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// echo gives back the inputs of a call: its models have an output X for an input x.
func echo(_ context.Context, call *catalog.Call) error {
	for i, t := range call.Inputs {
		if call.Wanted == nil || call.Wanted[0] == i {
			call.Results = append(call.Results, t.Clone())
		}
	}
	call.Outcome = sharedsched.Outcome{Device: "cpu", BatchRows: 2, BatchRequests: 1}
	return nil
}

// serve returns the address of a server. Each element type has a model, such as fp32, whose input has two dimensions,
// and pair takes two inputs.
func serve(t *testing.T) string {
	t.Helper()
	spec := func(name string, d tensor.DType, shape ...int64) tensor.Spec {
		return tensor.Spec{Name: name, DType: d, Shape: shape, BatchDim: tensor.NoBatch, DimNames: []string{"rows", ""}}
	}
	var models []*catalog.Model
	add := func(name string, version int64, specs ...tensor.Spec) {
		s := &tensor.Signature{Inputs: specs}
		for _, of := range specs {
			of.Name = strings.ToUpper(of.Name)
			s.Outputs = append(s.Outputs, of)
		}
		models = append(models, &catalog.Model{
			Name: name, Labels: map[string]int64{"stable": version}, Versions: []*catalog.Version{
				{Model: name, Number: version, State: catalog.Ready, Signature: s},
			},
		})
	}
	for d := tensor.Bool; d <= tensor.String; d++ {
		add(d.String(), 1, spec("x", d, tensor.Unknown, 2))
	}
	scalar := tensor.Spec{Name: "b", DType: tensor.String, BatchDim: tensor.NoBatch}
	add("pair", 7, spec("a", tensor.Int8, tensor.Unknown, 2), scalar)
	add("open", 1, spec("x", tensor.Float32, tensor.Unknown, tensor.Unknown))
	add("large", 1, spec("x", tensor.Float32, 1, 1000))

	h := servertest.New(t, server.Config{})
	h.Run = echo
	h.Current.Store(servertest.SnapshotOf(1, models...))
	return weftest.Serve(t, h.GRPC)
}

// memory is a server that remembers some requests.
type memory struct {
	weftv1.UnimplementedModelServiceServer

	known map[string]*weftv1.Explanation
}

func (m *memory) ExplainRequest(_ context.Context, q *weftv1.ExplainRequestRequest) (
	*weftv1.ExplainRequestResponse, error,
) {
	e, is := m.known[q.GetRequest()]
	if !is {
		return nil, status.Errorf(codes.NotFound, "no request %q is remembered", q.GetRequest())
	}
	return &weftv1.ExplainRequestResponse{Explanation: e}, nil
}

func (m *memory) ListRequests(_ context.Context, q *weftv1.ListRequestsRequest) (*weftv1.ListRequestsResponse, error) {
	if q.GetModel() == "idle" {
		return &weftv1.ListRequestsResponse{}, nil
	}
	return &weftv1.ListRequestsResponse{
		Requests: &weftv1.RequestColumns{
			Number: []uint32{12, 11, 10, 9}, Id: []string{"robot-7/step-9", "", "", "b"}, Version: []uint32{1, 0},
			ArrivalMs: []float64{1000, 900}, StartMs: []float64{1030.5, 0}, EndMs: []float64{1040, 901},
			TargetMs: []float32{20, 0},
			End:      []uint32{uint32(weftv1.RequestEnd_REQUEST_END_LATE), uint32(weftv1.RequestEnd_REQUEST_END_REFUSED)},
			Reason:   []string{"", "QUEUE_FULL"}, Episode: []string{"", "", "game 7", "game 8"}, Step: []uint64{0, 0, 4, 0},
		},
		Versions: []*weftv1.VersionActivity{{Model: "walk", Version: 3}}, InLastMinute: 40, Forgotten: 5,
	}, nil
}

// remembers returns the address of a server.
func remembers(t *testing.T) string {
	t.Helper()
	story := func(number uint32, id string) *weftv1.Explanation {
		return &weftv1.Explanation{
			Number: number, Id: id, Model: "walk", Version: 3, End: weftv1.RequestEnd_REQUEST_END_LATE, TargetMs: 20,
			Story:   []string{fmt.Sprintf("Request %d came.", number), "It waited."},
			Batch:   &weftv1.ExplainedBatch{Number: 4, Device: "cpu"},
			Holders: []*weftv1.Holder{{Model: "rank", Version: 12, Batches: 1, Ms: 47}},
		}
	}
	s := &memory{known: map[string]*weftv1.Explanation{
		"robot-7/step-9": story(12, "robot-7/step-9"), "#12": story(12, "robot-7/step-9"), "#77": story(77, ""),
		"77": story(13, "77"),
	}}
	return listen(t, s)
}

// listen returns the address of a server.
func listen(t *testing.T, s weftv1.ModelServiceServer) string {
	t.Helper()
	g := grpc.NewServer()
	weftv1.RegisterModelServiceServer(g, s)
	return weftest.Serve(t, g)
}

// connecting is what gRPC and the system say of a server that is not there.
var connecting = regexp.MustCompile(`\((max retries|connection error).*\)`)

// TestScripts runs `weft predict` and `weft explain` against servers. Each line of a case is an argument; one that
// begins with < is the standard input. What is printed follows, or the error: a usage error is about the command line.
func TestScripts(t *testing.T) {
	servers := map[string]string{
		"echo": serve(t), "memory": remembers(t), "old": listen(t, weftv1.UnimplementedModelServiceServer{}),
		"closed": "127.0.0.1:1", "wrong": "\x00",
	}
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			name := map[string]string{"predict": "echo", "explain": "memory"}[d.Cmd]
			d.MaybeScanArgs(t, "server", &name)
			args, in := []string{d.Cmd, "--address", servers[name]}, ""
			for line := range strings.Lines(d.Input) {
				line = strings.TrimSuffix(line, "\n")
				if text, is := strings.CutPrefix(line, "<"); is {
					in = text
				} else {
					args = append(args, line)
				}
			}
			return connecting.ReplaceAllString(strings.ReplaceAll(runCommand(t, args, in), servers[name], "ADDRESS"), "(...)")
		})
	})
}

// runCommand runs a command line, and returns what it prints, without blanks at the ends of lines.
func runCommand(t *testing.T, args []string, in string) string {
	t.Helper()
	var commands struct {
		Predict Options `cmd:""`
		Explain Explain `cmd:""`
	}
	parser, err := kong.New(&commands)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		return fmt.Sprintf("flags: %v\n", err)
	}
	var out strings.Builder
	if args[0] == "predict" {
		err = Run(t.Context(), &commands.Predict, strings.NewReader(in), &out)
	} else {
		err = commands.Explain.Run(t.Context(), &out)
	}
	if _, usage := errors.AsType[config.Faults](err); usage {
		fmt.Fprintf(&out, "usage error: %v\n", err)
	} else if err != nil {
		fmt.Fprintf(&out, "error: %v\n", err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestInputThatNeverEnds is given up when the user does, and takes none of the time for an answer.
func TestInputThatNeverEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reading := make(chan struct{})
	in := readerFunc(func([]byte) (int, error) {
		close(reading)
		<-t.Context().Done()
		return 0, io.EOF
	})
	go func() {
		<-reading
		cancel()
	}()
	o := Options{Model: "fp32", Server: Server{Address: serve(t)}, Input: []string{"x=@-"}, Timeout: config.Duration(10e9)}
	var out strings.Builder
	if err := Run(ctx, &o, in, &out); !errors.Is(err, errInterrupted) {
		t.Errorf("%v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestQuoted(t *testing.T) {
	for name, want := range map[string]string{"x": "x", "input 1": "'input 1'", "it's": `'it'\''s'`} {
		if got := quoted(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestPushFindsWhatTheFileNames: files of external data are uploaded with it, by the names that the graph has for them.
func TestPushFindsWhatTheFileNames(t *testing.T) {
	dir := t.TempDir()
	graph := onnxgraph.New("m").ExternalInit("w", onnxgraph.Float, []int64{2}, "data/w.bin", 0, 8)
	push := Push{Model: "m", Version: 3, File: filepath.Join(dir, "policy.onnx")}
	if err := os.WriteFile(push.File, graph.Marshal(), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := push.files()
	if err == nil || !strings.Contains(err.Error(), "policy.onnx names it for external data: put it there") {
		t.Errorf("without the data: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data/w.bin"), make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	paths, start, err := push.files()
	if err != nil || len(paths) != 2 || paths[0] != push.File || start.GetVersion() != 3 {
		t.Fatal(paths, start, err)
	}
	if f := start.GetFiles(); f[0].GetName() != "model.onnx" || f[1].GetName() != "data/w.bin" || f[1].GetBytes() != 8 ||
		len(f[1].GetSha256()) != 32 {
		t.Errorf("%v", start)
	}
}

// TestChangedSignature: what clients of the version before send or read, and the new one does not have.
func TestChangedSignature(t *testing.T) {
	spec := func(name string, shape ...int64) *weftv1.TensorSpec {
		return &weftv1.TensorSpec{Name: name, Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: shape}
	}
	version := func(number int64, in, out []*weftv1.TensorSpec) *weftv1.ModelVersion {
		return &weftv1.ModelVersion{Version: number, Signature: &weftv1.Signature{Inputs: in, Outputs: out}}
	}
	type specs = []*weftv1.TensorSpec
	before := version(1, specs{spec("x", -1, 4), spec("v", 1)}, specs{spec("y", -1), spec("z", -1)})
	now := version(2, specs{spec("x", -1, 5), spec("v", -1), spec("w")}, specs{spec("y", -1), spec("more")})
	is, got := (&Push{}).changed(&weftv1.Model{Versions: []*weftv1.ModelVersion{before, now}}, 2,
		answering{versions: []*weftv1.ModelVersion{before}}, answering{versions: []*weftv1.ModelVersion{now}})
	want := `its inputs or outputs differ from version 1: clients of that will fail: input "x" is fp32 [-1 5], was ` +
		`fp32 [-1 4]; input "w" is new; output "z" is gone` + "\nit answers all requests now, in the place of version 1\n"
	if got != want {
		t.Errorf("%s; want %s", got, want)
	}
	var line strings.Builder
	if err := (Printing{JSON: true}).print(&line, &weftv1.UploadVersionResponse{Version: 2}, got, is); err != nil {
		t.Fatal(err)
	}
	const inJSON = `{"version":"2","served":false,"answered_before":"1","answers_now":"2","differences":` +
		`["input \"x\" is fp32 [-1 5], was fp32 [-1 4]","input \"w\" is new","output \"z\" is gone"]}` + "\n"
	if line.String() != inJSON {
		t.Errorf("%s; want %s", line.String(), inJSON)
	}
}

func TestNoteOfEpisodes(t *testing.T) {
	v := &weftv1.ModelVersion{KeptInputs: []*weftv1.KeptInput{{Input: "h"}, {Input: "c"}}}
	versions := []*weftv1.ModelVersion{{}, v, v}
	for want, m := range map[string]*weftv1.Model{
		"|keeps h, c of episodes|keeps h, c of episodes":                   {Versions: versions},
		"|keeps h, c of episodes: 1 episode, 8B|keeps h, c of episodes":    {Versions: versions, LiveEpisodes: 1, StateBytes: 8},
		"|keeps h, c of episodes: 3 episodes, 2KiB|keeps h, c of episodes": {Versions: versions, LiveEpisodes: 3, StateBytes: 2048},
	} {
		if got := strings.Join([]string{noteOf(m, 0), noteOf(m, 1), noteOf(m, 2)}, "|"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
