//go:build linux && cgo

package nvidia

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/weftserve/weft/gpu"
)

// Source is a gpu.Source that asks NVML. It numbers devices as Devices lists them.
type Source struct {
	lib     nvml.Interface
	symbols map[string]bool // symbols looked up in the library; only the goroutine that asks uses it
	devices []*device
	missing []gpu.Device
	events  *events
}

// device is a device to ask about.
type device struct {
	gpu.Device
	whole nvml.Device // the GPU: its clocks and so on
	own   nvml.Device // the MIG instance: its memory; or the GPU
	// instance is the number of the MIG instance on its GPU, or noInstance.
	instance  uint32
	processes processes

	hearsXIDs     bool
	xids, lastXID atomic.Int64 // counted by events
}

// noInstance is NVML's number for data that is not about a MIG instance.
const noInstance = 0xFFFFFFFF

const defaultPatience = 10 * time.Second

// Open loads NVML and finds the devices. The error is an *UnavailableError where there is no driver, an answer does not
// come in time, or there are none of the devices; then there is nothing to ask. The Source must be closed, after the
// last Read.
func Open(cfg Config) (*Source, error) {
	return inTime(cmp.Or(cfg.Patience, defaultPatience), func() (*Source, error) {
		lib, err := load(cfg.Library)
		if err != nil {
			return nil, err
		}
		s, err := open(lib, cfg)
		if err != nil {
			_ = lib.Shutdown() // there is nothing to be done if that fails
			return nil, err
		}
		return s, nil
	})
}

// inTime returns the result of find. Where find does not return within patience, it is left behind; a Source that it
// finds later is closed.
func inTime(patience time.Duration, find func() (*Source, error)) (*Source, error) {
	type found struct {
		source *Source
		err    error
	}
	answer, gaveUp := make(chan found), make(chan struct{})
	go func() {
		s, err := find()
		select {
		case answer <- found{s, err}:
		case <-gaveUp:
			if err == nil {
				_ = s.Close() // there is no caller to report a failure to
			}
		}
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case a := <-answer:
		return a.source, a.err
	case <-late.C:
		close(gaveUp)
		return nil, &UnavailableError{"no_answer", fmt.Sprintf("the NVIDIA driver did not answer within %v", patience)}
	}
}

// open finds the devices by a library that is initialised.
func open(lib nvml.Interface, cfg Config) (*Source, error) {
	s := &Source{lib: lib, symbols: map[string]bool{}}
	found, err := s.machine()
	if err != nil {
		return nil, err
	}
	var wholes []whole
	for _, f := range found {
		wholes = append(wholes, f.whole)
	}
	places := visible(wholes, cfg.Visible)
	own := ownProcess()
	for _, d := range cfg.Devices {
		if d.Ordinal >= len(places) {
			s.missing = append(s.missing, d)
			continue
		}
		at := places[d.Ordinal]
		f := found[at.whole]
		d.UUID, d.Product, d.Bus = f.uuid, f.product, f.bus.String()
		e := &device{Device: d, whole: f.handle, own: f.handle, instance: noInstance, processes: own}
		if at.isPart() {
			part := f.instances[at.part]
			e.UUID, e.Part, e.own, e.instance = f.parts[at.part], true, part.handle, part.number
		}
		s.devices = append(s.devices, e)
	}
	if len(s.devices) == 0 {
		return nil, &UnavailableError{"no_device", fmt.Sprintf("the NVIDIA driver shows %d GPUs, of which "+
			"CUDA_VISIBLE_DEVICES leaves %d: none of those asked for",
			len(found), len(places))}
	}
	s.events = s.listen(cmp.Or(cfg.Logger, slog.Default()))
	return s, nil
}

// Devices lists the devices that were found.
func (s *Source) Devices() []gpu.Device {
	var devices []gpu.Device
	for _, d := range s.devices {
		devices = append(devices, d.Device)
	}
	return devices
}

// Missing lists the devices that were asked for and are not there.
func (s *Source) Missing() []gpu.Device { return s.missing }

// Close stops listening for errors, which takes up to a fifth of a second, and lets go of the driver.
func (s *Source) Close() error {
	s.events.close()
	if ret := s.lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("shut down NVML: %s", describe(ret))
	}
	return nil
}

// has reports whether the library has one of the functions.
func (s *Source) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		known, ok := s.symbols[name]
		if !ok {
			known = s.lib.Extensions().LookupSymbol(name) == nil
			s.symbols[name] = known
		}
		return known
	})
}
