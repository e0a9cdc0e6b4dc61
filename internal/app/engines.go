package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/gpu"
	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/internal/threads"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/synth"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/worker"
)

// engines open models in the engines that execute them: ONNX Runtime, in this process or in workers, and the synthetic
// engine. All fields are set before the first model is opened.
type engines struct {
	devices devices
	library *library
	clock   *owntime.Clock // of this process and its workers
	workers *worker.Pool   // nil: models run in this process
	each    bool           // version has a worker for itself, else each device
	changed func()         // called when the process of a worker has died or the next one is there; may be nil
	log     *slog.Logger

	synths map[string]*synth.Device // which all synthetic models share
}

// newEngines makes the pool of workers unless isolation is none. Where this system has no workers, models run in the
// server's process with a warning, because a server that does not start helps nobody.
func newEngines(d devices, s *config.Server, l *library, clock *owntime.Clock, log *slog.Logger) *engines {
	e := &engines{devices: d, library: l, clock: clock, log: log, synths: map[string]*synth.Device{}}
	if s.Isolation != config.IsolateNone {
		if err := worker.Supported(); err != nil {
			log.Warn("models run in the server's process", "event", "isolation_unavailable",
				"effect", "one that crashes or hangs takes the server along", "cause", err)
		} else {
			memory := int64(s.WorkerMemory)
			// By default three quarters of the machine, or of its control group, are for each worker.
			if s.WorkerMemory == config.AutoBound {
				memory = worker.DefaultMemory()
			}
			e.workers = worker.NewPool(worker.Config{
				Command: workerCommand, Library: l.find, Sandbox: sandboxOf(s, d, l.operators), Memory: memory,
				Changed: e.tellChanged, Clock: e.clock, Log: log,
			})
			e.each = s.Isolation == config.IsolateModel
		}
	}
	for _, name := range d.synths {
		e.synths[name] = synth.NewDevice()
	}
	return e
}

// tellChanged reads changed late: the pool is made before the host, which newHouse connects to it.
func (e *engines) tellChanged() {
	if e.changed != nil {
		e.changed()
	}
}

// close ends the processes of all workers. A session that still runs there fails. close may be called more than once,
// and at once.
func (e *engines) close() {
	if e.workers != nil {
		e.workers.Close()
	}
}

// stats is telemetry.Sources.Workers: since when each worker runs, and how many died, by cause.
func (e *engines) stats() (since map[string]time.Time, deaths map[telemetry.WorkerDeath]uint64) {
	if e.workers == nil {
		return nil, nil
	}
	since, died := e.workers.Stats()
	deaths = map[telemetry.WorkerDeath]uint64{}
	for d, n := range died {
		deaths[telemetry.WorkerDeath(d)] = n
	}
	return since, deaths
}

// memory is telemetry.Sources.WorkerMemory: the bytes that each worker takes, and the bound of each; 0 is no bound.
func (e *engines) memory() (used map[string]int64, bound int64) {
	if e.workers == nil {
		return nil, 0
	}
	return e.workers.Memory()
}

// resident is telemetry.Sources.Resident. The host estimates the memory of models; what they really take of their
// workers counts instead if it is more.
func (e *engines) resident(counts host.Counts) telemetry.Resident {
	r := telemetry.Resident(counts)
	if e.workers != nil {
		r.MemoryInUse = max(r.MemoryInUse, e.workers.Held())
	}
	return r
}

// lose notes that the driver has reported a GPU as lost. Call it before the host hears of the loss and closes the
// sessions there: by then their runs must fail for this cause.
func (e *engines) lose(g gpu.Device, cause error) {
	if e.workers == nil {
		ort.LoseDevice(g.Ordinal, cause) // before sessions there are closed
		return
	}
	e.workers.Lose(g.Name, cause)
}

