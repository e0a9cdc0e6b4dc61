package execution

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// watched returns a unit as batched does, the sizes of the runs that were made, and room for what it logs.
func watched(run func(b *tensor.Batch) error) (u *Unit, o *owner, sizes *[]int, logs *weftest.Log) {
	sizes, logs = new([]int), &weftest.Log{}
	u, o = batched(func(b *tensor.Batch) error {
		*sizes = append(*sizes, len(b.Inputs[0].Data))
		return run(b)
	})
	u.Log = slog.New(logs)
	return u, o, sizes, logs
}

// ended executes requests, of whose bytes each is a row, in one batch. Each ends with its answer, "alone" where the
// model failed on it, "again" where it is to be run by itself, "as it came" where it is to be so without padding, or
// with another error.
func ended(u *Unit, padded int, requests ...string) (ends []string, errs []error, r sharedsched.Report) {
	b := &sharedsched.Batch{}
	for _, text := range requests {
		x := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{int64(len(text))}, Data: []byte(text)}
		j := &Job{Unit: u, Rows: len(text), Inputs: []tensor.Tensor{x}}
		b.Spans = append(b.Spans, sharedsched.Span{Payload: j, Rows: j.Rows})
		b.Rows += j.Rows
	}
	b.Padded = max(b.Rows, padded)
	r = Execute(b)
	for _, s := range b.Spans {
		again, undecided := errors.AsType[*UndecidedError](s.Err)
		_, failed := errors.AsType[*catalog.ModelError](s.Err)
		switch {
		case s.Err == nil:
			outputs, err := s.Payload.(*Job).Join()
			ends = append(ends, fmt.Sprint(string(outputs[0].Data), errors.Join(err))[:len(outputs[0].Data)])
		case undecided && again.AsItCame():
			ends = append(ends, "as it came")
		case undecided:
			ends = append(ends, "again")
		case failed:
			ends = append(ends, "alone")
		default:
			ends = append(ends, s.Err.Error())
		}
		errs = append(errs, s.Err)
	}
	return ends, errs, r
}

// TestIsolation: of a batch that fails on some requests the others are answered, in few runs. What cannot be told apart
// in so many is to be run again.
func TestIsolation(t *testing.T) {
	for n := 1; n <= 13; n++ {
		for set := 1; set < 1<<n; set++ {
			if n > 8 && bits.OnesCount(uint(set)) > 1 {
				continue
			}
			u, o, sizes, _ := watched(echo)
			requests := make([]string, n)
			for i := range requests {
				if requests[i] = string(rune('a' + i)); set>>i&1 == 1 {
					requests[i] = "!"
				}
			}
			ends, errs, report := ended(u, 0, requests...)
			answered, again := 0, 0
			for i, end := range ends {
				switch bad := requests[i] == "!"; {
				case end == "again":
					again++
				case !bad && end == requests[i]:
					answered++
				case bad && end == "alone":
				default:
					t.Fatalf("%q ended as %q", requests, ends)
				}
			}
			for _, err := range errs {
				failed, is := errors.AsType[*catalog.ModelError](err)
				undecided, isUndecided := errors.AsType[*UndecidedError](err)
				if is && failed.Mates != answered || isUndecided && undecided.Mates() != answered {
					t.Fatalf("%q ended as %q: %+v", requests, ends, failed)
				}
			}
			if most := 1 + 2*bits.Len(uint(n-1)); len(*sizes) > most || again > 0 && bits.OnesCount(uint(set)) == 1 ||
				report.Failure != sharedsched.ModelFailed || report.Reruns != len(*sizes)-1 || !report.Unusable ||
				report.OutOfMemory || len(o.found) > 0 {
				t.Fatalf("%q ended as %q: runs %v, want at most %d; %+v, found %v", requests, ends, *sizes, most, report, o.found)
			}
		}
	}
}

