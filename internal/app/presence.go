package app

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// presence says which of the devices that --devices names are there, as of the start.
type presence struct {
	// Names as the scheduler has them, such as cuda:0.
	found   []string
	absent  map[string]error // by the word of the driver, with a remedy for each
	unknown map[string]error // GPUs whose presence cannot be found out, and why
}

// findDevices sorts the devices by the driver's answers; w is nil where the driver was not asked. A GPU is absent only
// if the driver says so. Without a driver to ask it is unknown, because CUDA may find it anyway: a container may have
// the one library without the other.
func findDevices(s *config.Server, w *gpuWatch) presence {
	p := presence{absent: map[string]error{}, unknown: map[string]error{}}
	for i, named := range s.Devices {
		gpus := parseDevices([]string{named}).gpus
		if len(gpus) == 0 {
			p.found = append(p.found, named)
			continue
		}
		name, reason := gpus[0].name, "off"
		if w != nil {
			reason = w.missing[name]
		}
		switch reason {
		case "":
			p.found = append(p.found, name)
		case "no_device":
			p.absent[name] = fmt.Errorf("--devices[%d]: %s is not there: the NVIDIA driver shows this process no such "+
				"GPU; nvidia-smi -L lists what "+
				"there is, and CUDA_VISIBLE_DEVICES, if set, numbers what it leaves from 0 (if CUDA can use it all "+
				"the same: --gpu-telemetry off)", i, name)
		default:
			p.unknown[name] = fmt.Errorf(
				"--devices[%d]: whether %s is there is not known (%s); if it is not, models cannot be loaded there", i,
				name, unsaid(reason))
		}
	}
	return p
}

// unsaid explains why the driver does not say whether a GPU is there; see nvidia.UnavailableError for the reasons.
func unsaid(reason string) string {
	switch reason {
	case "off":
		return "--gpu-telemetry is off"
	case "not_built":
		return "this build cannot ask NVIDIA's driver"
	case "no_library":
		return "NVIDIA's driver has no libnvidia-ml.so.1 here, if there is a driver"
	}
	return "NVIDIA's driver does not tell: " + reason
}

// tell logs the requested and the found devices. It says nothing where only the processor is asked for.
func (p *presence) tell(s *config.Server, log *slog.Logger) {
	if len(parseDevices(s.Devices).gpus) == 0 {
		return
	}
	log.Info("devices found", "event", "devices_found", "asked", s.Devices, "found", p.found,
		"not_there", slices.Sorted(maps.Keys(p.absent)), "unknown", slices.Sorted(maps.Keys(p.unknown)))
	if s.GPUTelemetry == config.GPUTelemetryOff {
		return // the operator turned that off and knows
	}
	for _, name := range slices.Sorted(maps.Keys(p.unknown)) {
		log.Warn("GPU of --devices unconfirmed", "event", "gpu_unconfirmed", "device", name,
			"cause", p.unknown[name])
	}
}

// loseAbsent takes absent devices out of use, so that models go to the devices that are there. Call it before the first
// Follow.
func (p *presence) loseAbsent(h *host.Host) {
	for _, name := range slices.Sorted(maps.Keys(p.absent)) {
		h.LoseDevice(name, p.absent[name])
	}
}

// unusedGPUs says that no model asks for a GPU although --devices names some besides the processor; "" if one does, or
// if no model runs on ONNX Runtime. It is a hint: models may come later.
func unusedGPUs(s *config.Server, l modelrepo.Listing) string {
	d := parseDevices(s.Devices)
	if d.cpu == 0 || len(d.gpus) == 0 {
		return "" // without the processor, models that do not ask for a GPU fail to load, and say why
	}
	onnx := false
	for _, m := range l.Models {
		if m.Err != nil || m.Manifest.Synth != nil {
			continue
		}
		if slices.ContainsFunc(m.Manifest.ONNX.Providers, modelrepo.Provider.OnCUDA) {
			return ""
		}
		onnx = true
	}
	if !onnx {
		return ""
	}
	var names []string
	for _, g := range d.gpus {
		names = append(names, g.name)
	}
	return fmt.Sprintf("no model uses %s: set onnx.providers: [cuda] in the %s of those that shall",
		strings.Join(names, ", "), modelrepo.ManifestName)
}
