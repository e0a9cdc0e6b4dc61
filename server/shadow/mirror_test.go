package shadow_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/shadow"
	"github.com/weftserve/weft/sharedsched"
)

func TestShadowIsAskedTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked catalog.Call
		var left time.Duration
		observed := &events{}
		m := shadow.New(quiet(shadow.Config{
			Observer: observed,
			Models: modelsFunc(func(ctx context.Context, call *catalog.Call) error {
				asked = *call
				deadline, _ := ctx.Deadline()
				left = time.Until(deadline)
				call.Results = []tensor.Tensor{weftest.Floats(tensor.Shape{1, 2}, 5, 4)}
				call.Outcome.Compute = 6 * time.Millisecond
				return nil
			}),
		}))

		o := offerOf()
		o.Primary.Wanted = []int{0}
		o.Primary.Results = o.Primary.Results[:1]
		other := policySignature() // its tensors are in another order, and there is one output more
		slices.Reverse(other.Inputs)
		other.Outputs = append([]tensor.Spec{spec("debug", tensor.Int8, 1), other.Outputs[1]}, other.Outputs[0])
		version := versionOf(3, other)
		o.Shadows = []shadow.Target{{Version: version, Shadow: catalog.Shadow{Version: 3, Tolerance: 0.2}}}
		was := o.Primary.Clone()
		m.Offer(o)
		for _, t := range slices.Concat(o.Primary.Inputs, o.Primary.Results) {
			clear(t.Data) // another request's now
			clear(t.Shape)
		}
		synctest.Wait()

		want := catalog.Call{
			Version: version, Inputs: []tensor.Tensor{was.Inputs[1], was.Inputs[0]}, Rows: 1,
			Wanted: []int{2},
			Limit:  time.Now().Add(10 * time.Second), Priority: sharedsched.Sheddable, Shadow: true,
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("call (-want +got)\n%s", diff)
		}
		if left != 10*time.Second {
			t.Errorf("the call may take %v, want 10 s", left)
		}
		got := only(t, m)
		ms := time.Millisecond
		wantSummary := shadow.Summary{
			Model: "policy", PrimaryVersion: 1, ShadowVersion: 3, Offered: 1, Done: 1, Agreed: 1,
			Outputs: []shadow.OutputSummary{{
				Name: "action", MaxAbsolute: 1, MaxRelative: 0.2, MinCosine: 40. / 41, MeanCosine: 40. / 41, Cosines: 1,
				ArgmaxAgreement: 0, Rows: 1, Agreed: 1,
			}},
			PrimaryComputeP50: 4 * ms, PrimaryComputeP99: 4 * ms, ShadowComputeP50: 6 * ms, ShadowComputeP99: 6 * ms,
		}
		if diff := cmp.Diff(wantSummary, got, cmpopts.EquateApprox(1e-12, 1e-15)); diff != "" {
			t.Errorf("summary (-want +got)\n%s", diff)
		}
		wantEvents := []shadow.Event{{
			Model: "policy", Primary: 1, Shadow: 3, Outcome: shadow.Done, Agreed: true, MaxRelative: 0.2,
			ComputeRatio: 1.5,
		}}
		if diff := cmp.Diff(wantEvents, observed.list()); diff != "" {
			t.Errorf("events (-want +got)\n%s", diff)
		}
	})
}

func TestDisagreement(t *testing.T) {
	for name, tt := range map[string]struct {
		action     tensor.Tensor
		tolerance  float64
		tolerances map[string]float64
		want       counts
	}{
		"default tolerance, within": {
			weftest.Floats(tensor.Shape{1, 2}, 4, 5.004), 0, nil,
			counts{Offered: 1, Done: 1, Agreed: 1},
		},
		"default tolerance, beyond": {
			weftest.Floats(tensor.Shape{1, 2}, 4, 5.006), 0, nil,
			counts{Offered: 1, Done: 1},
		},
		"own tolerance": {
			weftest.Floats(tensor.Shape{1, 2}, 4, 5.004), 1e-4, nil,
			counts{Offered: 1, Done: 1},
		},
		"of the output, within": {
			weftest.Floats(tensor.Shape{1, 2}, 4, 5.04), 1e-4,
			map[string]float64{"action": 1e-2},
			counts{Offered: 1, Done: 1, Agreed: 1},
		},
		"of the output, beyond": {
			weftest.Floats(tensor.Shape{1, 2}, 4, 5.04), 1e-2,
			map[string]float64{"action": 1e-4},
			counts{Offered: 1, Done: 1},
		},
		"of the output, equal": {
			weftest.Floats(tensor.Shape{1, 2}, 4, 5.000001), 1e-2,
			map[string]float64{"action": 0},
			counts{Offered: 1, Done: 1},
		},
		"of another output": {
			weftest.Floats(tensor.Shape{1, 2}, 4, 5.04), 0,
			map[string]float64{"value": 1e-2},
			counts{Offered: 1, Done: 1},
		},
		"another shape": {weftest.Floats(tensor.Shape{2, 1}, 4, 5), 0, nil, counts{Offered: 1, Done: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				m := shadow.New(quiet(shadow.Config{
					Models: modelsFunc(func(_ context.Context, call *catalog.Call) error {
						call.Results = []tensor.Tensor{tt.action, answered().Results[1]}
						return nil
					}),
					Shown: func(model string, version int64, episode, outcome string, agreed bool) {
						told = append(told, fmt.Sprint(model, version, episode, outcome, agreed))
					},
				}))
				o := offerOf(3)
				o.Shadows[0].Shadow = catalog.Shadow{Version: 3, Tolerance: tt.tolerance, Tolerances: tt.tolerances}
				m.Offer(o)
				synctest.Wait()
				got := only(t, m)
				if diff := cmp.Diff(tt.want, countsOf(got)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				if value := got.Outputs[1]; value.Name != "value" || value.Agreed != 1 {
					t.Errorf("the other output: %+v", value)
				}
				if want := fmt.Sprint("policy", 3, "e1", "done", tt.want.Agreed == 1); len(told) != 1 || told[0] != want {
					t.Errorf("told %q, want %q", told, want)
				}
			})
		})
	}
}