// TestFailedRuns: what follows from the errors of the runs of a batch, nil being well.
func TestFailedRuns(t *testing.T) {
	of := func(k engine.Kind) error {
		return fmt.Errorf("run: %w", &engine.Error{Kind: k, Err: errors.New("so it is")})
	}
	hiccup, full, stopped, lost := errors.New(
		"hiccup",
	), of(
		engine.OutOfMemory,
	), of(
		engine.Terminated,
	), of(
		engine.DeviceLost,
	)
	const device = `model "m" version 1: the device that holds the model is lost: run: so it is`
	for name, c := range map[string]struct {
		requests []string
		plan     func(p *Plan)
		padded   int
		errs     []error
		ends     []string
		sizes    []int
		failure  sharedsched.Failure
		ranOut   bool
	}{
		"a failure that does not come again": {
			requests: []string{"a", "b", "c", "d"}, errs: []error{hiccup}, ends: []string{"a", "b", "c", "d"},
			sizes: []int{4, 2, 1, 1}, failure: sharedsched.ModelFailed,
		},
		"lost": {
			requests: []string{"a", "b"}, errs: []error{lost}, ends: []string{device, device}, sizes: []int{2},
			failure: sharedsched.LostDevice,
		},
		"lost while isolating": {
			requests: []string{"a", "b", "c", "d"}, errs: []error{hiccup, nil, lost}, ends: []string{"a", "b", device, device},
			sizes: []int{4, 2, 1}, failure: sharedsched.LostDevice,
		},
		"lost in a half": {
			requests: []string{"a", "b", "c", "d"}, errs: []error{full, lost}, ends: []string{device, device, device, device},
			sizes: []int{4, 2}, failure: sharedsched.LostDevice,
		},
		"stopped": {
			requests: []string{"a", "b"}, errs: []error{stopped}, ends: []string{"again", "again"}, sizes: []int{2},
			failure: sharedsched.ModelFailed,
		},
		"stopped alone": {
			requests: []string{"a"}, errs: []error{stopped}, ends: []string{"alone"}, sizes: []int{1},
			failure: sharedsched.ModelFailed,
		},
		"halves fit": {
			requests: []string{"a", "b", "c", "d", "e"}, errs: []error{full}, ends: []string{"a", "b", "c", "d", "e"},
			sizes: []int{5, 3, 2}, failure: sharedsched.OutOfMemory, ranOut: true,
		},
		"one half does not": {
			requests: []string{"a", "b", "c", "d"}, errs: []error{full, full}, ends: []string{"again", "again", "c", "d"},
			sizes: []int{4, 2, 2}, failure: sharedsched.OutOfMemory, ranOut: true,
		},
		"none does": {
			requests: []string{"a", "b"}, errs: []error{full, full, full}, ends: []string{"alone", "alone"},
			sizes:   []int{2, 1, 1},
			failure: sharedsched.OutOfMemory,
		},
		"a cut through a request": {
			requests: []string{"a", "bcdefg", "h"}, errs: []error{full}, ends: []string{"a", "bcdefg", "h"},
			sizes:   []int{8, 4, 4},
			failure: sharedsched.OutOfMemory, ranOut: true,
		},
		"of which one part fails": {
			requests: []string{"a", "bcdefg", "h"}, errs: []error{full, nil, full}, ends: []string{"a", "again", "again"},
			sizes: []int{8, 4, 4}, failure: sharedsched.OutOfMemory, ranOut: true,
		},
		"one row": {
			requests: []string{"a"}, errs: []error{full}, ends: []string{"alone"}, sizes: []int{1},
			failure: sharedsched.OutOfMemory,
		},
		"rows that are not to be parted": {
			requests: []string{"abc"}, plan: func(p *Plan) { p.Batched = false }, errs: []error{full}, ends: []string{"alone"},
			sizes: []int{3}, failure: sharedsched.OutOfMemory, ranOut: true,
		},
		"halves of one request are padded": { // whose answer neither must be taken for
			requests: []string{"abcdefgh"}, plan: func(p *Plan) { p.Allowed = []int{8} }, errs: []error{full},
			ends: []string{"abcdefgh"}, sizes: []int{8, 8, 8}, failure: sharedsched.OutOfMemory, ranOut: true,
		},
		"padded": {requests: []string{"a", "b"}, padded: 8, ends: []string{"a", "b"}, sizes: []int{8}},
		"isolated in allowed sizes": {
			requests: []string{"!", "b", "c", "d", "e"}, plan: func(p *Plan) { p.Allowed = []int{3, 6} }, padded: 6,
			ends: []string{"alone", "b", "c", "d", "e"}, sizes: []int{6, 3, 3, 3, 3, 3, 3}, failure: sharedsched.ModelFailed,
		},
		"no time to isolate": {
			requests: []string{"a", "!", "c"}, plan: func(p *Plan) { p.Budget = 1 }, ends: []string{"again", "again", "again"},
			sizes: []int{3}, failure: sharedsched.ModelFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			errs := slices.Clone(c.errs)
			u, _, sizes, _ := watched(func(b *tensor.Batch) error {
				if len(errs) > 0 {
					err := errs[0]
					if errs = errs[1:]; err != nil {
						return err
					}
				}
				return echo(b)
			})
			p := *u.Plan()
			if c.plan != nil {
				c.plan(&p)
			}
			u.Follow(&p)
			ends, all, report := ended(u, c.padded, c.requests...)
			if !slices.Equal(ends, c.ends) || !slices.Equal(*sizes, c.sizes) {
				t.Errorf("ended as %q in runs of %v, want %q in %v", ends, *sizes, c.ends, c.sizes)
			}
			if report.Failure != c.failure || report.OutOfMemory != c.ranOut || report.Reruns != len(*sizes)-1 ||
				report.Unusable != (c.failure != sharedsched.NotFailed) {
				t.Errorf("reported %+v", report)
			}
			for i, err := range all {
				if failed, is := errors.AsType[*catalog.ModelError](err); is && (failed.Model != "m" || failed.Version != 1) ||
					ends[i] == "alone" && len(c.errs) > 0 && !errors.Is(err, c.errs[0]) {
					t.Errorf("request %d: %v", i, err)
				}
			}
		})
	}
}

