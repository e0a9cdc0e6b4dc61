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

// querySMI returns nvidia-smi's values of a device, by field of its --query-gpu, without units. The device is its UUID,
// or its name such as cuda:0, which is true where CUDA sees all GPUs in the order of their buses.
func querySMI(ctx context.Context, device string, fields ...string) (map[string]string, error) {
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
	answer := map[string]string{}
	for i, field := range fields {
		answer[field] = strings.TrimSpace(values[i])
	}
	return answer, nil
}

// knownToSMI returns those of the fields that this nvidia-smi knows: one that it does not know would spoil a query for
// all.
func knownToSMI(ctx context.Context, device string, fields []string) (known []string, err error) {
	for _, field := range fields {
		var one error
		if _, one = querySMI(ctx, device, field); one == nil {
			known = append(known, field)
		} else if err == nil {
			err = one
		}
	}
	if len(known) > 0 {
		err = nil
	}
	return known, err
}

// smiNumber reads a value of nvidia-smi; false where the device does not have it, for which it says "[N/A]" or the
// like.
func smiNumber(value string) (float64, bool) {
	n, err := strconv.ParseFloat(value, 64)
	return n, err == nil
}