func TestNoRoom(t *testing.T) {
	for name, c := range map[string]shadow.Config{
		"requests": {MaxPending: 2},
		"bytes":    {MaxPendingBytes: 3*offerBytes - 1},
		"exactly":  {MaxPendingBytes: 2 * offerBytes},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				observed := &events{}
				c.Models, c.Observer = held(gate, repeat()), observed
				m := shadow.New(quiet(c))
				offer := offerOf(3)
				for range 5 {
					m.Offer(offer)
				}
				// Nothing was waited for.
				if diff := cmp.Diff(counts{Offered: 5, Dropped: 3, Pending: 2}, countsOf(only(t, m))); diff != "" {
					t.Errorf("full (-want +got)\n%s", diff)
				}
				want := shadow.Event{Model: "policy", Primary: 1, Shadow: 3, Outcome: shadow.Dropped}
				if diff := cmp.Diff([]shadow.Event{want, want, want}, observed.list()); diff != "" {
					t.Errorf("events (-want +got)\n%s", diff)
				}
				close(gate)
				synctest.Wait()
				m.Offer(offer)
				m.Offer(offer)
				synctest.Wait()
				if diff := cmp.Diff(counts{Offered: 7, Done: 4, Dropped: 3, Agreed: 4},
					countsOf(only(t, m))); diff != "" {
					t.Errorf("with room again (-want +got)\n%s", diff)
				}
			})
		})
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := shadow.New(quiet(shadow.Config{Models: held(nil, nil), Timeout: 3 * time.Second}))
		m.Offer(offerOf(3))
		time.Sleep(3*time.Second - 1)
		synctest.Wait()
		if got := only(t, m); got.Pending != 1 {
			t.Errorf("given up too soon: %+v", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if diff := cmp.Diff(counts{Offered: 1, Dropped: 1}, countsOf(only(t, m))); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestFailuresAreFewAndShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		m := shadow.New(quiet(shadow.Config{Models: modelsFunc(func(context.Context, *catalog.Call) error {
			n++
			return fmt.Errorf("%d \xff%s", n, strings.Repeat("ä", 1000))
		})}))
		for range 10 {
			m.Offer(offerOf(3))
			synctest.Wait()
		}
		got := only(t, m).Failures
		if len(got) != 8 || !strings.HasPrefix(got[0], "3 �ää") || !strings.HasPrefix(got[7], "10 �ää") {
			t.Errorf("got %d failures: %q", len(got), got)
		}
		for _, text := range got {
			if len(text) > 300 || strings.ToValidUTF8(text, "") != text || !strings.HasSuffix(text, "ä...") {
				t.Errorf("%d bytes: %q", len(text), text)
			}
		}
	})
}

func TestOldestPairIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := shadow.New(quiet(shadow.Config{Models: repeat()}))
		offer := func(number int64) {
			m.Offer(offerOf(number))
			synctest.Wait()
		}
		for number := range int64(256) {
			offer(2 + number)
		}
		offer(2) // no longer the oldest
		offer(1000)
		all := m.Summaries("", shadow.Detail{})
		numbers := make([]int64, len(all))
		for i, s := range all {
			numbers[i] = s.ShadowVersion
		}
		if len(all) != 256 || !slices.IsSorted(numbers) || numbers[0] != 2 || numbers[1] != 4 || numbers[255] != 1000 {
			t.Errorf("left are %d", numbers)
		}
		if all[0].Offered != 2 {
			t.Errorf("version 2: %+v", all[0])
		}
		if len(m.Summaries("other", shadow.Detail{})) != 0 {
			t.Error("another model has summaries")
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
