package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// judged returns the promises that a server is judged by after some figures were noted: in round 0 of place "p".
func judged(figures map[key]float64, multiples ...float64) map[string][]string {
	b := newBook()
	for k, v := range figures {
		k.place = "p"
		b.note(k, 0, v)
	}
	rows := map[string][]string{}
	for _, p := range (&judge{book: b, place: "p", server: weftDevice}).all(multiples) {
		rows[p.what] = p.row()[3:]
	}
	return rows
}

func TestPromises(t *testing.T) {
	at := func(scene, target, figure string) key { return key{"", scene, target, figure} }
	small, large := wireScene("4 KB"), wireScene("600 KB")
	overload := ladderScene(hurried, 2)
	figures := map[key]float64{
		at(small, echoBytes, answersFigure):    1000,
		at(small, echoZeroCopy, answersFigure): 1250,
		at(small, weftDevice, answersFigure):   1000,

		at(small, echoBytes, cpuFigure):  30,
		at(small, weftDevice, cpuFigure): 60,

		at(large, echoZeroCopy, answersFigure): 100,
		at(large, weftDevice, answersFigure):   90,
		at(large, echoBytes, memoryFigure):     100,
		at(large, weftDevice, memoryFigure):    190,

		at(policyName, echoBytes, cpuFigure):                              20,
		at(engineScene(policyName), engineTarget, bestFigure+cpuFigure):   5,
		at(policyName, weftDevice, cpuFigure):                             30,
		at(loneScene(policyName), echoBytes, p50Figure):                   0.1,
		at(loneScene(policyName), weftDevice, p50Figure):                  0.2,
		at(engineScene(policyName), engineTarget, batchFigure(1, "us")):   50,
		at(capacityScene+overloadPart, weftDevice, answersFigure):         1000,
		at(refusalScene, echoRefusal, cpuFigure):                          100,
		at(overload, weftDevice, refusalsFigure):                          1000,
		at(overload, weftDevice, goodputFigure):                           450, // of 1000 less a tenth
		at(overload, weftDevice, refusedFigure):                           4,
		at(overload, weftDevice, lateFigure):                              2,
		at(slowScene+insistent.name, weftDevice, recoveryFigure):          2.5,
		at(partLoads[3].scene(), weftDevice, p50Figure):                   3,
		at(partLoads[3].scene(), weftDevice, perfectP50):                  1.5,
		at(networkLoads[0].scene(), weftDevice, answersFigure):            950,
		at(networkLoads[2].scene(), weftDevice, answersFigure):            50,
		at(engineScene(networkName), engineTarget, bestFigure+rowsFigure): 1000,
	}
	for _, m := range models() {
		figures[at(engineScene(m.name), engineTarget, memoryFigure)] = 10
	}
	got := judged(figures, 0.5, 2)
	want := map[string][]string{
		"answers over bytes echo, 4 KB":                                      {"1.00", "≥ 0.95", "yes"},
		"answers over zero-copy echo, 4 KB":                                  {"0.80", "≥ 0.85", "NO"},
		"answers over bytes echo, 4 KB" + byTime:                             {"0.50", "≥ 0.95", "NO"},
		"answers over zero-copy echo, 600 KB":                                {"0.90", "≥ 0.75", "yes"},
		"memory, less the models', over echo, 600 KB":                        {"1.40", "≤ 1.30", "NO"},
		"policy: processor time over echo and model":                         {"1.20", "≤ 1.25", "yes"},
		"lone caller, policy: p50 over echo and model, us":                   {"50", "≤ 60", "yes"},
		"network, 64 callers: answers over ONNX Runtime alone":               {"0.95", "≥ 0.70", "yes"},
		"network, 64 callers, 16 rows each: answers over ONNX Runtime alone": {"0.80", "≥ 0.90", "NO"},
		"2 x, deadline 50 ms: in time over the bound":                        {"0.50", "≥ 0.95", "NO"},
		"2 x, deadline 50 ms: refused, p99 ms":                               {"4.0", "≤ 5.0", "yes"},
		"2 x, deadline 50 ms: late executions, %":                            {"2.0", "≤ 1.0", "NO"},
		slowScene + insistent.name + ": back within s":                       {"2.5", "≤ 2.0", "NO"},
		"network at 50 %: p50 over a perfect batcher's":                      {"2.00", "≤ 1.50", "NO"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBound(t *testing.T) {
	for _, tt := range []struct{ capacity, refusals, costUs, want float64 }{
		{1000, 0, 50, 1000},
		{1000, 2000, 50, 900},
		{1000, 50_000, 50, 0}, // all the time goes into refusals
	} {
		if got := boundOf(tt.capacity, tt.refusals, tt.costUs); got != tt.want {
			t.Errorf("%+v: %g", tt, got)
		}
	}
}
