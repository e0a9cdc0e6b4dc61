package cost

import (
	"math"
	"math/rand/v2"
	"testing"
)

// model is a curve that is measured, and the true cost of its executions on a device.
type model struct {
	*Curve
	base, row, share float64 // of the time, share goes with the clock
}

// world runs models in turn, sizes of each in turn. speed is the clock as a share of the reference; rest, another
// factor.
type world struct {
	Device
	models      []model
	sizes       []int
	noise       float64 // standard deviation, of 1
	clock, rest float64
	rng         *rand.Rand
	turn        int
}

func newWorld(models int, noise float64, sizes ...int) *world {
	w := &world{sizes: sizes, noise: noise, clock: 1, rest: 1, rng: rand.New(rand.NewPCG(1, 2))}
	for i := range models {
		m := model{new(Curve), float64(2+i) * 1e6, float64(1+i%3) * 1e5, clockShare}
		m.On(&w.Device)
		w.models = append(w.models, m)
	}
	return w
}

func (w *world) truth(m model, rows int) float64 {
	return (m.base + m.row*float64(rows)) * (m.share/w.clock + 1 - m.share) * w.rest
}

func (w *world) run(times int) {
	for range times {
		m := w.models[w.turn%len(w.models)]
		rows := w.sizes[w.turn/len(w.models)%len(w.sizes)]
		w.turn++
		m.Settle(m.Begin(rows), duration(w.truth(m, rows)*max(0.1, 1+w.noise*w.rng.NormFloat64())))
	}
}

// worst returns the largest relative error of all estimates.
func (w *world) worst() float64 {
	worst := 0.
	for _, m := range w.models {
		for _, rows := range w.sizes {
			truth := w.truth(m, rows)
			worst = max(worst, math.Abs(float64(m.Estimate(rows).Cost)-truth)/truth)
		}
	}
	return worst
}

// TestNothingDriftsOnAConstantDevice lets medians and residuals learn from each other for long.
func TestNothingDriftsOnAConstantDevice(t *testing.T) {
	for _, models := range []int{1, 2, 10} {
		w := newWorld(models, 0.015, 1, 2, 4, 8)
		w.run(100 * models)
		worst, residuals, published, factor := 0., 0., 0, w.models[0].Explain().Factor
		for range 20000 {
			w.run(1)
			worst = max(worst, w.worst())
			_, _, residual, _ := w.Factors()
			if now := w.models[0].Explain().Factor; now != factor {
				factor = now
				published++
			}
			for _, m := range w.models {
				residuals = max(residuals, math.Abs(math.Log(residual)), math.Abs(math.Log(m.Explain().Residual)))
			}
		}
		if worst > 0.04 || residuals > 0.02 {
			t.Errorf("%d models: estimates are wrong by up to %.1f %%, residuals by %.1f %%", models, 100*worst,
				100*residuals)
		}
		if published > 200 {
			t.Errorf("%d models: %d changes of a factor published in 20000 executions", models, published)
		}
	}
}

func TestAClockStepIsFollowed(t *testing.T) {
	for _, models := range []int{1, 2, 3, 10, 30} {
		for _, sizes := range [][]int{{4}, {1, 2, 4, 8}} {
			for _, telemetry := range []bool{false, true} {
				for _, noise := range []float64{0, 0.015} {
					if models == 1 && len(sizes) == 4 && !telemetry {
						continue // no other model agrees: see TestAStepOfOneModelAlone
					}
					w := newWorld(models, noise, sizes...)
					within := 20
					if telemetry {
						w.Observe(Sample{Clock: 1500, MaxClock: 1500})
						within = 3
					}
					w.run(50 * models * len(sizes))
					w.clock = 0.7
					if telemetry {
						w.Observe(Sample{Clock: 1050, MaxClock: 1500})
					} else if w.worst() < 0.2 {
						t.Fatal("the step makes no difference")
					}
					w.run(within)
					for _, m := range w.models {
						if residual := m.Explain().Residual; models > 2 && math.Abs(residual-1) > 0.05 {
							t.Errorf("%d models: residual %v of one, though it is the device that changed", models,
								residual)
						}
					}
					for i := range 500 { // and they stay there
						if worst := w.worst(); worst > 0.1 {
							t.Errorf("%d models of %d sizes, telemetry %v, noise %v: wrong by up to %.0f %% after %d "+
								"executions",
								models, len(sizes), telemetry, noise, 100*worst, within+i)
							break
						}
						w.run(1)
					}
				}
			}
		}
	}
}

// TestAStepOfOneModelAlone has no other model that agrees: only the slower residual of the curve follows, and the
// medians of its sizes.
func TestAStepOfOneModelAlone(t *testing.T) {
	for _, rest := range []float64{0.7, 1.2, 1.3, 1.4, 2} {
		w := newWorld(1, 0.015, 1, 2, 4, 8)
		w.run(100)
		w.rest = rest
		w.run(25)
		if worst := w.worst(); worst > 0.1 {
			t.Errorf("× %v: wrong by up to %.0f %%", rest, 100*worst)
		}
	}
}
