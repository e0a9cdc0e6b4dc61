package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/synth"
	"github.com/weftserve/weft/runtime/tensor"
)

// engines open models in whatever executes them.
type engines struct {
	devices devices
	library *library
	log     *slog.Logger

	synth  *synth.Device // which all synthetic models share
	placed atomic.Uint32 // versions on GPUs, which get them in turn
}

func newEngines(d devices, l *library, log *slog.Logger) *engines {
	return &engines{devices: d, library: l, log: log, synth: synth.NewDevice()}
}

// open is a host.Opener.
func (e *engines) open(_ context.Context, v modelrepo.Version, m *modelrepo.Manifest) (host.Opened, error) {
	if m.Synth != nil {
		return e.openSynth(m.Synth)
	}
	return e.openONNX(v.Path, &m.ONNX)
}

func (e *engines) openONNX(path string, o *modelrepo.ONNX) (host.Opened, error) {
	if err := e.library.load(); err != nil {
		return host.Opened{}, err
	}
	providers, notes := e.usable(o.Providers)
	if len(providers) == 0 {
		return host.Opened{}, fmt.Errorf("cannot load %s: %s; change onnx.providers in the model's %s, or --devices",
			path, strings.Join(notes, "; "), modelrepo.ManifestName)
	}
	var on cudaDevice
	if slices.ContainsFunc(providers, onCUDA) {
		var err error
		if on, err = e.place(o.Device); err != nil {
			return host.Opened{}, fmt.Errorf("cannot load %s: %w", path, err)
		}
	}
	session, err := ort.Open(path, ort.Options{
		Providers: providers, IntraOpThreads: o.IntraOpThreads, DeviceID: on.id,
		DeviceMemory: int64(o.DeviceMemoryLimit), ArenaExtend: string(o.ArenaExtendStrategy), TF32: o.TF32, ConvSearch: string(o.ConvAlgoSearch),
		PinBuffers: o.PinBuffers, CUDAGraphs: o.CUDAGraphs, Log: e.log,
	})
	if err != nil {
		return host.Opened{}, err
	}
	notes = append(notes, session.Notes()...)
	for _, note := range notes {
		e.log.Warn("a model does not run as it was asked to", "path", path, "cause", note)
	}
	opened := host.Opened{Session: session, Provider: session.Provider(), Device: on.name, Notes: notes, Pinner: session.Pinner()}
	if !onCUDA(opened.Provider) {
		opened.Device = cpuDevice
		// More threads than the one that calls would work unseen by its clock; OpenVINO and CoreML have threads of their own.
		opened.ThreadTime = opened.Provider == ort.CPU && o.IntraOpThreads == 1
	}
	return opened, nil
}

func onCUDA(provider string) bool { return modelrepo.Provider(provider).OnCUDA() }

// place chooses the GPU of a model: the one that its manifest names, else each in turn.
func (e *engines) place(name string) (cudaDevice, error) {
	if name == "" {
		return e.devices.gpus[int(e.placed.Add(1)-1)%len(e.devices.gpus)], nil
	}
	for _, g := range e.devices.gpus {
		if g.name == name {
			return g, nil
		}
	}
	return cudaDevice{}, fmt.Errorf("it asks for %s, but --devices does not name that; change onnx.device in the model's %s, or --devices",
		name, modelrepo.ManifestName)
}

// usable returns those of the providers whose device there is, and why not the others.
func (e *engines) usable(asked []modelrepo.Provider) (providers, notes []string) {
	for _, p := range asked {
		switch {
		case p.OnCUDA() && len(e.devices.gpus) == 0:
			notes = append(notes, fmt.Sprintf("it asks for %s, but --devices names no GPU", p))
		case !p.OnCUDA() && !e.devices.cpu:
			notes = append(notes, fmt.Sprintf("it asks for %s, but --devices does not name cpu", p))
		default:
			providers = append(providers, string(p))
		}
	}
	return providers, notes
}

func (e *engines) openSynth(m *modelrepo.Synth) (host.Opened, error) {
	session, err := synth.Open(synth.Options{
		Base: time.Duration(m.Base), PerRow: time.Duration(m.PerRow), Jitter: m.Jitter, Seed: uint64(m.Seed),
		FailOnNaN: m.FailOnNaN, FailEvery: m.FailEvery,
		Inputs: specs(m.Inputs), Outputs: specs(m.Outputs),
		Device: e.synth,
	})
	if err != nil {
		return host.Opened{}, err
	}
	return host.Opened{Session: session, Device: synthDevice, Provider: synthDevice}, nil
}

// specs lists declared tensors by name.
func specs(declared map[string]modelrepo.Tensor) []tensor.Spec {
	var list []tensor.Spec
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		t := declared[name]
		list = append(list, tensor.Spec{Name: name, DType: tensor.DType(t.DType), Shape: t.Shape})
	}
	return list
}