// TestPanic of an engine: it is an error like others, and the operator gets the stack.
func TestPanic(t *testing.T) {
	for value, logged := range map[any]int{
		"kernel bug": 2, errors.New("kernel bug"): 2, &engine.Error{Kind: engine.OutOfMemory, Err: errors.New("kernel bug")}: 0,
	} {
		u, _, _, logs := watched(func(b *tensor.Batch) error {
			if bytes.Contains(b.Inputs[0].Data, []byte("!")) {
				panic(value)
			}
			return echo(b)
		})
		ends, errs, _ := ended(u, 0, "a", "b", "!", "d")
		if want := []string{"a", "b", "alone", "d"}; logged > 0 && !slices.Equal(ends, want) ||
			!strings.Contains(
				errs[2].Error(),
				"the run panicked: kernel bug",
			) || strings.Contains(errs[2].Error(), "goroutine") {
			t.Errorf("ended as %q, %v", ends, errs)
		}
		if n := len(logs.Event("run_panicked")); n != logged {
			t.Errorf("%v: logged %d times, want %d", value, n, logged)
		}
	}
}

// TestDeviceTime: that of the engine counts, over all runs; where it says none, only the scheduler knows it.
func TestDeviceTime(t *testing.T) {
	for _, each := range []time.Duration{0, time.Second} {
		u, _, sizes, _ := watched(func(b *tensor.Batch) error {
			b.DeviceTime = each
			return echo(b)
		})
		if _, _, r := ended(u, 0, "a", "b"); r.DeviceTime != each || r.Unusable {
			t.Errorf("of a batch: %+v", r)
		}
		*sizes = nil
		if _, _, r := ended(u, 0, "a", "!"); r.DeviceTime != each*time.Duration(len(*sizes)) {
			t.Errorf("of %d runs: %+v", len(*sizes), r)
		}
	}
}

