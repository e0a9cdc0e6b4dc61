package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
	"github.com/weftserve/weft/tools/lab/harness"
)

// correctness asks every version of every model the same questions on the device and on the CPU, one at a time and many
// at once, and compares the answers with each other and with recorded ones. fp32 is not rounded to tf32, which is
// onnx.tf32's default.
func (s *suite) correctness(ctx context.Context) error {
	var errs []error
	for i, repository := range s.repositories() {
		if err := s.compareModels(ctx, repository, fmt.Sprintf("correctness_%d", i+1)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", repository, err))
		}
	}
	return errors.Join(errs...)
}

// agreement holds the findings on the models of a repository.
type agreement struct {
	name            string // of the rows
	agreed, skipped int
	worst           difference
	log             strings.Builder
}

func (s *suite) compareModels(ctx context.Context, from, folder string) error {
	repository, again := s.repository(folder), folder
	twins, err := placeTwins(from, repository, s.provider())
	if err != nil {
		return err
	}
	a := &agreement{name: "correctness: " + from}
	// A model that takes the device or the server down must not hide the results of the others: they are asked again
	// without it.
	left, servers := twins, 0
	for most := 4; len(left) > 0 && servers < most && err == nil; servers++ {
		if servers > 0 {
			again = fmt.Sprintf("%s_again_%d", folder, servers)
		}
		left, err = s.compareUntilGone(ctx, again, repository, left, a)
	}
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%d versions were not asked: %d servers were lost", len(left), servers)
	}
	s.report.judge(a.name, s.tolerances(),
		fmt.Sprintf("%d of %d versions agree, %d cannot be compared; farthest %v", a.agreed, len(twins), a.skipped,
			a.worst),
		a.agreed > 0 && a.agreed+a.skipped == len(twins))
	return errors.Join(err, harness.Write(filepath.Join(s.folder(folder), "differences.txt"), []byte(a.log.String())))
}

// compareUntilGone serves models and compares them, until all are done or one took the device or the server down. It
// returns the models that were not asked, and removes the one that took it down.
func (s *suite) compareUntilGone(ctx context.Context, folder, repository string, twins []twin, a *agreement,
) (left []twin, err error) {
	left = twins
	err = s.serve(ctx, folder, repository, func(v *server) error {
		for len(left) > 0 {
			t := left[0]
			left = left[1:]
			found, err := s.compareTwin(ctx, v, t)
			if errors.Is(err, errIncomparable) && v.isGone(ctx, s.Device) {
				err = errors.New("the server is gone: " + err.Error()) // which is not the CPU's fault
			}
			s.reportTwin(a, t, found, err)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil && (status.Code(err) == codes.DeadlineExceeded || v.isGone(ctx, s.Device)) {
				v.lost = true
				left = slices.DeleteFunc(slices.Clone(left), func(o twin) bool {
					if o.model == t.model {
						s.report.judge(a.name+": "+o.String(), "", "not asked: "+t.String()+" took the server along",
							false)
					}
					return o.model == t.model
				})
				return errors.Join(os.RemoveAll(filepath.Join(repository, t.model)),
					os.RemoveAll(filepath.Join(repository, onCPU(t.model))))
			}
		}
		return nil
	})
	return left, err
}

// reportTwin adds a row for a version that is not as it should be, and counts the others.
func (s *suite) reportTwin(a *agreement, t twin, found difference, err error) {
	fmt.Fprintf(&a.log, "%v: %v %v\n", t, found, err)
	row := a.name + ": " + t.String()
	switch {
	case errors.Is(err, errIncomparable):
		a.skipped++
		s.report.skip(row, err.Error())
	case err != nil:
		s.report.judge(row, "", err.Error(), false)
	case !found.within:
		s.report.judge(row, s.tolerances(), found.String(), false)
	default:
		a.agreed++
		if found.far >= a.worst.far {
			a.worst = found
		}
	}
}

func (s *suite) tolerances() string {
	return fmt.Sprintf("≤ %g of the largest value (fp16: %g, bf16: %g)", s.bounds.difference, s.bounds.fp16,
		s.bounds.bf16)
}

// difference is the largest difference seen between two answers that should be equal.
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

// errIncomparable says that there is nothing to compare with.
var errIncomparable = errors.New("there is nothing to compare with")

func notOnCPU(err error) error {
	return fmt.Errorf("%w: it cannot be asked on the CPU either: %w", errIncomparable, err)
}

// compareTwin asks a version every question on both sides: one by one, then all at once, several times over, so that
// they share executions.
func (s *suite) compareTwin(ctx context.Context, v *server, t twin) (difference, error) {
	side := func(model string) *weftv1.ModelSpec {
		return &weftv1.ModelSpec{Name: model, VersionChoice: &weftv1.ModelSpec_Version{Version: t.version}}
	}
	onDevice, onCPU := side(t.model), side(onCPU(t.model))
	facts, err := v.predictions().GetModelMetadata(ctx, &weftv1.GetModelMetadataRequest{Model: onCPU})
	if err != nil {
		return difference{}, notOnCPU(err)
	}
	asked, err := questions(t, facts.GetSignature())
	if err != nil {
		return difference{}, err
	}
	found := difference{within: true}
	truth := make([][]compare.Output, len(asked))
	for i, q := range asked {
		want, err1 := v.ask(ctx, onCPU, q)
		again, err2 := v.ask(ctx, onCPU, q)
		if err := cmp.Or(err1, err2); err != nil {
			return found, notOnCPU(fmt.Errorf("question %d: %w", i+1, err))
		}
		truth[i] = outputs(want)
		if !s.compare("", truth[i], outputs(again)).within {
			return found, fmt.Errorf("%w: the CPU answers question %d differently each time", errIncomparable, i+1)
		}
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
	var asking errgroup.Group
	var mu sync.Mutex
	for k := range crowd * len(asked) {
		asking.Go(func() error {
			i := k % len(asked)
			got, err := v.ask(ctx, onDevice, asked[i])
			if err != nil {
				return fmt.Errorf("question %d in a crowd: %w", i+1, err)
			}
			mu.Lock()
			defer mu.Unlock()
			found.add(s.compare(fmt.Sprintf("%v question %d in a crowd", t, i+1), truth[i], outputs(got)))
			return nil
		})
	}
	err = asking.Wait()
	return found, err
}

// ask asks one question.
func (v *server) ask(ctx context.Context, model *weftv1.ModelSpec, q question) (*weftv1.PredictResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return v.predictions().Predict(ctx, &weftv1.PredictRequest{
		Model: model, Inputs: q.inputs, OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
	})
}

// compare returns the largest difference of an answer.
func (s *suite) compare(where string, want, got []compare.Output) difference {
	tolerance := func(name string) float64 {
		switch i := slices.IndexFunc(want, func(o compare.Output) bool { return o.Name == name }); want[i].DType {
		case tensor.Float16:
			return s.bounds.fp16
		case tensor.BFloat16:
			return s.bounds.bf16
		default:
			return s.bounds.difference
		}
	}
	found := difference{within: true}
	differences, _ := compare.Outputs(want, got, tolerance)
	for _, d := range differences {
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
