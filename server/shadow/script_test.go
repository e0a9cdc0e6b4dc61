package shadow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/servertest/script"
	"github.com/weftserve/weft/server/shadow"
	"github.com/weftserve/weft/sharedsched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// showing plays scripts: it offers answered requests of version 1 to shadows. Each event is answered by how requests
// ended since the one before, as the Observer hears of it.
//
//	mirror pending=2 bytes=107 timeout=3s log         before the first offer
//	disk 10                                           the log has room for so many bytes; -1: it is endless
//	takes x:fp32:?,2 ... optional y:int8: ... gives z:fp32:?,1 ...    the signature of shadows
//	primary takes|wants|gives ...                     the same of the primary: its wanted outputs, its values
//	answers NAME                                      with the error of errorsByName, "panic", "alike", or "nothing"
//	answers action=1,2:4,5 ...                        with these shapes and values
//	holds, release                                    no shadow answers in between
//	tolerance 1e-4 action=1e-2
//	offer 3 4 [times=2] [id=r1]                       to these shadows
//	counts, failures, outputs, times, known, called, log, warnings, lost, close [1s], closing, closed
type showing struct {
	t          *testing.T
	config     shadow.Config
	mirror     *shadow.Mirror
	events     events
	mu         sync.Mutex // guards what the mirror's goroutines write: shown, called and calledFor
	shown      []string   // what Shown was told since the last event
	disk       *disk
	said       bytes.Buffer
	signature  *tensor.Signature
	primary    *catalog.Call
	tolerance  catalog.Shadow
	answer     modelsFunc
	gate       chan struct{}
	called     *catalog.Call
	calledFor  time.Duration
	closed     atomic.Bool
	ends, read int // events and lines that were answered
}

var errorsByName = map[string]error{
	"queue-full": &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull},
	"goodput":    fmt.Errorf("wrapped: %w", &sharedsched.Refusal{Reason: sharedsched.RefusedForGoodput}),
	"expired":    sharedsched.ErrExpired, "removed": sharedsched.ErrRemoved, "draining": sharedsched.ErrDraining,
	"closed": sharedsched.ErrClosed, "not-ready": fmt.Errorf("wrapped: %w", catalog.ErrNotReady),
	"untried": fmt.Errorf("wrapped: %w", catalog.ErrUntried), "not-open": fmt.Errorf("wrapped: %w", catalog.ErrNotOpen),
	"deadline": context.DeadlineExceeded, "cancelled": context.Canceled, "model": errModel,
	"model-deadline": &catalog.ModelError{Model: "policy", Version: 3, Err: context.DeadlineExceeded}, // the model's own
	"device-lost":    catalog.ErrDeviceLost, "too-many-rows": sharedsched.ErrTooManyRows, "else": errors.New("anything else"),
	"nothing": nil,
}

func newShowing(t *testing.T) *showing {
	s := &showing{t: t, primary: answered(), signature: policySignature(), answer: repeat()}
	s.config = shadow.Config{
		Observer: &s.events, Logger: slog.New(slog.NewTextHandler(&s.said, nil)),
		Models: modelsFunc(func(ctx context.Context, call *catalog.Call) error {
			deadline, _ := ctx.Deadline()
			s.mu.Lock()
			s.called, s.calledFor = call.Clone(), time.Until(deadline)
			gate, answer := s.gate, s.answer
			s.mu.Unlock()
			if gate != nil {
				return held(gate, answer)(ctx, call)
			}
			return answer(ctx, call)
		}),
		Shown: func(model string, version int64, episode, outcome string, agreed bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.shown = append(s.shown, fmt.Sprint(model, " ", version, " ", episode, " ", outcome, " ", agreed))
		},
	}
	t.Cleanup(func() {
		if s.gate == nil && s.mirror != nil {
			_ = s.mirror.Close(context.Background())
		}
	})
	return s
}

func (s *showing) event(line string) string {
	words := strings.Fields(line)
	answer := s.do(words[0], words[1:], strings.TrimPrefix(line, words[0]+" "))
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all, told []string
	times := map[string]int{}
	list := s.events.list()
	for _, e := range list[s.ends:] {
		text := fmt.Sprintf("%d %s", e.Shadow, e.Outcome)
		if e.Outcome == shadow.Done {
			text += fmt.Sprintf(", agreed: %v, off by %.4g, %.4g times as long", e.Agreed, e.MaxRelative, e.ComputeRatio)
		}
		told = append(told, fmt.Sprint(e.Model, " ", e.Shadow, " e1 ", e.Outcome, " ", e.Agreed))
		if times[text]++; times[text] == 1 {
			all = append(all, text)
		}
	}
	// What ends at the same moment ends in any order.
	slices.Sort(all)
	slices.Sort(told)
	if slices.Sort(s.shown); !slices.Equal(s.shown, told) {
		s.t.Errorf("Shown was told %q, want %q", s.shown, told)
	}
	for i, text := range all {
		if n := times[text]; n > 1 {
			all[i] = fmt.Sprintf("%s (%d times)", text, n)
		}
	}
	s.ends, s.shown = len(list), nil
	if answer != "" {
		all = append(all, answer)
	}
	return strings.Join(all, "\n")
}

