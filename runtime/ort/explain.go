package ort

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// What ONNX Runtime says of a provider that it cannot load, and of one without a device.
var (
	loadFailed = regexp.MustCompile(`Failed to load library (\S+) with error: (.*)`)
	noDevice   = regexp.MustCompile(`CUDA failure (\d+): ([^;]*) ;.*cudaGetDeviceCount`)
	wrongID    = regexp.MustCompile(`Invalid device ID: .*`)
)

// explain drops the binding's preface to ONNX Runtime's text, and adds what the text leaves out.
func explain(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "Failed to construct locale"):
		return fmt.Errorf("%w (a StringNormalizer of the model wants a locale that this system lacks; install it, or compile "+
			"it into a folder, such as `localedef -i en_US -f UTF-8 DIR/en_US.UTF-8`, and set LOCPATH=DIR)", err)
	case strings.Contains(text, "Protobuf parsing failed"):
		return fmt.Errorf("%w (the file is damaged, cut short, or not an ONNX model)", err)
	case strings.Contains(text, "is not enabled in this build"):
		return fmt.Errorf("%s: name an ONNX Runtime library that was built for it with --onnxruntime-lib", strings.TrimSuffix(text, "."))
	}
	if m := noDevice.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("no CUDA device can be used: %s (CUDA error %s); nvidia-smi should list one", m[2], m[1])
	}
	if m := wrongID.FindString(text); m != "" {
		return errors.New(m)
	}
	if m := loadFailed.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%s cannot be loaded: %s; install the execution providers of the same ONNX Runtime release beside it, and the "+
			"libraries that they need, or choose another provider", m[1], strings.TrimPrefix(m[2], m[1]+": "))
	}
	return err
}
