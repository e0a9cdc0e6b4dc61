package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/threads"
	"github.com/weftserve/weft/proto/gen/onnx"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/pipeline"
	"github.com/weftserve/weft/runtime/serving"
	"github.com/weftserve/weft/runtime/worker"
)

// onnxModel says which model ONNX Runtime opens, and how. It is used in this process, or sent to a worker as JSON
// together with the file, so that both ends must be the same program.
type onnxModel struct {
	Source  ort.Source
	Device  string // the GPU's name; "": it is to have none
	Options ort.Options
}

// reads returns a host.Config.Read, which makes the private copy of a version's files. It follows links into the
// stores, and refuses versions without digests if the settings ask for that. A synthetic version has no files.
func reads(s *config.Server, stores []string) serving.Reader {
	return func(ctx context.Context, v modelrepo.Version, told func(done, of int64)) (*modelfile.Files, error) {
		if v.Path == "" {
			return nil, nil // it is synthetic
		}
		return modelfile.Load(ctx, placeOf(v, stores), s.RequireDigests, told)
	}
}

// placeOf says where the files of a version are, and how those of a pipeline are joined.
func placeOf(v modelrepo.Version, stores []string) modelfile.Place {
	place := modelfile.Place{Repository: v.Repository(), Dir: v.Dir, Stores: stores}
	p := v.Pipeline
	if p == nil {
		return place
	}
	place.Joint = &modelfile.Joint{
		File: modelrepo.PipelineFile, Text: p.Text,
		Merge: func(models []*onnx.ModelProto) (merged *onnx.ModelProto, err error) {
			// The graphs come from files that no engine has read yet.
			defer func() {
				if caught := recover(); caught != nil {
					err = fmt.Errorf("%s: the model of a step is no valid graph (%v); check each of them by itself", v.Path, caught)
				}
			}()
			again := *p
			err = again.Decode(v.Path, func() (faults config.Faults) {
				merged, faults = pipeline.Merge(&again, models)
				return faults
			})
			return merged, err
		},
	}
	for _, s := range p.Steps {
		place.Joint.Parts = append(place.Joint.Parts, modelfile.Part{
			Name: fmt.Sprintf("%s/%d", s.Model, s.Version), Place: placeOf(s.Of, stores),
		})
	}
	return place
}

// sourceOf says where the parts of a version lie in the private copy f. It does not take over f.
func sourceOf(v modelrepo.Version, f *modelfile.Files) ort.Source {
	extent := func(file modelfile.File) ort.Extent { return ort.Extent{Offset: file.Offset, Size: file.Size} }
	s := ort.Source{Path: v.Path, Model: extent(f.Opened)}
	for _, e := range f.External() {
		s.External = append(s.External, ort.ExternalFile{Name: e.Name, Extent: extent(e)})
	}
	for _, t := range f.Large {
		s.Large = append(s.Large, ort.LargeTensor{
			Name: t.Name, DType: t.DType, Shape: t.Shape, Extent: ort.Extent{Offset: t.Offset, Size: t.Size},
		})
	}
	return s
}

// open opens the model in this process, which must have loaded the library. It takes over the copy, also if it fails.
func (m onnxModel) open(copied *os.File, log *slog.Logger) (engine.Opened, error) {
	m.Source.File, m.Options.Log = copied, log
	s, err := ort.OpenSource(m.Source, m.Options)
	if err != nil {
		return engine.Opened{}, err
	}
	device := m.Device
	// ONNX Runtime may have refused the provider for the GPU, and have put the model on the processor.
	if !onCUDA(s.Provider()) {
		device = cpuDevice
	}
	return engine.Opened{
		Session: s, Device: device, Provider: s.Provider(), Notes: s.Notes(), Memory: s.Memory(), Pin: s.Pin(),
	}, nil
}

// onnxEngine is ONNX Runtime in a worker: the worker.Engine of this program. library is its path.
type onnxEngine struct{ library string }

// Load loads the library, once the threads for it are there: Go would end the process if it lacked one later.
func (e onnxEngine) Load() error {
	if err := threads.Reserve(workerThreads(), 0); err != nil {
		return err
	}
	return ort.Init(e.library)
}

// Open opens an onnxModel. It takes over the file.
func (onnxEngine) Open(_ context.Context, model json.RawMessage, copied *os.File,
	log *slog.Logger,
) (engine.Opened, error) {
	var m onnxModel
	if err := json.Unmarshal(model, &m); err != nil {
		return engine.Opened{}, err
	}
	return m.open(copied, log)
}

// workerCommand is the word of the command line that makes this program a worker. The library's path follows.
const workerCommand = "worker"

// Work is the main function of a worker. It runs models for a server, with the ONNX Runtime library at the path, until
// the server ends it or is gone.
func Work(library string) error {
	threads.StopYielding()
	return worker.Serve(onnxEngine{library})
}