// TestPaddingRepeatsTheLastRow: made-up rows are real data, which takes the model nowhere that a request could not.
func TestPaddingRepeatsTheLastRow(t *testing.T) {
	u, _, _, _ := watched(func(b *tensor.Batch) error {
		if got := string(b.Inputs[0].Data); got != "abcddd" {
			t.Errorf("the rows of the run are %q", got)
		}
		return echo(b)
	})
	ended(u, 6, "a", "bcd")
}

// TestRowsThatAreMissing in the outputs of a batch: whose they are is not known, so that each of its requests is to be
// run as it came, and the owner hears of it.
func TestRowsThatAreMissing(t *testing.T) {
	filter := func(b *tensor.Batch) error { // leaves out each '-'
		if bytes.ContainsRune(b.Inputs[0].Data, '!') {
			return errors.New("no exclamations")
		}
		kept := bytes.ReplaceAll(b.Inputs[0].Data, []byte("-"), nil)
		copy(b.Output(0, tensor.Uint8, tensor.Shape{int64(len(kept))}, len(kept)), kept)
		return nil
	}
	const came = "as it came"
	for name, c := range map[string]struct {
		requests []string
		padded   int
		full     bool // there is no memory for more than two rows
		ends     []string
		found    bool
	}{
		"in a batch":         {requests: []string{"a", "-", "c"}, ends: []string{came, came, came}, found: true},
		"with padding":       {requests: []string{"-"}, padded: 4, ends: []string{came}, found: true},
		"alone":              {requests: []string{"a-c"}, ends: []string{"ac"}},
		"behind a failure":   {requests: []string{"a", "b", "!", "-"}, ends: []string{"a", "b", "alone", ""}},
		"beside a failure":   {requests: []string{"a", "-", "!", "d"}, ends: []string{came, came, "alone", "d"}, found: true},
		"right of a failure": {requests: []string{"!", "b", "c", "-"}, ends: []string{"alone", "b", came, came}, found: true},
		"in a half":          {requests: []string{"a", "b", "-", "d"}, full: true, ends: []string{"a", "b", came, came}, found: true},
	} {
		u, o, _, _ := watched(func(b *tensor.Batch) error {
			if c.full && len(b.Inputs[0].Data) > 2 {
				return &engine.Error{Kind: engine.OutOfMemory, Err: errors.New("full")}
			}
			return filter(b)
		})
		ends, _, report := ended(u, c.padded, c.requests...)
		if !slices.Equal(ends, c.ends) || report.Unusable == (name == "alone") || (len(o.found) == 1) != c.found {
			t.Errorf("%s: ended as %q, want %q; %+v, found %v", name, ends, c.ends, report, o.found)
		}
		if c.found &&
			(o.found[0].Lost != nil || !strings.Contains(o.found[0].Rowless.Error(), `output "y" has the shape [`)) {
			t.Errorf("%s: found %v", name, o.found)
		}
	}
}

// TestForget: a job that is run once more may have as many bytes of outputs as before.
func TestForget(t *testing.T) {
	u, _ := batched(echo)
	u.MaxAnswer = 4
	x := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{4}, Data: []byte("abcd")}
	j := &Job{Unit: u, Rows: 4, Inputs: []tensor.Tensor{x}}
	for range 2 {
		j.Forget()
		for _, first := range []int{0, 2} {
			b := &sharedsched.Batch{
				Rows: 2, Padded: 2, Spans: []sharedsched.Span{{Payload: j, First: first, Rows: 2}},
			}
			if Execute(b); b.Spans[0].Err != nil {
				t.Fatalf("row %d: %v", first, b.Spans[0].Err)
			}
		}
		outputs, err := j.Join()
		if err != nil || !slices.Equal(outputs[0].Data, x.Data) {
			t.Fatalf("%v, %v", outputs, err)
		}
	}
}
