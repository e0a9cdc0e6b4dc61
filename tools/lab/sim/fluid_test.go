package sim

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFluidBatch(t *testing.T) {
	m := linear("m", 4, 0.5, 100, 1)
	// (b-1)/100 + 0.004 + 0.0005 b = 0.1  ⇒  b = 0.106/0.0105
	if got, want := fluidBatch(&m, 100), 0.106/0.0105; math.Abs(got-want) > 0.02 {
		t.Errorf("batch at 100/s: %.3f, want %.3f", got, want)
	}
	late := linear("m", 4, 0.5, 3, 1)
	if got := fluidBatch(&late, 100); got != 1 {
		t.Errorf("batch of a model that is too slow for its SLO: %.3f, want 1", got)
	}
	if got := fluidBatch(&m, 1e5); got != maxBatch {
		t.Errorf("batch at 100000/s: %.3f, want %d", got, maxBatch)
	}
	m.Steps = []time.Duration{4 * time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond}
	if got := fluidCost(&m, 2.5); math.Abs(got-0.0275) > 1e-12 {
		t.Errorf("a batch of 2.5 costs %.4f s, want 0.0275", got)
	}
}

// TestCapacityOfOneModel: at capacity the device runs batch after batch, so that b requests come while a batch of b
// runs.
func TestCapacityOfOneModel(t *testing.T) {
	models := []Model{linear("m", 4, 0.4, 50, 7)}
	toCapacity(models)
	b := fluidBatch(&models[0], models[0].Rate)
	if got := models[0].Rate * fluidCost(&models[0], b); math.Abs(got/b-1) > 1e-6 {
		t.Errorf("%.4f requests come while a batch of %.4f runs", got, b)
	}
	// b-1 gaps of cost(b)/b and the batch itself fill the SLO.
	cost := fluidCost(&models[0], b)
	if got := (b-1)*cost/b + cost; math.Abs(got-0.05) > 1e-5 {
		t.Errorf("the first of a batch waits %.5f s, want 0.05", got)
	}
}

func TestSuiteIsAtCapacity(t *testing.T) {
	for _, w := range append(Suite(), Bursts()...) {
		sum := 0.0
		for i := range w.Models {
			sum += fluidDemand(&w.Models[i], w.Models[i].Rate)
		}
		if math.Abs(sum-1) > 1e-6 {
			t.Errorf("%s asks for %.6f of the device at load 1", w.Name, sum)
		}
	}
	s := sceneOf(t, "aggressor")
	sum := 0.0
	for i := range s.Workload.Models {
		sum += fluidDemand(&s.Workload.Models[i], s.Workload.Models[i].Rate)
	}
	if math.Abs(sum-2.7) > 1e-6 {
		t.Errorf("aggressor asks for %.6f of the device", sum)
	}
}

func TestWaterFill(t *testing.T) {
	tests := []struct {
		name    string
		weights []float64
		demand  []float64
		want    []bool
	}{
		{"all fit", nil, []float64{0.5, 0.3, 0.2}, []bool{true, true, true}},
		// After 0.1 the others may have 0.45 each.
		{"one is modest", nil, []float64{0.5, 0.1, 0.46}, []bool{false, true, false}},
		{"what the modest leave is shared", nil, []float64{0.45, 0.1, 2}, []bool{true, true, false}},
		{"weights", []float64{3, 1}, []float64{0.75, 2}, []bool{true, false}},
		{"weights, too much", []float64{3, 1}, []float64{0.76, 2}, []bool{false, false}},
		{"weights of the modest", []float64{3, 1, 1}, []float64{0.5, 0.3, 0.2}, []bool{true, true, true}},
		{"a small weight", []float64{3, 1}, []float64{0.8, 0.2}, []bool{true, true}},
	}
	for _, tt := range tests {
		models := make([]Model, len(tt.demand))
		for i := range tt.weights {
			models[i].Weight = tt.weights[i]
		}
		if diff := cmp.Diff(tt.want, waterFill(models, tt.demand)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// sceneOf returns the scene of that name.
func sceneOf(t *testing.T, name string) *Scene {
	t.Helper()
	for _, s := range Scenes() {
		if s.Name == name {
			return &s
		}
	}
	t.Fatalf("no scene is called %q", name)
	return nil
}
