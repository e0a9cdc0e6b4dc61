package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// variant is a model that is served with a setting and, for comparison, without.
type variant struct{ model, setting string }

const (
	graphsSetting = "cuda_graphs: true"
	pinSetting    = "pin_buffers: true"
)

// contest is a network that is served as it is and with a setting.
type contest struct {
	plain, set variant
	network    []byte
	width      int // of its input
}

// contests returns the networks to compare: a small policy and a deeper one with CUDA graphs and without, and a model
// with a large input with page-locked buffers and without.
func contests() (graphs []contest, pinned contest) {
	const frame = 3 * 224 * 224 // numbers of a camera's picture
	deep := []int{policyInput}
	for range 16 {
		deep = append(deep, 256)
	}
	graphs = []contest{
		{
			variant{"policy", ""},
			variant{"policy_graphs", graphsSetting},
			onnxgraph.MLP("policy", []int{policyInput, 256, 128, policyOutput}, 1, "Elu", "Tanh"), policyInput,
		},
		{
			variant{"deep_policy", ""},
			variant{"deep_policy_graphs", graphsSetting},
			onnxgraph.MLP("deep_policy", append(deep, policyOutput), 1, "Elu", "Tanh"), policyInput,
		},
	}
	return graphs, contest{
		variant{"frames", ""},
		variant{"frames_locked", pinSetting},
		onnxgraph.MLP("frames", []int{frame, 4}, 1, "Tanh", ""), frame,
	}
}

// variants returns the variants that the device allows, the plain one first.
func (s *suite) variants(c *contest) []variant {
	if s.onGPU() {
		return []variant{c.plain, c.set}
	}
	return []variant{c.plain}
}

// policy times single batches, with settings and without. A lone caller asks the variants in turn, with other numbers
// each time, so that neither a drifting clock nor an answer to an earlier question goes unnoticed.
func (s *suite) policy(ctx context.Context) (err error) {
	repository := s.repository("policy")
	graphs, pinned := contests()
	if !s.onGPU() {
		s.report.skip("policy: CUDA graphs", "there is no GPU")
		s.report.skip("frames: page-locked buffers", "there is no GPU")
	}
	for _, c := range append(graphs, pinned) {
		for _, v := range s.variants(&c) {
			if err := s.placeVariant(repository, v, c.network); err != nil {
				return err
			}
		}
	}
	v, err := s.serve(ctx, s.folder("policy"), repository)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.stop()) }()
	var errs []error
	for _, c := range graphs {
		for _, rows := range []int{1, 8, 64} {
			errs = append(errs, s.compareGraphs(ctx, v, &c, rows))
		}
		errs = append(errs, s.reportHits(ctx, v, s.variants(&c)))
	}
	times, far, err := s.compareVariants(ctx, v, s.variants(&pinned), 8, pinned.width)
	if err == nil {
		s.report.tell("frames: batch of 8, 588 KiB each", tell(times[pinned.plain.model]))
		if without, with := times[pinned.plain.model], times[pinned.set.model]; with > 0 {
			s.report.tell("frames: page-locked buffers", change(with, without))
			s.report.judge("frames: answers with page-locked buffers", s.tolerances(), far.String(), far.within)
		}
	}
	return errors.Join(append(errs, err)...)
}

// compareGraphs compares batches of that many rows with CUDA graphs and without.
func (s *suite) compareGraphs(ctx context.Context, v *server, c *contest, rows int) error {
	times, far, err := s.compareVariants(ctx, v, s.variants(c), rows, c.width)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s: batch of %d", c.plain.model, rows)
	s.report.tell(name, tell(times[c.plain.model]))
	if without, with := times[c.plain.model], times[c.set.model]; with > 0 {
		s.report.timed(name+", CUDA graphs", "< "+tell(without), change(with, without), with < without)
		s.report.judge(name+", answers with CUDA graphs", s.tolerances(), far.String(), far.within)
	}
	return nil
}

func (s *suite) placeVariant(repository string, v variant, network []byte) error {
	settings := []string{"providers: [" + s.provider() + "]"}
	if v.setting != "" {
		settings = append(settings, v.setting)
	}
	return errors.Join(
		write(filepath.Join(repository, v.model, "1", "model.onnx"), network),
		write(filepath.Join(repository, v.model, "model.yaml"),
			fmt.Appendf(nil, "onnx: {%s}\nbatching: {mode: \"on\", allowed_batch_sizes: [1, 8, 64]}\n",
				strings.Join(settings, ", "))))
}

// compareVariants returns the median device time of a batch, by model, and how far the others' answers are from the
// first variant's.
func (s *suite) compareVariants(ctx context.Context, v *server, variants []variant, rows,
	width int,
) (map[string]time.Duration, difference, error) {
	const questions = 8
	requests := make([]*weftv1.PredictRequest, questions)
	numbers := randomFloats(questions * rows * width)
	for i := range requests {
		requests[i] = rowsOf("", onnxgraph.MLPInput, rows, width, numbers[i*4*rows*width:][:4*rows*width])
	}
	far := difference{within: true}
	took := map[string][]time.Duration{}
	end := time.Now().Add(s.Span / 4)
	for k := 0; k < 3*questions || time.Now().Before(end); k++ {
		var truth *weftv1.PredictResponse
		request := requests[k%questions]
		for _, one := range variants {
			request.Model = &weftv1.ModelSpec{Name: one.model}
			answer, err := v.predictions().Predict(ctx, request)
			if err != nil {
				return nil, far, fmt.Errorf("%s: %w", one.model, err)
			}
			took[one.model] = append(took[one.model],
				time.Duration(answer.GetExecution().GetDeviceUs())*time.Microsecond)
			if truth == nil {
				truth = answer
			}
			far.add(s.compare(fmt.Sprintf("%s, %d rows", one.model, rows), outputs(truth), outputs(answer)))
		}
	}
	medians := map[string]time.Duration{}
	for model, times := range took {
		slices.Sort(times)
		medians[model] = quantile(times, 0.5)
	}
	return medians, far, nil
}

// reportHits reads how many executions replayed a captured graph.
func (s *suite) reportHits(ctx context.Context, v *server, variants []variant) error {
	page, err := v.metrics(ctx)
	if err != nil {
		return err
	}
	for _, one := range variants {
		hits, err := page.value("weft_captured_graph_hit_rate", "model", one.model)
		if err != nil {
			return err
		}
		if one.setting == graphsSetting {
			s.report.judge(one.model+": replayed graphs", fmt.Sprintf("≥ %g %%", 100*s.bounds.graphHits),
				fmt.Sprintf("%.1f %%", 100*hits), hits >= s.bounds.graphHits)
		} else {
			s.report.judge(one.model+": replayed graphs where none were asked for", "0 %",
				fmt.Sprintf("%.1f %%", 100*hits), hits == 0)
		}
	}
	return nil
}

func tell(d time.Duration) string { return fmt.Sprintf("%d µs", d.Microseconds()) }

// change describes the change of a time.
func change(with, without time.Duration) string {
	return fmt.Sprintf("%s: %+.0f %% of %s", tell(with), 100*(float64(with)/float64(max(without, 1))-1), tell(without))
}
