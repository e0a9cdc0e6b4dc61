package shadow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/shadow"
	"github.com/weftserve/weft/sharedsched"
)

func TestEndsWithoutAnAnswer(t *testing.T) {
	dropped, failed := counts{Offered: 1, Dropped: 1}, counts{Offered: 1, Failed: 1}
	for _, tt := range []struct {
		err  error
		want counts
	}{
		{&sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull}, dropped},
		{fmt.Errorf("wrapped: %w", &sharedsched.Refusal{Reason: sharedsched.RefusedForGoodput}), dropped},
		{sharedsched.ErrExpired, dropped},
		{sharedsched.ErrRemoved, dropped},
		{sharedsched.ErrDraining, dropped},
		{sharedsched.ErrClosed, dropped},
		{fmt.Errorf("wrapped: %w", catalog.ErrNotReady), dropped},
		{fmt.Errorf("wrapped: %w", catalog.ErrUntried), dropped},
		{fmt.Errorf("wrapped: %w", catalog.ErrNotOpen), dropped},
		{context.DeadlineExceeded, dropped},
		{context.Canceled, dropped},
		{errModel, failed},
		{&catalog.ModelError{Model: "policy", Version: 3, Err: context.DeadlineExceeded}, failed}, // the model's own
		{catalog.ErrDeviceLost, failed},
		{sharedsched.ErrTooManyRows, failed},
		{errors.New("anything else"), failed},
	} {
		t.Run(tt.err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				observed := &events{}
				m := shadow.New(quiet(shadow.Config{Models: failing(tt.err), Observer: observed}))
				m.Offer(offerOf(3))
				synctest.Wait()
				got := only(t, m)
				if diff := cmp.Diff(tt.want, countsOf(got)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				wantOutcome, wantFailures := shadow.Dropped, []string(nil)
				if tt.want.Failed > 0 {
					wantOutcome, wantFailures = shadow.Failed, []string{tt.err.Error()}
				}
				if diff := cmp.Diff(wantFailures, got.Failures); diff != "" {
					t.Errorf("failures (-want +got)\n%s", diff)
				}
				wantEvents := []shadow.Event{{Model: "policy", Primary: 1, Shadow: 3, Outcome: wantOutcome}}
				if diff := cmp.Diff(wantEvents, observed.list()); diff != "" {
					t.Errorf("events (-want +got)\n%s", diff)
				}
			})
		})
	}
}

