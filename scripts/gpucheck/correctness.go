package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/shadow"
)

// correctness asks every version of every model the same on the device and on the CPU, alone and in a crowd, and compares the answers
// with each other and with recorded ones. fp32 is not rounded to tf32, which is onnx.tf32's default.
func (s *suite) correctness(ctx context.Context) error {
	for i, repository := range s.repositories() {
		if err := s.compareModels(ctx, repository, fmt.Sprintf("correctness_%d", i+1)); err != nil {
			return fmt.Errorf("%s: %w", repository, err)
		}
	}
	return nil
}

func (s *suite) compareModels(ctx context.Context, from, folder string) (err error) {
	repository, dir := s.repository(folder), s.folder(folder)
	twins, err := placeTwins(from, repository, s.provider())
	if err != nil {
		return err
	}
	v, err := s.serve(ctx, dir, repository)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.stop()) }()

	name := "correctness: " + from
	var log strings.Builder
	agreed, worst := 0, difference{}
	for _, t := range twins {
		found, err := s.compareTwin(ctx, v, t)
		switch {
		case errors.Is(err, errNotOnCPU):
			s.report.skip(name+": "+t.String(), err.Error())
		case err != nil:
			s.report.judge(name+": "+t.String(), "", err.Error(), false)
		case !found.within:
			s.report.judge(name+": "+t.String(), s.tolerances(), found.String(), false)
		default:
			agreed++
			if found.far >= worst.far {
				worst = found
			}
		}
		fmt.Fprintf(&log, "%v: %v %v\n", t, found, err)
	}
	s.report.judge(name, s.tolerances(), fmt.Sprintf("%d of %d versions agree; farthest %v", agreed, len(twins), worst), agreed > 0)
	return write(filepath.Join(dir, "differences.txt"), []byte(log.String()))
}

func (s *suite) tolerances() string {
	return fmt.Sprintf("≤ %g of the largest value (fp16: %g)", s.bounds.difference, s.bounds.halfDifference)
}

// difference is the largest that was seen between two answers of which the second should be the first.
type difference struct {
	far    float64 // as a part of the output's largest magnitude
	where  string
	within bool
}

func (d difference) String() string {
	if d.where == "" {
		return "none"
	}
	return fmt.Sprintf("%.2g: %s", d.far, d.where)
}

// errNotOnCPU says that there is nothing to compare with.
var errNotOnCPU = errors.New("it cannot be asked on the CPU either")

// compareTwin asks a version every question on both sides: one by one, then all at once, several times over, so that they share
// executions.
func (s *suite) compareTwin(ctx context.Context, v *server, t twin) (difference, error) {
	side := func(model string) *weftv1.ModelSpec {
		return &weftv1.ModelSpec{Name: model, VersionChoice: &weftv1.ModelSpec_Version{Version: t.version}}
	}
	onDevice, onCPU := side(t.model), side(onCPU(t.model))
	facts, err := v.predictions().GetModelMetadata(ctx, &weftv1.GetModelMetadataRequest{Model: onCPU})
	if err != nil {
		return difference{}, fmt.Errorf("%w: %w", errNotOnCPU, err)
	}
	asked, err := questions(t, facts.GetSignature())
	if err != nil {
		return difference{}, err
	}
	found := difference{within: true}
	truth := make([][]shadow.Output, len(asked))
	for i, q := range asked {
		want, err := v.ask(ctx, onCPU, q)
		if err != nil {
			return found, fmt.Errorf("%w: question %d: %w", errNotOnCPU, i+1, err)
		}
		truth[i] = outputs(want)
		got, err := v.ask(ctx, onDevice, q)
		if err != nil {
			return found, fmt.Errorf("question %d: %w", i+1, err)
		}
		if on := got.GetExecution().GetDevice(); on != s.Device {
			return found, fmt.Errorf("it ran on %s instead of %s", on, s.Device)
		}
		found.add(s.compare(fmt.Sprintf("%v question %d", t, i+1), truth[i], outputs(got)))
		if q.want != nil {
			found.add(s.compare(fmt.Sprintf("%v question %d as recorded", t, i+1), q.want, outputs(got)))
		}
	}
	const crowd = 8
	var (
		asking sync.WaitGroup
		mu     sync.Mutex
		fault  error
	)
	for k := range crowd * len(asked) {
		asking.Go(func() {
			i := k % len(asked)
			got, err := v.ask(ctx, onDevice, asked[i])
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fault = fmt.Errorf("question %d in a crowd: %w", i+1, err)
				return
			}
			found.add(s.compare(fmt.Sprintf("%v question %d in a crowd", t, i+1), truth[i], outputs(got)))
		})
	}
	asking.Wait()
	return found, fault
}

// ask asks one question.
func (v *server) ask(ctx context.Context, model *weftv1.ModelSpec, q question) (*weftv1.PredictResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return v.predictions().Predict(ctx, &weftv1.PredictRequest{
		Model: model, Inputs: q.inputs, OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
	})
}

// compare returns the largest difference of an answer.
func (s *suite) compare(where string, want, got []shadow.Output) difference {
	tolerances := map[string]float64{}
	for _, o := range want {
		tolerances[o.Name] = s.bounds.difference
		if o.DType.Size() == 2 {
			tolerances[o.Name] = s.bounds.halfDifference
		}
	}
	found := difference{within: true}
	for _, d := range shadow.Compare(want, got, func(output string) float64 { return tolerances[output] }) {
		one := difference{far: d.MaxRelative, where: where + ", output " + d.Name, within: d.Agreed && d.Mismatch == ""}
		if d.Mismatch != "" {
			one.where += ": " + d.Mismatch
		}
		found.add(one)
	}
	return found
}

// add keeps the larger of two differences; one that is too large before one that is not.
func (d *difference) add(o difference) {
	if d.within && !o.within || d.within == o.within && o.far > d.far {
		*d = o
	}
}
