package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

var (
	// errNoSMI says that there is no nvidia-smi to ask.
	errNoSMI = errors.New("nvidia-smi is not there")
	// errSMIHasNoParts says that nvidia-smi does not have the values asked here for a part of a GPU.
	errSMIHasNoParts = errors.New("nvidia-smi cannot be queried for a MIG instance")
)

const (
	// smiPatience is how long nvidia-smi may take. Where nothing keeps the driver awake it takes seconds.
	smiPatience = 15 * time.Second
	// partPrefix begins the UUIDs of MIG instances.
	partPrefix = "MIG-"
)

// smiValues are nvidia-smi's values of a device, by field of its --query-gpu, without units.
type smiValues map[string]string

// number reads a value; the error says why there is none.
func (v smiValues) number(field string) (float64, error) {
	return readSMI(v, field, func(value string) (float64, error) { return strconv.ParseFloat(value, 64) })
}

// readSMI reads a value. Where the device does not have it, nvidia-smi says "[N/A]" or the like.
func readSMI[T any](values smiValues, field string, parse func(string) (T, error)) (read T, err error) {
	value, known := values[field]
	if !known {
		return read, fmt.Errorf("nvidia-smi does not know %s", field)
	}
	if read, err = parse(value); err != nil {
		err = fmt.Errorf("nvidia-smi says %q of %s", value, field)
	}
	return read, err
}

// querySMI asks for the values of a device. The device is its UUID, or its name such as cuda:0, which is true where
// CUDA sees all GPUs in the order of their buses.
func querySMI(ctx context.Context, device string, fields ...string) (smiValues, error) {
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil, errNoSMI
	}
	if strings.HasPrefix(device, partPrefix) {
		return nil, errSMIHasNoParts
	}
	ctx, cancel := context.WithTimeout(ctx, smiPatience)
	defer cancel()
	var said, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, path, "--id="+strings.TrimPrefix(device, "cuda:"),
		"--query-gpu="+strings.Join(fields, ","), "--format=csv,noheader,nounits")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &said, &complaint, time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("nvidia-smi: %w: %s %s", err, &said, &complaint)
	}
	// One line for each device; a driver may add others that warn.
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	values := strings.Split(lines[len(lines)-1], ",")
	if len(values) != len(fields) {
		return nil, fmt.Errorf("nvidia-smi answered %q to a query for %v", &said, fields)
	}
	answer := smiValues{}
	for i, field := range fields {
		answer[field] = strings.TrimSpace(values[i])
	}
	return answer, nil
}

// knownToSMI returns those of the fields that this nvidia-smi knows: one that it does not know would spoil a query for
// all. The error says why it knows none.
func knownToSMI(ctx context.Context, device string, fields []string) (known []string, err error) {
	for _, field := range fields {
		if _, err = querySMI(ctx, device, field); err == nil {
			known = append(known, field)
		}
	}
	if len(known) > 0 {
		err = nil
	}
	return known, err
}

// smiName returns nvidia-smi's name of the device: its UUID, or where the server does not know that, its number.
func (s *suite) smiName(ctx context.Context, v *server) string {
	told, err := v.metrics(ctx)
	if err != nil {
		return s.Device
	}
	info, err := told.Find("weft_gpu_info", "device", s.Device)
	if err != nil {
		return s.Device
	}
	return harness.LabelOf(info, "uuid")
}
