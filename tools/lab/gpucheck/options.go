package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// options are the command line.
type options struct {
	Weft           string        `default:"bin/weft" placeholder:"FILE" help:"The server to check (${default})."`
	Models         []string      `default:"examples/models" placeholder:"DIR" help:"Repositories whose models must answer on the device as on the CPU (${default})."`
	TestModels     []string      `env:"WEFT_TEST_MODELS" placeholder:"DIR" help:"More of them."`
	Out            string        `placeholder:"DIR" help:"Put everything into this new folder (.weft/gpu-check/<time>)."`
	Device         string        `default:"cuda" help:"What to check: cuda, cuda:N, or cpu, for which the figures are information only (${default})."`
	ONNXRuntimeLib string        `name:"onnxruntime-lib" env:"WEFT_ONNXRUNTIME_LIB" placeholder:"FILE" help:"The ONNX Runtime library; empty: search for it."`
	Span           time.Duration `default:"10s" help:"How long each measurement lasts (${default})."`
	Limit          time.Duration `default:"9m" help:"How long all of it may take; what was not checked by then has failed (${default})."`
	Only           []string      `placeholder:"CHECK" help:"Make these checks only: ${checks}."`
}

var deviceName = regexp.MustCompile(`^(cpu|cuda(:[0-9]{1,3})?)$`)

// check completes the options; the error says what is wrong with them.
func (o *options) check() error {
	if !deviceName.MatchString(o.Device) {
		return fmt.Errorf("--device %s: expected cuda, cuda:N or cpu", o.Device)
	}
	if o.Device == "cuda" {
		o.Device = "cuda:0" // as the server calls it
	}
	if o.Span < 100*time.Millisecond {
		return fmt.Errorf("--span %v: nothing can be measured in less than 100ms", o.Span)
	}
	if o.Limit <= 0 {
		return fmt.Errorf("--limit %v: expected a time", o.Limit)
	}
	for _, name := range o.Only {
		if !slices.Contains(checkNames(), name) {
			return fmt.Errorf("--only %s: there are the checks %s", name, strings.Join(checkNames(), ", "))
		}
	}
	if _, err := os.Stat(o.Weft); err != nil {
		return fmt.Errorf("--weft: %w (`make build` builds it)", err)
	}
	for _, dir := range o.repositories() {
		if _, err := os.Stat(dir); err != nil {
			return fmt.Errorf("--models: %w", err)
		}
	}
	if o.Out == "" {
		o.Out = filepath.Join(".weft", "gpu-check", time.Now().UTC().Format("2006-01-02T15-04-05"))
	}
	return nil
}

// repositories returns all repositories that models are taken from.
func (o *options) repositories() []string { return slices.Concat(o.Models, o.TestModels) }

// onGPU reports whether a GPU is checked.
func (o *options) onGPU() bool { return o.Device != cpu }

const cpu = "cpu"

// provider returns the execution provider of the device, as manifests and runtime/ort call it.
func (o *options) provider() string {
	name, _, _ := strings.Cut(o.Device, ":")
	return name
}
