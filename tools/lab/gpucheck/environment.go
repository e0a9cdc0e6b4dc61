package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/weftserve/weft/runtime/ort"
)

// environment records the environment of the checks in the report.
func (s *suite) environment(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // a driver that hangs must not hold up the rest
	defer cancel()
	var b bytes.Buffer
	fmt.Fprintf(&b, "time: %s\nsystem: %s/%s, %d processors, %s\nONNX Runtime: %s, %s\n",
		time.Now().UTC().Format(time.RFC3339), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(),
		ort.Version(), s.ONNXRuntimeLib)
	version, err := exec.CommandContext(ctx, s.Weft, "version").Output()
	if err != nil {
		return fmt.Errorf("%s version: %w", s.Weft, err)
	}
	fmt.Fprintf(&b, "server: %s", version)
	// Where there is no nvidia-smi, its absence is reported.
	said, err := exec.CommandContext(ctx, "nvidia-smi").CombinedOutput()
	if err != nil {
		fmt.Fprintf(&b, "nvidia-smi: %v\n", err)
	}
	b.Write(said)
	product := fmt.Sprintf("%s, %d processors", s.Device, runtime.NumCPU())
	if s.onGPU() {
		product = s.Device
		if values, err := querySMI(ctx, s.Device, "name", "driver_version"); err == nil {
			product += fmt.Sprintf(", %s, driver %s", values["name"], values["driver_version"])
		}
	}
	s.report.tell("device", fmt.Sprintf("%s; ONNX Runtime %s", product, ort.Version()))
	return os.WriteFile(filepath.Join(s.Out, "environment.txt"), b.Bytes(), 0o644)
}