func (s *showing) do(event string, words []string, rest string) string {
	switch event {
	case "mirror":
		for _, word := range words {
			key, value, _ := strings.Cut(word, "=")
			n, _ := strconv.Atoi(value)
			switch key {
			case "pending":
				s.config.MaxPending = n
			case "bytes":
				s.config.MaxPendingBytes = int64(n)
			case "timeout":
				s.config.Timeout, _ = time.ParseDuration(value)
			case "log":
				s.disk = &disk{room: -1}
				s.config.Log = s.disk
			}
		}
	case "disk":
		n, _ := strconv.Atoi(rest)
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		s.disk.room = n
	case "takes":
		s.signature = signatureOf(words)
	case "unopened":
		s.signature = nil
	case "primary":
		s.setPrimary(words[0], words[1:])
	case "tolerance":
		s.tolerance = catalog.Shadow{Version: 3, Tolerances: map[string]float64{}}
		for _, word := range words {
			name, value, of := strings.Cut(word, "=")
			if x, _ := strconv.ParseFloat(value, 64); of {
				s.tolerance.Tolerances[name] = x
			} else {
				s.tolerance.Tolerance, _ = strconv.ParseFloat(word, 64)
			}
		}
	case "answers":
		s.answer = answerOf(words)
	case "holds":
		s.gate = make(chan struct{})
	case "release":
		close(s.gate)
		s.gate = nil
	case "offer":
		s.offer(words)
	case "closing":
		go func() {
			if err := s.mirror.Close(s.t.Context()); err != nil {
				s.t.Error(err)
			}
			s.closed.Store(true)
		}()
	case "closed":
		return strconv.FormatBool(s.closed.Load())
	case "close":
		ctx, cancel := s.t.Context(), func() {}
		if rest != event {
			d, _ := time.ParseDuration(rest)
			ctx, cancel = context.WithTimeout(ctx, d)
		}
		defer cancel()
		if err := s.mirror.Close(ctx); err != nil {
			s.gate = nil
			return err.Error()
		}
	default:
		return s.show(event)
	}
	return ""
}

func specOf(word string) tensor.Spec {
	part := strings.Split(word, ":")
	dtype, known := tensor.ParseDType(part[1])
	if !known {
		panic(word)
	}
	one := spec(part[0], dtype)
	for size := range strings.FieldsFuncSeq(part[2], func(r rune) bool { return r == ',' }) {
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil {
			n = tensor.Unknown
		}
		one.Shape = append(one.Shape, n)
	}
	return one
}

func signatureOf(words []string) *tensor.Signature {
	made := &tensor.Signature{}
	into := &made.Inputs
	for _, word := range words {
		switch word {
		case "optional":
			into = &made.Optional
		case "gives":
			into = &made.Outputs
		default:
			*into = append(*into, specOf(word))
		}
	}
	return made
}

// tensorOf reads "name=2,3:1,2,3,4,5,6".
func tensorOf(word string) tensor.Tensor {
	_, rest, _ := strings.Cut(word, "=")
	sizes, list, _ := strings.Cut(rest, ":")
	var shape tensor.Shape
	for size := range strings.SplitSeq(sizes, ",") {
		n, _ := strconv.ParseInt(size, 10, 64)
		shape = append(shape, n)
	}
	var values []float32
	for value := range strings.SplitSeq(list, ",") {
		x, _ := strconv.ParseFloat(value, 32)
		values = append(values, float32(x))
	}
	return weftest.Floats(shape, values...)
}

func (s *showing) setPrimary(what string, words []string) {
	version := *s.primary.Version
	version.Signature = version.Signature.Clone()
	s.primary.Version = &version
	switch what {
	case "takes": // so many inputs
		n, _ := strconv.Atoi(words[0])
		version.Signature.Inputs, s.primary.Inputs = version.Signature.Inputs[:n], s.primary.Inputs[:n]
	case "wants":
		s.primary.Wanted, s.primary.Results = []int{0}, s.primary.Results[:1]
	case "gives": // one output, whose rows lie along a dimension
		version.Signature.Outputs, s.primary.Results = version.Signature.Outputs[:1], []tensor.Tensor{tensorOf(words[0])}
		version.Signature.Outputs[0].BatchDim, _ = strconv.Atoi(words[1])
	}
}

