//go:build linux

package hunt

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// serveTrials is the main function of the process for trials.
func serveTrials(folder string) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	var once sync.Mutex
	say := func(text string) {
		once.Lock()
		defer once.Unlock()
		fmt.Printf("\ntrial %s\n", text)
	}
	path, err := ortlib.Find()
	if err == nil {
		err = ort.Init(path)
	}
	if err != nil {
		say(err.Error())
		return
	}
	say("ready")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c candidate
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			say(err.Error())
			return
		}
		e := runTrial(c, filepath.Join(folder, "model.onnx"), func() { say("opened") })
		var line strings.Builder
		if err := json.NewEncoder(&line).Encode(e); err != nil {
			say(err.Error())
			return
		}
		say(line.String())
	}
}

func runTrial(c candidate, path string, opened func()) (e ending) {
	e = ending{Kind: failed, Where: "open"}
	defer func() {
		if p := recover(); p != nil { // for lack of memory
			e.Text = fmt.Sprint("panic: ", p)
		}
	}()
	m, err := sketch.Parse(c.Sketch)
	if err != nil {
		e.Where, e.Text = "parse", err.Error()
		return e
	}
	if err := os.WriteFile(path, m.Graph.Marshal(), 0o600); err != nil {
		e.Text = err.Error()
		return e
	}
	session, err := ort.Open(path, ort.Options{})
	if err != nil {
		e.Text = err.Error()
		return e
	}
	defer session.Close()
	opened()
	e.Where = "run"
	values, err := sketch.ParseValues(c.Inputs)
	if err != nil {
		e.Where, e.Text = "parse", err.Error()
		return e
	}
	sig := session.Signature()
	b := tensor.NewBatch(len(sig.Inputs), len(sig.Outputs), nil)
	defer b.Free()
	for i, in := range sig.Inputs {
		v, is := values[in.Name]
		if !is {
			e.Where, e.Text = "parse", "no input "+in.Name
			return e
		}
		t := tensorOf(v)
		copy(b.Input(i, t.DType, t.Shape, len(t.Data)), t.Data)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := session.Run(ctx, b); err != nil {
		e.Text = err.Error()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			e.Kind, e.Text = hung, "it stopped when it was told to"
		}
		return e
	}
	for _, out := range b.Outputs {
		e.Bytes += len(out.Data)
	}
	e.Kind = answered
	return e
}

var dataTypes = map[onnxgraph.DType]tensor.DType{
	onnxgraph.Float: tensor.Float32, onnxgraph.Double: tensor.Float64, onnxgraph.Float16: tensor.Float16,
	onnxgraph.Int64: tensor.Int64, onnxgraph.Int32: tensor.Int32, onnxgraph.Int16: tensor.Int16,
	onnxgraph.Int8: tensor.Int8, onnxgraph.Uint64: tensor.Uint64, onnxgraph.Uint32: tensor.Uint32,
	onnxgraph.Uint16: tensor.Uint16, onnxgraph.Uint8: tensor.Uint8, onnxgraph.Bool: tensor.Bool,
	onnxgraph.String: tensor.String,
}

func tensorOf(v sketch.Value) tensor.Tensor {
	t := tensor.Tensor{DType: dataTypes[v.DType], Shape: v.Shape, Data: v.Raw}
	for _, s := range v.Strings {
		t.Data = tensor.AppendString(t.Data, []byte(s))
	}
	return t
}
