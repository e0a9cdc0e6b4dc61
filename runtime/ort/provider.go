package ort

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	onnxruntime "github.com/yalue/onnxruntime_go"
)

// The execution providers that Options.Providers can name.
const (
	CPU  = "cpu"
	CUDA = "cuda"
)

// Options say how a model is to be executed.
type Options struct {
	// Providers are tried in this order; the first that can be had executes the model. Empty: CPU. With CUDA, the operators
	// that it lacks run on the CPU all the same.
	Providers []string
	// IntraOpThreads is how many threads share one operator. 0: one, which leaves the processors to other batches.
	IntraOpThreads int
	// DeviceID is the CUDA device.
	DeviceID int
}

// withProviders creates the session with the first provider that can be had. The notes tell of those that could not.
func withProviders(path string, o Options) (session *onnxruntime.DynamicAdvancedSession, provider string, notes []string, err error) {
	providers := o.Providers
	if len(providers) == 0 {
		providers = []string{CPU}
	}
	for _, p := range providers {
		if p != CPU && p != CUDA {
			return nil, "", nil, fmt.Errorf("unknown execution provider %q: there are %s and %s", p, CPU, CUDA)
		}
	}
	var failed []string
	for _, p := range providers {
		session, err := create(path, o, p)
		if err == nil {
			for _, f := range failed {
				notes = append(notes, fmt.Sprintf("%s; using %s", f, p))
			}
			return session, p, notes, nil
		}
		if p == CPU {
			failed = append(failed, err.Error())
		} else {
			failed = append(failed, fmt.Sprintf("%s asked for but not there: %v", p, err))
		}
	}
	return nil, "", nil, errors.New(strings.Join(failed, "; "))
}

func create(path string, o Options, provider string) (*onnxruntime.DynamicAdvancedSession, error) {
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
	open := func() (*onnxruntime.DynamicAdvancedSession, error) {
		session, err := onnxruntime.NewDynamicAdvancedSession(path, nil, nil, options)
		if err != nil {
			return nil, explain(err)
		}
		return session, nil
	}
	if provider == CPU {
		return open()
	}
	return keepSignals(func() (*onnxruntime.DynamicAdvancedSession, error) {
		if err := appendCUDA(options, o.DeviceID); err != nil {
			return nil, err
		}
		return open()
	})
}

func appendCUDA(options *onnxruntime.SessionOptions, device int) error {
	cuda, err := onnxruntime.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	defer func() { _ = cuda.Destroy() }() // fails only on options that were never made
	if err := cuda.Update(map[string]string{"device_id": strconv.Itoa(device)}); err != nil {
		return err
	}
	return options.AppendExecutionProviderCUDA(cuda)
}

// explain drops the binding's preface to ONNX Runtime's text and adds what the text leaves out.
func explain(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	switch text := err.Error(); {
	case strings.Contains(text, "Failed to construct locale"):
		return fmt.Errorf("%w (a StringNormalizer of the model wants a locale that this system lacks; install it, or compile "+
			"it into a folder, such as `localedef -i en_US -f UTF-8 DIR/en_US.UTF-8`, and set LOCPATH=DIR)", err)
	case strings.Contains(text, "Protobuf parsing failed"):
		return fmt.Errorf("%w (the file is damaged, cut short, or not an ONNX model)", err)
	}
	return err
}