func answerOf(words []string) modelsFunc {
	switch n := 0; words[0] {
	case "alike":
		return repeat()
	case "panic":
		return func(context.Context, *catalog.Call) error { panic("out of range") }
	case "long": // reasons, each with its number
		return func(context.Context, *catalog.Call) error {
			n++
			return fmt.Errorf("%d \xff%s", n, strings.Repeat("ä", 1000))
		}
	}
	if err, known := errorsByName[words[0]]; known {
		return failing(err)
	}
	var results []tensor.Tensor
	for _, word := range words {
		results = append(results, tensorOf(word))
	}
	return func(_ context.Context, call *catalog.Call) error {
		call.Results, call.Outcome.Compute = results, 6*time.Millisecond
		return nil
	}
}

func (s *showing) offer(words []string) {
	if s.mirror == nil {
		s.mirror = shadow.New(s.config)
	}
	primary := s.primary.Clone()
	primary.Version = s.primary.Version
	o, times := shadow.Offer{Primary: primary, Slot: "prod", RequestID: "r1", Episode: "e1"}, 1
	for _, word := range words {
		if n, is := strings.CutPrefix(word, "times="); is {
			times, _ = strconv.Atoi(n)
		} else if id, is := strings.CutPrefix(word, "id="); is {
			o.RequestID, _ = strconv.Unquote(id)
		} else {
			number, _ := strconv.ParseInt(word, 10, 64)
			target := shadow.Target{Version: versionOf(number, s.signature), Shadow: s.tolerance}
			o.Shadows = append(o.Shadows, target)
		}
	}
	for range times {
		s.mirror.Offer(o)
	}
	if times == 1 {
		for _, t := range slices.Concat(primary.Inputs, primary.Results) {
			clear(t.Data) // another request's now
			clear(t.Shape)
		}
	}
}

func (s *showing) show(what string) string {
	all := s.mirror.Summaries("policy", shadow.Detail{})
	var lines []string
	switch what {
	case "counts":
		for _, one := range all {
			lines = append(lines, fmt.Sprintf("%d: %+v", one.ShadowVersion, countsOf(one)))
		}
	case "known":
		var numbers []int64
		for _, one := range all {
			numbers = append(numbers, one.ShadowVersion)
		}
		other := len(s.mirror.Summaries("other", shadow.Detail{}))
		return fmt.Sprintf("%d, from %d %d to %d, %d of another model", len(all), numbers[0], numbers[1],
			numbers[len(numbers)-1], other)
	case "failures":
		for _, text := range all[0].Failures {
			if len(text) > 200 {
				text = fmt.Sprintf("%.20s %s (%d bytes)", text, text[len(text)-5:], len(text))
			}
			lines = append(lines, text)
		}
	case "outputs":
		for _, o := range all[0].Outputs {
			lines = append(lines, fmt.Sprintf("%+v", o))
		}
	case "times":
		p := all[0]
		return fmt.Sprint(p.PrimaryComputeP50, " ", p.PrimaryComputeP99, ", ", p.ShadowComputeP50, " ", p.ShadowComputeP99)
	case "called":
		c := s.called
		for _, in := range c.Inputs {
			lines = append(lines, fmt.Sprintf("%v %v %v", in.DType, in.Shape, weftest.Values(in)))
		}
		return strings.Join(append(lines, fmt.Sprintf("rows %d, wants %v, limit in %v, %v, shadow: %v, may take %v", c.Rows,
			c.Wanted, time.Until(c.Limit), c.Priority, c.Shadow, s.calledFor)), "\n")
	case "log": // since the last time
		lines = s.disk.lines()
		from := min(s.read, len(lines))
		s.read = len(lines)
		return strings.Join(lines[from:], "")
	case "warnings":
		for line := range strings.Lines(s.said.String()) {
			_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
			line, _, _ = strings.Cut(line, " stack=")
			lines = append(lines, line)
		}
	case "lost":
		return strconv.FormatInt(s.mirror.LinesLost(), 10)
	default:
		return "no event"
	}
	return strings.Join(lines, "\n")
}

func TestScripts(t *testing.T) {
	script.Play(t, "testdata/shadow.txt", func(t *testing.T) func(string) string { return newShowing(t).event })
}