// sites is host.Config.Sites: it returns the devices that may run a version, ranked by the order of its providers. The
// error is a sentence with a remedy: no provider has a device, or --devices does not name the one that the manifest
// asks for.
func (e *engines) sites(v modelrepo.Version, m *modelrepo.Manifest) (all []host.Site, _ error) {
	if m.Synth != nil {
		for _, name := range e.devices.synths {
			all = append(all, host.Site{Device: name})
		}
		return all, nil
	}
	providers, notes := e.usable(m.ONNX.Providers)
	if len(providers) == 0 {
		return nil, fmt.Errorf("cannot load %s: %s; %s", v.Path, strings.Join(notes, "; "), e.remedy(m.ONNX.Providers))
	}
	// A device counts with the first provider that uses it. CUDA and TensorRT, for example, share the GPUs.
	add := func(name string, rank int) {
		if !slices.ContainsFunc(all, func(s host.Site) bool { return s.Device == name }) {
			all = append(all, host.Site{Device: name, Rank: rank})
		}
	}
	pinned := m.ONNX.Device
	for rank, p := range providers {
		if !onCUDA(p) {
			add(cpuDevice, rank)
			continue
		}
		for _, g := range e.devices.gpus {
			if pinned == "" || pinned == g.name {
				add(g.name, rank)
			}
		}
	}
	// It is an error even if the processor could take the version: the manifest names a GPU that the server does not
	// have.
	if pinned != "" && slices.ContainsFunc(providers, onCUDA) &&
		!slices.ContainsFunc(all, func(s host.Site) bool { return s.Device == pinned }) {
		return nil, fmt.Errorf("cannot load %s: it asks for %s, but --devices does not name that; change onnx.device "+
			"in the model's %s, or --devices",
			v.Path, pinned, modelrepo.ManifestName)
	}
	return all, nil
}

// open is a host.Opener. It does not take over the files. The session may be on the processor although device is a GPU,
// if no provider for that accepts the model.
func (e *engines) open(ctx context.Context, v modelrepo.Version, f *modelfile.Files, m *modelrepo.Manifest,
	device string, try engine.Try,
) (engine.Opened, error) {
	if m.Synth != nil {
		return e.openSynth(m.Synth, device)
	}
	return e.openONNX(ctx, v, f, m, device, try)
}

// openONNX opens a model with ONNX Runtime, and logs and returns as notes what the manifest asks for and cannot be had.
// alone means that the manifest asks for a process for this version.
func (e *engines) openONNX(ctx context.Context, v modelrepo.Version, f *modelfile.Files, manifest *modelrepo.Manifest,
	device string, try engine.Try,
) (engine.Opened, error) {
	o, alone := &manifest.ONNX, manifest.Isolation == modelrepo.IsolateModel
	providers, without := e.usable(o.Providers)
	var notes []string
	if alone && e.workers == nil {
		notes = append(notes, "it asks for a process of its own (isolation: model), but models run in the server's "+
			"process, because of --isolation none or because this system has no other; a crash of it ends the server")
	}
	var on cudaDevice
	// On the processor providers for GPUs are left out: ONNX Runtime would put the model on a GPU that the host did not
	// choose.
	if at := slices.IndexFunc(e.devices.gpus, func(g cudaDevice) bool { return g.name == device }); at >= 0 {
		on = e.devices.gpus[at]
	} else if slices.ContainsFunc(providers, onCUDA) {
		if onCUDA(providers[0]) { // else it is where it is wanted most
			notes = append(notes, "it asks for cuda, but no GPU can take it now")
		}
		providers = slices.DeleteFunc(providers, onCUDA)
	}
	opened, err := e.openWhere(ctx, v, f, device, alone, onnxModel{sourceOf(v, f), on.name, ort.Options{
		Providers: providers, IntraOpThreads: e.devices.threads(o.IntraOpThreads, f), DeviceID: on.id,
		DeviceMemory: int64(o.DeviceMemoryLimit), ArenaExtend: string(o.ArenaExtendStrategy), TF32: o.TF32,
		ConvSearch: string(o.ConvAlgoSearch),
		PinBuffers: o.PinBuffers, CUDAGraphs: o.CUDAGraphs, Operators: e.library.operators,
	}}, try)
	if err != nil {
		// The providers without a device may be the ones that would have worked.
		if len(without) > 0 {
			err = fmt.Errorf("%w; nor can it have another provider: %s", err, strings.Join(without, "; "))
		}
		return engine.Opened{}, err
	}
	for _, p := range o.Providers { // the providers that it would rather have
		if string(p) == opened.Provider {
			break
		}
		if why := e.deviceless(p); why != "" {
			notes = append(notes, fmt.Sprintf("%s; using %s", why, opened.Provider))
		}
	}
	notes = append(notes, opened.Notes...)
	for _, note := range notes {
		e.log.Warn("model does not run as asked", "event", "model_option_refused",
			"model", v.Model, "version", v.Number, "path", v.Path, "cause", note)
	}
	opened.Notes, opened.Foreign = notes, len(e.library.operators) > 0
	return opened, nil
}