func TestSignaturesDiffer(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*tensor.Signature)
		want   string
	}{
		"input missing": {
			func(s *tensor.Signature) { s.Inputs = s.Inputs[:1] },
			`the signatures differ: version 3 takes no input "goal"`,
		},
		"input more": {
			func(s *tensor.Signature) { s.Inputs = append(s.Inputs, spec("mode", tensor.Int8, tensor.Unknown)) },
			`the signatures differ: version 3 also takes the input "mode"`,
		},
		"input type": {
			func(s *tensor.Signature) { s.Inputs[0].DType = tensor.Float16 },
			`the signatures differ: version 3 cannot take the request: inputs["observation"].dtype: expected fp16, got fp32`,
		},
		"input shape": {
			func(s *tensor.Signature) { s.Inputs[0].Shape[1] = 3 },
			`the signatures differ: version 3 cannot take the request: inputs["observation"].shape: expected [?,3], got [1,2]`,
		},
		"output missing": {
			func(s *tensor.Signature) { s.Outputs = s.Outputs[:1] },
			`the signatures differ: version 3 gives no output "value"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := shadow.New(quiet(shadow.Config{Models: modelsFunc(func(context.Context, *catalog.Call) error {
					t.Error("the shadow was asked")
					return errModel
				})}))
				o := offerOf(3)
				tt.change(o.Shadows[0].Version.Signature)
				m.Offer(o)
				synctest.Wait()
				got := only(t, m)
				if diff := cmp.Diff([]string{tt.want}, got.Failures); diff != "" || got.Failed != 1 {
					t.Errorf("%d failed (-want +got)\n%s", got.Failed, diff)
				}
			})
		})
	}
}

// TestInputsWithDefaults of a shadow are those of the primary, as far as that has them.
func TestInputsWithDefaults(t *testing.T) {
	for _, brought := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var inputs []tensor.Tensor
			m := shadow.New(quiet(shadow.Config{Models: modelsFunc(func(_ context.Context, call *catalog.Call) error {
				inputs = call.Inputs
				return errModel
			})}))
			o := offerOf(3)
			goal := o.Primary.Inputs[1]
			s := o.Shadows[0].Version.Signature
			s.Optional = []tensor.Spec{spec("mode", tensor.Int8), s.Inputs[1]}
			s.Inputs = s.Inputs[:1]
			if own := o.Primary.Version.Signature.Clone(); !brought {
				own.Inputs, o.Primary.Inputs = own.Inputs[:1], o.Primary.Inputs[:1]
				version := *o.Primary.Version
				version.Signature = own
				o.Primary.Version = &version
			}
			m.Offer(o)
			synctest.Wait()
			if brought && (len(inputs) != 3 || inputs[1].DType != tensor.Invalid ||
				!slices.Equal(inputs[2].Shape, goal.Shape)) || !brought && len(inputs) != 1 {
				t.Errorf("brought %t: asked with %v", brought, inputs)
			}
		})
	}
}

// TestToleranceForNothing: a tolerance that is for no output of the shadow, or for one that has none, is reported and
// not passed over.
func TestToleranceForNothing(t *testing.T) {
	for name, want := range map[string]string{
		"actoin": `traffic.tolerances: expected floating point outputs of version 3 ("action", "value"), found "actoin"`,
		"choice": `traffic.tolerances: expected floating point outputs of version 3 ("action", "value"), found "choice", which is int64 and agrees only if it is equal`,
	} {
		t.Run(name, func(t *testing.T) {
			m := shadow.New(quiet(shadow.Config{Models: repeat()}))
			o := offerOf(3)
			signature := o.Shadows[0].Version.Signature
			signature.Outputs = append(signature.Outputs, spec("choice", tensor.Int64, tensor.Unknown))
			o.Shadows[0].Shadow = catalog.Shadow{Version: 3, Tolerances: map[string]float64{"action": 1e-2, name: 1e-2}}
			m.Offer(o)
			if err := m.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := only(t, m)
			if diff := cmp.Diff([]string{want}, got.Failures); diff != "" || got.Failed != 1 {
				t.Errorf("%d failed (-want +got)\n%s", got.Failed, diff)
			}
		})
	}
}

// TestBrokenShadows: a shadow's fault is a failure of its own.
func TestBrokenShadows(t *testing.T) {
	for name, tt := range map[string]struct {
		models  modelsFunc
		version *catalog.Version
		want    counts
		failure string
	}{
		"panic": {
			models:  func(context.Context, *catalog.Call) error { panic("out of range") },
			version: versionOf(3, policySignature()),
			want:    counts{Offered: 1, Failed: 1},
			failure: "panic: out of range",
		},
		"no outputs": {
			models:  failing(nil),
			version: versionOf(3, policySignature()),
			want:    counts{Offered: 1, Failed: 1},
			failure: "version 3 answered with 0 outputs instead of 2",
		},
		"not opened": {
			models:  failing(nil),
			version: versionOf(3, nil),
			want:    counts{Offered: 1, Dropped: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := shadow.New(quiet(shadow.Config{Models: tt.models}))
			o := offerOf()
			o.Shadows = []shadow.Target{{Version: tt.version}}
			m.Offer(o)
			if err := m.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := only(t, m)
			if diff := cmp.Diff(tt.want, countsOf(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if failure := strings.Join(got.Failures, ", "); failure != tt.failure {
				t.Errorf("failures %q, want %q", failure, tt.failure)
			}
		})
	}
}

// TestOperatorHearsOnce: the first failure of a pair is logged; how many follow is in its summary.
func TestOperatorHearsOnce(t *testing.T) {
	var said bytes.Buffer
	m := shadow.New(shadow.Config{
		Logger: slog.New(slog.NewTextHandler(&said, nil)),
		Models: modelsFunc(func(_ context.Context, call *catalog.Call) error {
			if call.Version.Number == 4 {
				return sharedsched.ErrExpired
			}
			return errModel
		}),
	})
	for range 3 {
		m.Offer(offerOf(3, 4))
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := said.String(); strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, "event=shadow_failed model=policy version=3 answered_by=1") ||
		!strings.Contains(text, "no such row") {
		t.Errorf("logged\n%s", text)
	}
}
