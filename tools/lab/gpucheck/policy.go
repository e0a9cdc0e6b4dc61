package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// setting is one of onnx, after a comma, with which a model is served under a name of its own: the model's, and the
// suffix.
type setting struct{ suffix, text string }

var (
	graphsSetting = setting{"_graphs", ", cuda_graphs: true"}
	pinSetting    = setting{"_locked", ", pin_buffers: true"}
)

// contest is a network that is served as it is and, on a GPU, with a setting.
type contest struct {
	model   string
	set     setting
	width   int // of its input
	network []byte
}

// contests returns the networks to compare: a small policy and a deeper one with CUDA graphs and without, and a model
// with a large input with page-locked buffers and without.
func contests() (graphs []contest, pinned contest) {
	mlp := func(model string, set setting, activation, output string, sizes ...int) contest {
		return contest{model, set, sizes[0], onnxgraph.MLP(model, sizes, 1, activation, output)}
	}
	deep := []int{policyInput}
	for range 16 {
		deep = append(deep, 256)
	}
	return []contest{
		mlp("policy", graphsSetting, "Elu", "Tanh", policyInput, 256, 128, policyOutput),
		mlp("deep_policy", graphsSetting, "Elu", "Tanh", append(deep, policyOutput)...),
	}, mlp("frames", pinSetting, "Tanh", "", 3*224*224, 4) // numbers of a camera's picture
}

// policy times single batches, with settings and without. A lone caller asks the variants in turn, with other numbers
// each time, so that neither a drifting clock nor an answer to an earlier question goes unnoticed.
func (s *suite) policy(ctx context.Context) error {
	repository := s.repository("policy")
	graphs, pinned := contests()
	if !s.onGPU() {
		s.report.skip("policy: CUDA graphs", "there is no GPU")
		s.report.skip("frames: page-locked buffers", "there is no GPU")
	}
	for _, c := range append(graphs, pinned) {
		if err := s.placeContest(repository, &c); err != nil {
			return err
		}
	}
	return s.serve(ctx, "policy", repository, func(v *server) error {
		var errs []error
		for _, c := range graphs {
			for _, rows := range []int{1, 8, 64} {
				errs = append(errs, s.compareGraphs(ctx, v, &c, rows))
			}
			errs = append(errs, s.reportHits(ctx, v, &c))
		}
		without, with, far, err := s.compareVariants(ctx, v, &pinned, 8)
		if err == nil {
			s.report.tell("frames: batch of 8, 588 KiB each", tell(without))
			if with > 0 {
				s.report.tell("frames: page-locked buffers", change(with, without))
				s.report.judge("frames: answers with page-locked buffers", s.tolerances(), far.String(), far.within)
			}
		}
		return errors.Join(append(errs, err)...)
	})
}

// compareGraphs compares batches of that many rows with CUDA graphs and without.
func (s *suite) compareGraphs(ctx context.Context, v *server, c *contest, rows int) error {
	without, with, far, err := s.compareVariants(ctx, v, c, rows)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s: batch of %d", c.model, rows)
	s.report.tell(name, tell(without))
	if with > 0 {
		s.report.timed(name+", CUDA graphs", "< "+tell(without), change(with, without), with < without)
		s.report.judge(name+", answers with CUDA graphs", s.tolerances(), far.String(), far.within)
	}
	return nil
}

// placeContest writes the variants that the device allows into a repository.
func (s *suite) placeContest(repository string, c *contest) error {
	onnx := []string{"", c.set.text}
	for i, model := range s.variants(c) {
		if _, err := s.place(repository, model, c.network, onnx[i],
			"batching: {mode: \"on\", allowed_batch_sizes: [1, 8, 64]}\n"); err != nil {
			return err
		}
	}
	return nil
}

// variants returns the names under which the device allows to serve the network, the plain one first.
func (s *suite) variants(c *contest) []string {
	if s.onGPU() {
		return []string{c.model, c.model + c.set.suffix}
	}
	return []string{c.model}
}

// compareVariants returns the median device time of a batch without the setting and with it, 0 where the device does
// not allow it, and how far the answers with it are from those without.
func (s *suite) compareVariants(ctx context.Context, v *server, c *contest, rows int,
) (without, with time.Duration, far difference, err error) {
	const questions = 8
	numbers, size := randomFloats(questions*rows*c.width), 4*rows*c.width
	request := rowsOf("", onnxgraph.MLPInput, rows, c.width)
	var took [2][]time.Duration
	far.within = true
	end := time.Now().Add(s.Span / 4)
	for k := 0; k < 3*questions || time.Now().Before(end); k++ {
		request.Inputs[onnxgraph.MLPInput].Raw = numbers[k%questions*size:][:size]
		var truth *weftv1.PredictResponse
		for i, model := range s.variants(c) {
			request.Model.Name = model
			answer, err := v.predictions().Predict(ctx, request)
			if err != nil {
				return 0, 0, far, fmt.Errorf("%s: %w", model, err)
			}
			took[i] = append(took[i], time.Duration(answer.GetExecution().GetDeviceUs())*time.Microsecond)
			if truth == nil {
				truth = answer
			}
			far.add(s.compare(fmt.Sprintf("%s, %d rows", model, rows), outputs(truth), outputs(answer)))
		}
	}
	if s.onGPU() {
		with = median(took[1])
	}
	return median(took[0]), with, far, nil
}

// reportHits reads how many executions replayed a captured graph.
func (s *suite) reportHits(ctx context.Context, v *server, c *contest) error {
	page, err := v.metrics(ctx)
	if err != nil {
		return err
	}
	for i, model := range s.variants(c) {
		hits, err := page.Value("weft_captured_graph_hit_rate", "model", model)
		if err != nil {
			return err
		}
		name, bound, met := ": replayed graphs where none were asked for", "0 %", hits == 0
		if i > 0 {
			name, bound = ": replayed graphs", fmt.Sprintf("≥ %g %%", 100*s.bounds.graphHits)
			met = hits >= s.bounds.graphHits
		}
		s.report.judge(model+name, bound, fmt.Sprintf("%.1f %%", 100*hits), met)
	}
	return nil
}

func tell(d time.Duration) string { return fmt.Sprintf("%d µs", d.Microseconds()) }

// change describes the change of a time.
func change(with, without time.Duration) string {
	return fmt.Sprintf("%s: %+.0f %% of %s", tell(with), 100*(float64(with)/float64(max(without, 1))-1), tell(without))
}