// openWhere opens a model in this process if there are no workers. Otherwise the pool opens it first in a process of
// its own, where try is called, and then in the worker of the device, or in one for this version alone. Neither takes
// over f: they get copies.
func (e *engines) openWhere(ctx context.Context, v modelrepo.Version, f *modelfile.Files, device string, alone bool,
	m onnxModel, try engine.Try,
) (engine.Opened, error) {
	if e.workers == nil {
		if err := e.library.load(); err != nil {
			return engine.Opened{}, err
		}
		// The session closes its own descriptor; f stays with the version.
		copied, err := f.Duplicate()
		if err != nil {
			return engine.Opened{}, err
		}
		opened, err := m.open(copied, e.log)
		opened.Clock = e.here
		return opened, err
	}
	return e.workers.Open(ctx, worker.Place{
		Device: device, Version: fmt.Sprintf("%s/%d", v.Model, v.Number), Alone: e.each || alone,
	}, m, f.Copy(), try)
}

// onCUDA is Provider.OnCUDA for a name that ONNX Runtime or a session gives.
func onCUDA(provider string) bool { return modelrepo.Provider(provider).OnCUDA() }

// usable returns the providers that have a device, and the reasons why the others have none.
func (e *engines) usable(asked []modelrepo.Provider) (providers, notes []string) {
	for _, p := range asked {
		if why := e.deviceless(p); why != "" {
			notes = append(notes, why)
		} else {
			providers = append(providers, string(p))
		}
	}
	return providers, notes
}

// deviceless says why --devices has no device for a provider; "" if it has one.
func (e *engines) deviceless(p modelrepo.Provider) string {
	switch {
	case p.OnCUDA() && len(e.devices.gpus) == 0:
		return fmt.Sprintf("it asks for %s, but --devices names no GPU, such as cuda:0", p)
	case !p.OnCUDA() && e.devices.cpu == 0:
		return fmt.Sprintf("it asks for %s, but --devices does not name cpu", p)
	}
	return ""
}

// remedy says how to help a model where none of its providers has a device.
func (e *engines) remedy(asked []modelrepo.Provider) string {
	if slices.ContainsFunc(asked, modelrepo.Provider.OnCUDA) {
		return "start the server with --devices cpu,cuda:0 or another GPU, or add cpu to onnx.providers in the " +
			"model's " + modelrepo.ManifestName
	}
	named := []string{cpuDevice}
	for _, g := range e.devices.gpus {
		named = append(named, g.name)
	}
	return fmt.Sprintf("set onnx.providers: [cuda] in the model's %s to have it on a GPU, or start the server with "+
		"--devices %s",
		modelrepo.ManifestName, strings.Join(named, ","))
}

// openSynth opens a synthetic model, in this process: it executes nothing that could crash.
func (e *engines) openSynth(m *modelrepo.Synth, device string) (engine.Opened, error) {
	session, err := synth.Open(synth.Options{
		Base: time.Duration(m.Base), PerRow: time.Duration(m.PerRow), Jitter: m.Jitter, Seed: uint64(m.Seed),
		FailOnNaN: m.FailOnNaN, FailEvery: m.FailEvery,
		Inputs: specs(m.Inputs), Outputs: specs(m.Outputs),
		Device: e.synths[device],
	})
	if err != nil {
		return engine.Opened{}, err
	}
	return engine.Opened{Session: session, Device: device, Provider: synthDevice, Clock: e.here}, nil
}

// here is engine.Opened.Clock of sessions in this process.
func (e *engines) here() *owntime.Clock { return e.clock }

// specs lists declared tensors in the order of their names, because a map has none.
func specs(declared map[string]modelrepo.Tensor) []tensor.Spec {
	var list []tensor.Spec
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		t := declared[name]
		list = append(list, tensor.Spec{Name: name, DType: tensor.DType(t.DType), Shape: t.Shape})
	}
	return list
}

// serverThreads and workerThreads are how many threads a server and a worker are expected to need at most. Idle threads
// take some kB each.
func serverThreads() int { return min(8+2*runtime.GOMAXPROCS(0), 64) }
func workerThreads() int { return min(8+runtime.GOMAXPROCS(0), 32) }

// reserveThreads starts the threads that the server needs, because Go ends the program when the system refuses one
// later. The error is that the system has too few for the server and for three processes of workers: the first one, the
// one that takes its place, and the one where a model is opened by itself.
func reserveThreads() error {
	if err := threads.Reserve(serverThreads(), 3*workerThreads()); err != nil {
		return fmt.Errorf("cannot start the server: %w", err)
	}
	return nil
}
