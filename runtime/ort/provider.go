package ort

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"github.com/weftserve/weft/runtime/engine"
)

// The execution providers that Options.Providers can name. TensorRT leaves the operators that it lacks to CUDA.
const (
	CPU      = "cpu"
	CUDA     = "cuda"
	TensorRT = "tensorrt"
	OpenVINO = "openvino"
	CoreML   = "coreml"
)

// providerName returns ONNX Runtime's name for a provider, and its library; "" if it is part of ONNX Runtime's own.
type providerName struct{ ours, theirs, file string }

var providerNames = []providerName{
	{CPU, "CPUExecutionProvider", ""},
	{CUDA, "CUDAExecutionProvider", "cuda"},
	{TensorRT, "TensorrtExecutionProvider", "tensorrt"},
	{OpenVINO, "OpenVINOExecutionProvider", "openvino"},
	{CoreML, "CoreMLExecutionProvider", ""},
}

// theirName is ONNX Runtime's name for a provider.
func theirName(provider string) string {
	at := slices.IndexFunc(providerNames, func(n providerName) bool { return n.ours == provider })
	return providerNames[at].theirs
}

// onCUDA reports whether a provider computes on a CUDA device.
func onCUDA(provider string) bool { return provider == CUDA || provider == TensorRT }

// made is a session of ONNX Runtime.
type made struct {
	session  *onnxruntime.DynamicAdvancedSession
	provider string
	graphs   bool // it captures CUDA graphs
	// notes name the providers and options that were asked for and are not there.
	notes []string
}

// withProviders creates the session with the first provider that can be had.
func withProviders(src *Source, o Options) (made, error) {
	providers := o.Providers
	if len(providers) == 0 {
		providers = []string{CPU}
	}
	for _, p := range providers {
		if !slices.ContainsFunc(providerNames, func(n providerName) bool { return n.ours == p }) {
			return made{}, fmt.Errorf("unknown execution provider %q: there are %s, %s, %s, %s and %s", p, CPU, CUDA,
				TensorRT, OpenVINO, CoreML)
		}
	}
	have, err := Providers()
	if err != nil {
		return made{}, err
	}
	return firstOf(providers, have, func(p string) (made, error) { return ofProvider(src, o, p) })
}

// firstOf returns the result of the first provider that can be had. Where a GPU is lost, or has no memory now, the
// processor does not step in: that is an *engine.Error, by which the caller may try another GPU first.
func firstOf(providers, have []string, try func(provider string) (made, error)) (made, error) {
	var failed []string
	var blamed *engine.Error
	for _, p := range providers {
		if blamed != nil && (blamed.Kind == engine.DeviceLost || !onCUDA(p)) {
			break
		}
		m, err := try(p)
		if err == nil {
			for i, f := range failed {
				failed[i] = fmt.Sprintf("%s; using %s", f, p)
			}
			m.notes = append(failed, m.notes...)
			return m, nil
		}
		d := blameDevice(p, err)
		switch {
		case d != nil:
			blamed = d
			failed = append(failed, fmt.Sprintf("%s asked for but its device cannot take the model now: %v", p, err))
		case p == CPU:
			failed = append(failed, err.Error())
		default:
			if !slices.Contains(have, p) {
				err = fmt.Errorf("the ONNX Runtime library (version %s) has %s (%w)", Version(),
					strings.Join(have, ", "), err)
			}
			failed = append(failed, fmt.Sprintf("%s asked for but not there: %v", p, err))
		}
	}
	err := errors.New(strings.Join(failed, "; "))
	if blamed != nil {
		return made{}, &engine.Error{Kind: blamed.Kind, Err: err}
	}
	return made{}, err
}

