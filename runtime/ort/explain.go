package ort

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// ONNX Runtime's texts for a provider that it cannot load, and for one without a device.
var (
	loadFailed = regexp.MustCompile(`Failed to load library (\S+) with error: (.*)`)
	// notFound is the loader's word for a library that it does not find.
	notFound = regexp.MustCompile(`^(\S+): cannot open shared object file`)
	noDevice = regexp.MustCompile(`CUDA failure (\d+): ([^;]*) ;.*cudaGetDeviceCount`)
	wrongID  = regexp.MustCompile(`Invalid device ID: .*`)
	// A model from the future.
	newerIR    = regexp.MustCompile(`Unsupported model IR version: (\d+), max supported IR version: (\d+)`)
	newerOpset = regexp.MustCompile(`Opset (\d+) is under development .*support for domain (\S+) is till opset (\d+)`)
)

// explain drops the binding's preface to ONNX Runtime's text, and adds the advice that the text lacks.
func explain(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "Failed to construct locale"):
		return fmt.Errorf("%w (a StringNormalizer of the model wants a locale that this system lacks; install it, or "+
			"compile "+
			"it into a folder, such as `localedef -i en_US -f UTF-8 DIR/en_US.UTF-8`, and set LOCPATH=DIR)", err)
	case strings.Contains(strings.ToLower(text), "protobuf parsing failed"):
		return fmt.Errorf("%w (the file is damaged, cut short, or not an ONNX model)", err)
	case strings.Contains(text, "Unrecognized attribute: "):
		return fmt.Errorf("%w (the operators are of a later opset than the model names, as PyTorch's exporter writes them "+
			"for an opset_version below 18: export without opset_version)", err)
	case strings.Contains(text, "is not a registered function/op"):
		return fmt.Errorf("%w (this ONNX Runtime has no such operator: if it is of a library of custom operators, name that "+
			"with --ort-ops)", err)
	case strings.Contains(text, "is not enabled in this build"):
		return fmt.Errorf("%s: %s", strings.TrimSuffix(text, "."), otherLibrary)
	}
	if m := noDevice.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("no CUDA device can be used: %s (CUDA error %s); nvidia-smi should list one", m[2], m[1])
	}
	if m := wrongID.FindString(text); m != "" {
		return errors.New(m)
	}
	if m := loadFailed.FindStringSubmatch(text); m != nil {
		return explainLoad(m[1], m[2])
	}
	const newer = "or name a newer ONNX Runtime with --onnxruntime-lib"
	if m := newerIR.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("it has IR version %s, and this ONNX Runtime reads up to %s: set the model's ir_version to that "+
			"and save it again, %s", m[1], m[2], newer)
	}
	if m := newerOpset.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("it uses opset %s of %s, and this ONNX Runtime has up to %s: export it with that opset_version or "+
			"a lower one, %s", m[1], m[2], m[3], newer)
	}
	return err
}

const otherLibrary = "name an ONNX Runtime library that was built for it with --onnxruntime-lib or " +
	"WEFT_ONNXRUNTIME_LIB; " +
	"docs/install/gpu.md tells where to get one for NVIDIA's GPUs"

// explainLoad distinguishes a missing library of a provider from a missing library that this one needs in turn, since
// each is mended in another way.
func explainLoad(provider, fault string) error {
	m := notFound.FindStringSubmatch(fault)
	switch {
	case m == nil: // of another release, say
		return fmt.Errorf("%s cannot be loaded: %s; it must be of the same release as the ONNX Runtime library, and "+
			"the libraries that it "+
			"needs of the releases that it was built for", provider, strings.TrimPrefix(fault, provider+": "))
	case m[1] == provider:
		return fmt.Errorf("%s is missing: install the execution providers of the same ONNX Runtime release beside its "+
			"library, or %s", provider, otherLibrary)
	case strings.HasPrefix(m[1], "libcuda.so"):
		return fmt.Errorf("%s needs %s, which is not found: it comes with NVIDIA's driver; install that, or have it "+
			"passed into the container "+
			"(--gpus all)", provider, m[1])
	case strings.Contains(filepath.Base(provider), TensorRT):
		return fmt.Errorf("%s needs %s, which is not found: it needs NVIDIA's TensorRT and CUDA libraries of the "+
			"releases that it was built for "+
			"where the system looks, such as a folder in LD_LIBRARY_PATH; docs/install/gpu.md tells of them", provider, m[1])
	case strings.Contains(filepath.Base(provider), CUDA):
		return fmt.Errorf("%s needs %s, which is not found: it needs NVIDIA's CUDA libraries of the release that it "+
			"was built for "+
			"where the system looks, such as a folder in LD_LIBRARY_PATH; docs/install/gpu.md tells which, and where to get "+
			"them", provider, m[1])
	}
	return fmt.Errorf("%s needs %s, which is not found: install it where the system looks, such as a folder in "+
		"LD_LIBRARY_PATH", provider, m[1])
}
