package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weftserve/weft/tools/lab/harness"
)

const (
	modelName = "model" // what is asked
	otherName = "other" // what the caller asks that one server has to itself

	base, perRow = 16 * time.Millisecond, time.Millisecond
	mostRows     = 32
	otherTime    = 24 * time.Millisecond // of an execution of the other model
)

// capacity is how many rows a second a device does at full speed.
const capacity = float64(mostRows) / (float64(base+mostRows*perRow) / float64(time.Second))

// target is where a server listens. Its pod is the name that it keeps when it is replaced.
type target struct{ pod, grpc, http string }

// replica is a server.
type replica struct {
	*harness.Server

	pod string
}

func (r *replica) target() target { return target{r.pod, r.GRPC, r.HTTP} }

// device is how a server's synthetic device is.
type device struct {
	base, perRow time.Duration
	versions     []int64 // of the model; nil: 1
}

// slowed is the device of most cells.
func slowed(by float64) device {
	return device{time.Duration(by * float64(base)), time.Duration(by * float64(perRow)), nil}
}

// manifest is the settings of a synthetic model. Without mode on, a noisy start would leave it unbatched. What waits
// because the machine is busy with something else is not refused.
const manifest = `synth: {base: %v, per_row: %v, inputs: {x: {dtype: fp32, shape: [-1, 4]}}, outputs: {y: {dtype: fp32, shape: [-1, 4]}}}
batching: {mode: "%s", max_batch_size: %d, max_batch_cost: 10s, max_queue: 100000}
max_latency: 0s
versions: {policy: all}
%s`

// write writes the repository of a server.
func (d device) write(folder string, by float64) error {
	if d.versions == nil {
		d.versions = []int64{1}
	}
	traffic := ""
	if len(d.versions) > 1 {
		traffic = "traffic: {split: [{slot: a, version: 1, weight: 50}, {slot: b, version: 2, weight: 50}]}\n"
	}
	other := fmt.Sprintf(manifest, time.Duration(by*float64(otherTime)), time.Duration(0), "off", 1, "")
	for _, v := range d.versions {
		if err := os.MkdirAll(filepath.Join(folder, modelName, strconv.FormatInt(v, 10)), 0o755); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(folder, otherName, "1"), 0o755); err != nil {
		return err
	}
	return harness.WriteAll(folder, map[string][]byte{
		modelName + "/model.yaml": fmt.Appendf(nil, manifest, d.base, d.perRow, "on", mostRows, traffic),
		otherName + "/model.yaml": []byte(other),
	})
}

// start starts a server. Each has a folder of its own, with its models and its log.
func (r *trial) start(pod string, d device, flags ...string) (*replica, error) {
	r.started++
	folder := filepath.Join(r.folder, fmt.Sprintf("%03d-%s", r.started, pod))
	repository := filepath.Join(folder, "models")
	if err := d.write(repository, float64(r.Slow)); err != nil {
		return nil, err
	}
	s, err := harness.Start(r.ctx, harness.Options{
		Program: r.Weft, Log: filepath.Join(folder, "server.log"), Stop: time.Minute,
		Args: harness.Serve(repository, append([]string{"--admin-listen=", "--watch-interval=0s"}, flags...)...),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pod, err)
	}
	// A server does not wait for models whose warm-up takes seconds, as that of a slow device does.
	for end := time.Now().Add(time.Minute); ; pause(r.ctx, 50*time.Millisecond) {
		if _, err = s.Get(r.ctx, "/readyz/"+modelName); err == nil {
			return &replica{s, pod}, nil
		}
		if r.ctx.Err() != nil || time.Now().After(end) {
			return nil, errors.Join(fmt.Errorf("%s: %w", pod, err), s.Stop())
		}
	}
}

// startAll starts servers, one for each device, with the pods pod-0, pod-1, ...
func (r *trial) startAll(devices []device, flags ...string) (fleet, error) {
	var all fleet
	for i, d := range devices {
		s, err := r.start(fmt.Sprintf("pod-%d", i), d, flags...)
		if err != nil {
			return nil, errors.Join(err, all.stop())
		}
		all = append(all, s)
	}
	return all, nil
}

// fleet is the servers that run, by their pods.
type fleet []*replica

func (f fleet) targets() (all []target) {
	for _, s := range f {
		all = append(all, s.target())
	}
	return all
}

// stop stops all that have not ended.
func (f fleet) stop() error {
	var all errgroup.Group
	for _, s := range f {
		if !s.Died() {
			all.Go(s.Stop)
		}
	}
	return all.Wait()
}

// kill kills a server, and returns once it has ended.
func (r *replica) kill() error {
	if err := syscall.Kill(r.PID(), syscall.SIGKILL); err != nil {
		return err
	}
	_ = r.Stop() // says that it was killed
	return nil
}

// answered is how many requests to the model ended, at the first server and at all.
func (f fleet) answered(ctx context.Context) (first, all float64, err error) {
	for i, s := range f {
		m, err := s.Metrics(ctx)
		if err != nil {
			return 0, 0, err
		}
		for _, series := range m["weft_requests_total"].GetMetric() {
			if harness.LabelOf(series, "model") == modelName {
				all += series.GetCounter().GetValue()
			}
		}
		if i == 0 {
			first = all
		}
	}
	return first, all, nil
}
