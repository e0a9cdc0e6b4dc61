package app

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/worker"
)

// onnxModel says which model ONNX Runtime is to open, and how: in this process or, sent there as JSON, in a worker.
type onnxModel struct {
	Path    string
	Options ort.Options
}

// open opens the model in this process, in which the library is loaded.
func (m onnxModel) open(log *slog.Logger) (engine.Opened, error) {
	m.Options.Log = log
	s, err := ort.Open(m.Path, m.Options)
	if err != nil {
		return engine.Opened{}, err
	}
	return engine.Opened{Session: s, Provider: s.Provider(), Notes: s.Notes(), Memory: s.Memory()}, nil
}

// onnxEngine is ONNX Runtime in a worker.
type onnxEngine struct{ library string }

// Load loads the library.
func (e onnxEngine) Load() error { return ort.Init(e.library) }

// Open opens an onnxModel.
func (onnxEngine) Open(_ context.Context, model json.RawMessage, log *slog.Logger) (engine.Opened, error) {
	var m onnxModel
	if err := json.Unmarshal(model, &m); err != nil {
		return engine.Opened{}, err
	}
	return m.open(log)
}

// workerCommand is the word of the command line that makes this program a worker; the library's path follows.
const workerCommand = "worker"

// Work is the main function of a worker, which runs models for a server with the ONNX Runtime library at path.
func Work(library string) error { return worker.Serve(onnxEngine{library}) }
