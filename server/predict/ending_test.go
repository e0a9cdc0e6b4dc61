package predict_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/sharedsched"
)

// compared is a Rollouts that remembers which requests it hears of.
type compared []string

// Observe implements predict.Rollouts.
func (c *compared) Observe(model string, version int64, e rollout.Ending) {
	*c = append(*c, fmt.Sprintf("%s/%d %s", model, version, e.Code))
}

// Begun implements predict.Rollouts.
func (c *compared) Begun(model string, version int64, _ rollout.Beginning) {
	*c = append(*c, fmt.Sprintf("%s/%d begun", model, version))
}

// unsendable is a codec whose answer cannot be sent.
type unsendable struct{ *jsonLine }

// Encode implements predict.Codec.
func (unsendable) Encode(*predict.Result) error {
	return &status.AnswerTooLargeError{Bytes: 2, Limit: 1, Remedy: "ask for less"}
}

// TestHowRequestsEnd: however a request ends, it is counted once, recorded if it was let in, reported to a rollout if
// it came to a version, and logged if its caller does not get the whole error; and it leaves the server.
func TestHowRequestsEnd(t *testing.T) {
	whole := &jsonLine{Inputs: map[string]jsonTensor{"observation": {
		Shape:  tensor.Shape{1, 4},
		Values: make([]float32, 4),
	}}}
	secret := &catalog.ModelError{Model: "policy", Version: 2, Err: errors.New("cannot open /tmp/secret/core.1")}
	for name, c := range map[string]struct {
		change   func(*predict.Request)
		run      error // how the model ends; nil: it answers
		code     string
		version  int64
		compared []string
		recorded bool
		logged   string // "": nothing is
		busy     bool   // the episode goes on
		lacked   bool   // there was no capacity
	}{
		"answered": {
			code: "OK", version: 2, compared: []string{"policy/2 begun", "policy/2 OK"}, recorded: true,
			busy: true,
		},
		"the last of its episode": {
			change: func(r *predict.Request) { r.EndOfEpisode = true },
			code:   "OK", version: 2, compared: []string{"policy/2 begun", "policy/2 OK"}, recorded: true,
		},
		"refused at the gate": {run: errFull, code: "ResourceExhausted", lacked: true},
		"a message with a fault": {
			change: func(r *predict.Request) {
				r.Fault = &tensor.FieldError{
					Field: "priority", Want: "one",
					Got: "another",
				}
			},
			code: "InvalidArgument", recorded: true,
		},
		"a name that is too long": {
			change: func(r *predict.Request) { r.ID = strings.Repeat("x", predict.MaxIDBytes+1) },
			code:   "InvalidArgument", recorded: true,
		},
		"an unknown version": {
			change: func(r *predict.Request) { r.Choice.Version = new(int64(9)) },
			code:   "NotFound", recorded: true,
		},
		"inputs that do not fit": {
			change: func(r *predict.Request) { r.Codec, r.Inputs = &jsonLine{}, 0 },
			code:   "InvalidArgument", version: 2, compared: []string{"policy/2 begun", "policy/2 InvalidArgument"},
			recorded: true, busy: true,
		},
		"the model fails": {
			run: secret, code: "Internal", version: 2, compared: []string{"policy/2 begun", "policy/2 Internal"},
			recorded: true,
			logged:   "/tmp/secret/core.1", busy: true,
		},
		"a panic": {
			run: errPanics, code: "Internal", version: 2, compared: []string{"policy/2 begun", "policy/2 Internal"},
			recorded: true,
			logged:   "event=request_panicked", busy: true,
		},
		"superseded": {
			run: predict.ErrSuperseded, code: "Aborted", version: 2, compared: []string{"policy/2 begun"},
			recorded: true, busy: true,
		},
		"expired": {
			run: sharedsched.ErrExpired, code: "DeadlineExceeded", version: 2, lacked: true,
			compared: []string{"policy/2 begun", "policy/2 DeadlineExceeded"}, recorded: true, busy: true,
		},
		"an answer that cannot be sent": {
			change: func(r *predict.Request) { r.Codec = unsendable{whole} },
			code:   "ResourceExhausted", version: 2, compared: []string{"policy/2 begun", "policy/2 ResourceExhausted"},
			recorded: true, busy: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var hears heard
			var compares compared
			var log bytes.Buffer
			models := &servertest.House{Run: func(ctx context.Context, call *catalog.Call) error {
				switch {
				case errors.Is(c.run, errPanics):
					panic("secret")
				case c.run != nil:
					return c.run
				}
				return servertest.RunPolicy(ctx, call)
			}}
			models.Current.Store(servertest.PolicySnapshot())
			p := predict.New(predict.Config{
				MaxConcurrentRequests: 1, Explain: status.Explain, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Observer: &hears, Recorder: &hears, Rollouts: &compares,
			}, models)
			if errors.Is(c.run, errFull) {
				other := &predict.Request{}
				_, _ = p.Predict(t.Context(), other)
				defer p.Leave(other)
				hears = heard{}
			}
			before := p.Gate().Inside()
			req := &predict.Request{Model: "policy", ID: "r", Episode: "game", Inputs: 1, Codec: whole}
			if c.change != nil {
				c.change(req)
			}
			at, err := p.Predict(t.Context(), req)
			if p.Leave(req); p.Gate().Inside() != before {
				t.Errorf("%d requests are in the server, want %d", p.Gate().Inside(), before)
			}
			if (err == nil) != (c.code == "OK") || at.Version != c.version {
				t.Errorf("it ends with %v at %+v", err, at)
			}
			want := []predict.Event{{
				Model: "policy", Version: c.version, Code: c.code, Ending: predict.EndingOf(c.code), Lacked: c.lacked,
				Step: predict.Step{Episode: req.Episode},
			}}
			if c.version != 0 {
				want[0].Slot = "prod"
			}
			rest := cmpopts.IgnoreFields(predict.Event{}, "Number", "ID", "Reason", "Message")
			if diff := cmp.Diff(want, hears.events, rest); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if len(hears.recorded) == 1 != c.recorded || c.recorded && !strings.HasPrefix(hears.recorded[0], c.code) {
				t.Errorf("recorded %q, want %s: %v", hears.recorded, c.code, c.recorded)
			}
			if diff := cmp.Diff(c.compared, []string(compares)); diff != "" {
				t.Errorf("told to a rollout (-want +got):\n%s", diff)
			}
			if (log.Len() > 0) != (c.logged != "") || !strings.Contains(log.String(), c.logged) {
				t.Errorf("the log is %q, want ...%s...", log.String(), c.logged)
			}
			if got := !p.Router().LastUse("policy", 2).IsZero(); got != c.busy {
				t.Errorf("the episode goes on: %v", got)
			}
		})
	}
}

var errFull, errPanics = errors.New("the gate is full"), errors.New("the model panics")