// ofProvider creates the session with one provider. Where the model does not allow CUDA graphs a note says so, and it
// has none.
func ofProvider(src *Source, o Options, provider string) (made, error) {
	m := made{provider: provider, graphs: o.CUDAGraphs && provider == graphDevice.provider}
	if o.CUDAGraphs && provider == TensorRT {
		m.notes = append(m.notes, noGraphs(errors.New("they are captured with the provider cuda only")))
	}
	if o.DeviceMemory > 0 && provider == TensorRT {
		m.notes = append(m.notes,
			"device_memory_limit asked for but not possible: the provider tensorrt knows none; running without")
	}
	o.CUDAGraphs = m.graphs
	var err error
	m.session, err = create(src, o, provider)
	if err != nil && m.graphs && blameDevice(provider, err) == nil {
		m.graphs, m.notes = false, []string{noGraphs(err)}
		o.CUDAGraphs = false
		m.session, err = create(src, o, provider)
	}
	if err != nil || !onCUDA(provider) {
		return m, err
	}
	notes, err := inspect(m.session, o.DeviceID)
	if err != nil {
		return made{}, errors.Join(err, destroy(m.session, provider))
	}
	m.notes = append(m.notes, notes...)
	return m, nil
}

// inspect finds what would show only when a session on a GPU is run: an error says that it cannot be, the notes which
// part of it runs elsewhere.
func inspect(session *onnxruntime.DynamicAdvancedSession, device int) (notes []string, err error) {
	if err := checkGPUCode(device); err != nil {
		return nil, err
	}
	p, err := placementOf(session)
	if err != nil {
		return nil, err
	}
	return p.notes(), checkCuDNN(p)
}

// noGraphs is the note of a session that has no CUDA graphs although it was asked to.
func noGraphs(why error) string {
	return fmt.Sprintf("cuda_graphs asked for but not possible: %v; running without", why)
}

func create(src *Source, o Options, provider string) (*onnxruntime.DynamicAdvancedSession, error) {
	options, err := onnxruntime.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	defer func() { _ = options.Destroy() }() // fails only on options that were never made
	if err := options.SetIntraOpNumThreads(max(o.IntraOpThreads, 1)); err != nil {
		return nil, err
	}
	// Idle threads must not burn the processors that other models need.
	if err := options.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"); err != nil {
		return nil, err
	}
	if err := registerOperators(options, o.Operators); err != nil {
		return nil, err
	}
	open := func() (*onnxruntime.DynamicAdvancedSession, error) {
		session, err := src.create(options)
		if err != nil {
			return nil, explain(err)
		}
		return session, nil
	}
	if provider == CPU {
		return open()
	}
	on := -1
	if onCUDA(provider) {
		on = o.DeviceID
	}
	session, err := keepSignals(func() (*onnxruntime.DynamicAdvancedSession, error) {
		// Here, because a caller that only waits for others to be opened need not keep a capture waiting.
		device.opening.enter()
		defer device.opening.leave()
		if err := options.AddSessionConfigEntry(recordPlacement, digit(on >= 0)); err != nil {
			return nil, err
		}
		if err := appendProvider(options, &o, provider); err != nil {
			return nil, askDevice(on, explain(err))
		}
		session, err := open()
		return session, askDevice(on, err)
	})
	if d := blameDevice(provider, err); d != nil && d.Kind == engine.DeviceLost {
		LoseDevice(o.DeviceID, err)
	}
	return session, err
}

func appendProvider(options *onnxruntime.SessionOptions, o *Options, provider string) error {
	switch provider {
	case CUDA:
		return appendCUDA(options, o)
	case TensorRT:
		if err := appendTensorRT(options, o); err != nil {
			return err
		}
		return appendCUDA(options, o)
	case OpenVINO:
		return options.AppendExecutionProviderOpenVINO(nil)
	default:
		return options.AppendExecutionProviderCoreMLV2(nil)
	}
}

func appendCUDA(options *onnxruntime.SessionOptions, o *Options) error {
	cuda, err := onnxruntime.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	defer func() { _ = cuda.Destroy() }() // fails only on options that were never made
	if err := cuda.Update(o.cuda()); err != nil {
		return err
	}
	return options.AppendExecutionProviderCUDA(cuda)
}

func appendTensorRT(options *onnxruntime.SessionOptions, o *Options) error {
	tensorRT, err := onnxruntime.NewTensorRTProviderOptions()
	if err != nil {
		return err
	}
	defer func() { _ = tensorRT.Destroy() }() // fails only on options that were never made
	if err := tensorRT.Update(map[string]string{"device_id": strconv.Itoa(o.DeviceID)}); err != nil {
		return err
	}
	return options.AppendExecutionProviderTensorRT(tensorRT)
}
