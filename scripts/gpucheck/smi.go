package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// errNoSMI says that there is no nvidia-smi to ask.
var errNoSMI = errors.New("nvidia-smi is not there")

// querySMI returns what nvidia-smi says of a device, by field of its --query-gpu, without units. The device is its UUID, or its name
// such as cuda:0, which is true where CUDA sees all GPUs in the order of their buses.
func querySMI(ctx context.Context, device string, fields ...string) (map[string]string, error) {
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil, errNoSMI
	}
	id := strings.TrimPrefix(device, "cuda:")
	out, err := exec.CommandContext(ctx, path, "--id="+id, "--query-gpu="+strings.Join(fields, ","), "--format=csv,noheader,nounits").Output()
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi: %w: %s", err, out)
	}
	values := strings.Split(strings.TrimSpace(string(out)), ", ")
	if len(values) != len(fields) {
		return nil, fmt.Errorf("nvidia-smi answered %q to a query for %v", out, fields)
	}
	answer := map[string]string{}
	for i, field := range fields {
		answer[field] = values[i]
	}
	return answer, nil
}

// smiNumber reads a value of nvidia-smi; false where the device does not have it.
func smiNumber(value string) (float64, bool) {
	n, err := strconv.ParseFloat(value, 64)
	return n, err == nil
}
